"""Descs of regions, resampling and random numbers: tensors of several ranks, and required outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hypothesis import strategies as st

from opwire.rules import Rule, number
from opwire.rules.numbers import Between

from . import common
from .descs import Drawn
from .faults import Change
from .outputs import Sizes


def _ranks(*names: str) -> Callable[[Drawn, st.DrawFn], None]:
    """Draws tensors of any rank that the support row allows."""

    def arrange(drawn: Drawn, draw: st.DrawFn) -> None:
        for name in names:
            common.add(name, drawn, draw)

    return arrange


def _gradient(drawn: Drawn, draw: st.DrawFn) -> None:
    """Draws one or both of the outputs; the rules derive the sizes of the regions' gradient."""
    _ranks("ROITensor", "BatchIndicesTensor")(drawn, draw)
    if draw(st.booleans()):
        _ranks("OutputGradientTensor")(drawn, draw)
    # They all need the same type, and one region per row.
    for name in ("InputTensor", "InputGradientTensor", "ROITensor", "OutputGradientTensor"):
        if drawn.desc.get(name) is not None:
            drawn.desc[name]["DataType"] = drawn.desc["ROITensor"]["DataType"]
    if "OutputGradientTensor" not in drawn.desc or draw(st.booleans()):
        sizes = drawn.desc["ROITensor"]["Sizes"]
        sizes[:] = [*[1] * (len(sizes) - 2), sizes[-2], 4]
        drawn.desc["OutputROIGradientTensor"] = {"DataType": drawn.desc["ROITensor"]["DataType"], "Sizes": list(sizes)}


def _pooled(desc: Mapping[str, Any]) -> Sizes:
    size = desc["PooledSize"]
    return [desc["ROITensor"]["Sizes"][2], desc["InputTensor"]["Sizes"][1], size["Height"], size["Width"]]


def _upsampled(desc: Mapping[str, Any]) -> Sizes:
    sizes, factors = list(desc["InputTensor"]["Sizes"]), desc["ScaleSize"]
    sizes[-2] *= factors["Height"]
    sizes[-1] *= factors["Width"]
    return sizes


def _given(name: str) -> Callable[[Mapping[str, Any]], Sizes]:
    """Reads the sizes of an output that cannot be derived."""
    return lambda desc: list(desc[name]["Sizes"])


FAMILIES = ("regions", "resampling", "random", "optimizer")
"""The operator families that these tables apply to."""


def _outside(rule: Between, drawn: Drawn) -> Iterator[Change]:
    for desc, code, place in common.BREAK[Between](rule, drawn):
        if rule.number == number("MinimumSamplesPerOutput"):
            desc["MaximumSamplesPerOutput"] = 2**32 - 1
        yield desc, code, place


SATISFY = common.SATISFY
BREAK: dict[type[Rule], Callable[[Any, Drawn], Iterator[Change]]] = {**common.BREAK, Between: _outside}
SHAPED: dict[str, Callable[[Drawn, st.DrawFn], None]] = {
    "ROI_ALIGN": _ranks("ROITensor", "BatchIndicesTensor"),
    "ROI_ALIGN1": _ranks("ROITensor", "BatchIndicesTensor"),
    "ROI_ALIGN_GRAD": _gradient,
    "RANDOM_GENERATOR": _ranks("OutputTensor"),
    "ADAM_OPTIMIZER": _ranks("TrainingStepTensor"),
}
SIZES: dict[str, Callable[[Mapping[str, Any]], Sizes]] = {
    "ROI_POOLING": _pooled,
    "ROI_ALIGN": _given("OutputTensor"),
    "ROI_ALIGN1": _given("OutputTensor"),
    "UPSAMPLE_2D": _upsampled,
    **dict.fromkeys(("RESAMPLE", "RESAMPLE1", "RESAMPLE2", "RESAMPLE3"), _given("OutputTensor")),
    **dict.fromkeys(("RESAMPLE_GRAD", "RESAMPLE_GRAD1"), _given("OutputGradientTensor")),
    "RANDOM_GENERATOR": _given("OutputTensor"),
}
SEVERAL: dict[str, Callable[[Mapping[str, Any]], dict[str, Sizes]]] = {
    "ROI_ALIGN_GRAD": lambda desc: {}  # both are optional
}
