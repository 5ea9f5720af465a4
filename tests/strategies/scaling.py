"""The rule of element-wise operators that scale their input."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import strategies as st

from opwire.operators.elementwise import UnscaledIfWide

from .changes import changed
from .descs import Drawn
from .faults import Change

FAMILIES = ("arithmetic", "clipping")


def _is_wide(drawn: Drawn) -> bool:
    given: str = drawn.desc["InputTensor"]["DataType"]
    return given.endswith("64")


def _unscaled(rule: UnscaledIfWide, drawn: Drawn, draw: st.DrawFn) -> None:
    if _is_wide(drawn):
        drawn.desc["ScaleBias"] = draw(st.sampled_from((None, {"Scale": 1, "Bias": 0})))


def _scaled(rule: UnscaledIfWide, drawn: Drawn) -> Iterator[Change]:
    types = [row.name for row in drawn.row.tensors["InputTensor"].data_types if row.bits == 64]
    if "MinMaxDataType" in drawn.desc:
        types = [drawn.desc["InputTensor"]["DataType"]] if _is_wide(drawn) else []
    for data_type in types:
        for scale, bias in ((2, 0), (1, -1)):
            desc = changed(drawn, "InputTensor", DataType=data_type)
            yield {**desc, "ScaleBias": {"Scale": scale, "Bias": bias}}, "value_not_allowed", "/ScaleBias"


SATISFY = {UnscaledIfWide: _unscaled}
BREAK = {UnscaledIfWide: _scaled}
