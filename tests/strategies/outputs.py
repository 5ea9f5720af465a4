"""The sizes of outputs, computed from JSON descs without the package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from opwire.operator import Operator

Sizes = list[int]


def _reduced(desc: Mapping[str, Any]) -> Sizes:
    return [1 if i in desc["Axes"] else size for i, size in enumerate(desc["InputTensor"]["Sizes"])]


def _pooled(desc: Mapping[str, Any]) -> Sizes:
    n, c, *spatial = desc["InputTensor"]["Sizes"]
    found = []
    for i, size in enumerate(spatial):
        last = size + desc["StartPadding"][i] + desc["EndPadding"][i]
        reach = (desc["WindowSize"][i] - 1) * desc.get("Dilations", [1] * 8)[i]
        found.append(sum(begin + reach < last for begin in range(0, last, desc["Strides"][i])))
    return [n, c, *found]


def _gathered(desc: Mapping[str, Any]) -> Sizes:
    at, kept = desc["Axis"], desc["IndexDimensions"]
    source: Sizes = desc["InputTensor"]["Sizes"]
    indices: Sizes = desc["IndicesTensor"]["Sizes"]
    sizes = source[:at] + indices[len(indices) - kept :] + source[at + 1 :]
    return ([1] * len(source) + sizes)[-len(source) :]


def convolved(desc: Mapping[str, Any]) -> Sizes:
    batch, _, *spatial = desc["InputTensor"]["Sizes"]
    filters, channels, *kernel = desc["FilterTensor"]["Sizes"]
    forward = desc.get("Direction", "FORWARD") in ("FORWARD", "DML_CONVOLUTION_DIRECTION_FORWARD", 0)
    found = []
    for i, size in enumerate(spatial):
        step, reach = desc["Strides"][i], (kernel[i] - 1) * desc["Dilations"][i]
        start, end = desc["StartPadding"][i], desc["EndPadding"][i]
        if forward:
            found.append(sum(begin + reach < size + start + end for begin in range(0, size + start + end, step)))
        else:
            touched = {at * step + tap * desc["Dilations"][i] for at in range(size) for tap in range(kernel[i])}
            found.append(max(touched) + 1 - start - end)
    return [batch, filters if forward else channels * desc["GroupCount"], *found]


SIZES: dict[str, Callable[[Mapping[str, Any]], Sizes]] = {
    "REDUCE": _reduced,
    "ARGMIN": _reduced,
    "ARGMAX": _reduced,
    "MAX_POOLING": _pooled,
    "MAX_POOLING1": _pooled,
    "MAX_POOLING2": _pooled,
    "GATHER": _gathered,
    "CONVOLUTION": convolved,
}
"""Output sizes by operator, for operators whose outputs differ from their first input."""

SEVERAL: dict[str, Callable[[Mapping[str, Any]], dict[str, Sizes]]] = {}
"""The same for operators with outputs of different sizes, or with names that depend on the desc."""


def output_sizes(operator: Operator[Any], desc: Mapping[str, Any]) -> dict[str, Sizes]:
    """Returns the sizes of each required output; of a transposed convolution the smallest allowed ones."""
    if operator.name in SEVERAL:
        return SEVERAL[operator.name](desc)
    derive = SIZES.get(operator.name)
    sizes = list(desc[operator.members.inputs[0].name]["Sizes"]) if derive is None else derive(desc)
    return {member.name: sizes for member in operator.members.outputs if not member.role.is_optional}
