"""Output sizes of operators that move and select elements, computed from JSON descs without the package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

Sizes = list[int]


def sliced_sizes(desc: Mapping[str, Any]) -> Sizes:
    steps = zip(desc["InputWindowSizes"], desc["InputWindowStrides"], strict=True)
    return [len(range(0, size, abs(stride))) for size, stride in steps]


def addressed(desc: Mapping[str, Any]) -> Sizes:
    """Returns the sizes that index tuples address, without leading ones."""
    source: Sizes = desc["InputTensor"]["Sizes"][-desc["InputDimensionCount"] :]
    *field, length = desc["IndicesTensor"]["Sizes"][-desc["IndicesDimensionCount"] :]
    return [*field, *source[desc.get("BatchDimensionCount", 0) + length :]]


def at_rank(sizes: Sizes, rank: int) -> Sizes:
    return ([1] * rank + sizes)[-rank:]


def positions(desc: Mapping[str, Any], image: str) -> Sizes:
    """Counts the blocks that fit into the padded image, for each dimension."""
    sizes = desc[image]["Sizes"][-len(desc["WindowSizes"]) :]
    found = []
    for i, size in enumerate(sizes):
        last = size + desc["StartPadding"][i] + desc["EndPadding"][i]
        reach = (desc["WindowSizes"][i] - 1) * desc["Dilations"][i]
        found.append(sum(begin + reach < last for begin in range(0, last, desc["Strides"][i])))
    return found


def columns(desc: Mapping[str, Any], image: str) -> Sizes:
    batch, channels = desc[image]["Sizes"][: -len(desc["WindowSizes"])][-2:]
    return [batch, channels * prod(desc["WindowSizes"]), prod(positions(desc, image))]


def _output(desc: Mapping[str, Any]) -> Sizes:
    """Returns the sizes of a given output."""
    return list(desc["OutputTensor"]["Sizes"])


def _space_to_depth(desc: Mapping[str, Any]) -> Sizes:
    (n, c, h, w), block = desc["InputTensor"]["Sizes"], desc["BlockSize"]
    return [n, c * block**2, len(range(0, h, block)), len(range(0, w, block))]


def _depth_to_space(desc: Mapping[str, Any]) -> Sizes:
    (n, c, h, w), block = desc["InputTensor"]["Sizes"], desc["BlockSize"]
    return [n, len(range(0, c, block**2)), h * block, w * block]


def _joined(desc: Mapping[str, Any]) -> Sizes:
    sizes = list(desc["InputTensors"][0]["Sizes"])
    sizes[desc["Axis"]] = sum(tensor["Sizes"][desc["Axis"]] for tensor in desc["InputTensors"])
    return sizes


def _padded(desc: Mapping[str, Any]) -> Sizes:
    arrays = (desc["InputTensor"]["Sizes"], desc["StartPadding"], desc["EndPadding"])
    return [sum(each) for each in zip(*arrays, strict=True)]


def _tuples(desc: Mapping[str, Any]) -> Sizes:
    return at_rank(addressed(desc), len(desc["InputTensor"]["Sizes"]))


SIZES: dict[str, Callable[[Mapping[str, Any]], Sizes]] = {
    "JOIN": _joined,
    "PADDING": _padded,
    "PADDING1": _padded,
    "SLICE": lambda desc: list(desc["Sizes"]),
    "SLICE1": sliced_sizes,
    "TILE": lambda desc: [size * n for size, n in zip(desc["InputTensor"]["Sizes"], desc["Repeats"], strict=True)],
    "SPACE_TO_DEPTH": _space_to_depth,
    "SPACE_TO_DEPTH1": _space_to_depth,
    "DEPTH_TO_SPACE": _depth_to_space,
    "DEPTH_TO_SPACE1": _depth_to_space,
    "FOLD": _output,
    "UNFOLD": lambda desc: columns(desc, "InputTensor"),
    "GATHER_ELEMENTS": lambda desc: list(desc["IndicesTensor"]["Sizes"]),
    "GATHER_ND": _tuples,
    "GATHER_ND1": _tuples,
    "ONE_HOT": _output,
    "DIAGONAL_MATRIX": _output,
    "DIAGONAL_MATRIX1": _output,
    "FILL_VALUE_CONSTANT": _output,
    "FILL_VALUE_SEQUENCE": _output,
}


def _split(desc: Mapping[str, Any]) -> dict[str, Sizes]:
    return {f"OutputTensors[{k}]": list(tensor["Sizes"]) for k, tensor in enumerate(desc["OutputTensors"])}


def _top_k(desc: Mapping[str, Any]) -> dict[str, Sizes]:
    sizes = list(desc["InputTensor"]["Sizes"])
    sizes[desc["Axis"]] = desc["K"]
    return {"OutputValueTensor": sizes, "OutputIndexTensor": sizes}


def _nonzero(desc: Mapping[str, Any]) -> dict[str, Sizes]:
    sizes = desc["InputTensor"]["Sizes"]
    rows = [*[1] * (len(sizes) - 2), prod(sizes), len(sizes)]
    return {"OutputCountTensor": [1] * len(sizes), "OutputCoordinatesTensor": rows}


def _slice_grad(desc: Mapping[str, Any]) -> dict[str, Sizes]:
    return {"OutputGradientTensor": list(desc["OutputGradientTensor"]["Sizes"])}


SEVERAL: dict[str, Callable[[Mapping[str, Any]], dict[str, Sizes]]] = {
    "SPLIT": _split,
    "TOP_K": _top_k,
    "TOP_K1": _top_k,
    "NONZERO_COORDINATES": _nonzero,
    "SLICE_GRAD": _slice_grad,
}
