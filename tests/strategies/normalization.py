"""Keeps and breaks the rules of normalizations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hypothesis import strategies as st

from opwire.operators.batch_normalization import SameAlong
from opwire.rules import Rule

from . import common
from .changes import changed
from .descs import Drawn
from .faults import Change
from .outputs import Sizes


def _stretch(rule: SameAlong, drawn: Drawn, draw: st.DrawFn) -> None:
    whole = drawn.desc[rule.of]["Sizes"]
    for name, i in _places(rule, drawn):
        drawn.desc[name]["Sizes"][i] = whole[i]


def _broadcast_again(rule: SameAlong, drawn: Drawn) -> Iterator[Change]:
    for name, i in _places(rule, drawn):
        if drawn.desc[rule.of]["Sizes"][i] > 1:
            sizes = [1 if at == i else size for at, size in enumerate(drawn.desc[name]["Sizes"])]
            yield changed(drawn, name, Sizes=sizes), "sizes_mismatch", f"/{name}/Sizes/{i}"


def _places(rule: SameAlong, drawn: Drawn) -> Iterator[tuple[str, int]]:
    rank = len(drawn.desc[rule.of]["Sizes"])
    for name in rule.tensors:
        for i in {i if i >= 0 else rank + i for i in rule.dimensions}:
            if drawn.desc.get(name) is not None and 0 <= i < rank:
                yield name, i


def _gradients(desc: Mapping[str, Any]) -> dict[str, Sizes]:
    whole, statistics = desc["InputTensor"]["Sizes"], desc["MeanTensor"]["Sizes"]
    return {
        "OutputGradientTensor": whole,
        "OutputScaleGradientTensor": statistics,
        "OutputBiasGradientTensor": statistics,
    }


def _trained(desc: Mapping[str, Any]) -> dict[str, Sizes]:
    whole, statistics = desc["InputTensor"]["Sizes"], desc["ScaleTensor"]["Sizes"]
    return {"OutputTensor": whole, "OutputMeanTensor": statistics, "OutputVarianceTensor": statistics}


FAMILIES = ("normalization",)
"""The operator families that these tables apply to."""

SATISFY: dict[type[Rule], Callable[[Any, Drawn, st.DrawFn], None]] = {**common.SATISFY, SameAlong: _stretch}
BREAK: dict[type[Rule], Callable[[Any, Drawn], Iterator[Change]]] = {**common.BREAK, SameAlong: _broadcast_again}
SEVERAL: dict[str, Callable[[Mapping[str, Any]], dict[str, Sizes]]] = {
    "BATCH_NORMALIZATION_GRAD": _gradients,
    "BATCH_NORMALIZATION_TRAINING_GRAD": _gradients,
    "BATCH_NORMALIZATION_TRAINING": _trained,
}
