"""The operators that move elements: splitting, joining, padding, tiling, reversal, and those of related modules."""

from __future__ import annotations

from itertools import accumulate

from opwire.check import Plan
from opwire.enums import PaddingMode
from opwire.tensor import Array

from ...execution import Arrays, Stop
from . import casts, depths, folds, slices
from .casts import stored
from .moves import Coordinate, bits, move


def run_split(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    for part, output in zip(_parts(plan, inputs["InputTensor"], outputs), outputs.values(), strict=True):
        move(part, output, lambda coordinate: coordinate, stop)


def run_join(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    for part, source in zip(_parts(plan, outputs["OutputTensor"], inputs), inputs.values(), strict=True):
        move(source, part, lambda coordinate: coordinate, stop)


def _parts(plan: Plan, whole: Array, tensors: Arrays) -> list[Array]:
    """Returns views of the consecutive parts of ``whole`` along the axis, one per tensor."""
    axis = plan.attributes.Axis
    ends = list(accumulate(tensor.shape[axis] for tensor in tensors.values()))
    outer = (slice(None),) * axis
    return [whole[(*outer, slice(begin, end))] for begin, end in zip([0, *ends], ends, strict=False)]


def run_padding(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source, target, mode = inputs["InputTensor"], outputs["OutputTensor"], plan.attributes.PaddingMode
    starts = plan.attributes.StartPadding
    value = int(bits(stored(plan.attributes.PaddingValue, plan.outputs["OutputTensor"].data_type)))

    def place(coordinate: Coordinate) -> Coordinate | None:
        found = []
        for at, start, size in zip(coordinate, starts, source.shape, strict=True):
            index = padded(at - start, size, mode)
            if index is None:
                return None
            found.append(index)
        return tuple(found)

    move(source, target, place, stop, value)


def padded(at: int, size: int, mode: PaddingMode) -> int | None:
    """Returns the element of a dimension that fills a position inside or outside it; None for the padding value."""
    if 0 <= at < size:
        return at
    match mode:
        case PaddingMode.EDGE:
            return 0 if at < 0 else size - 1
        case PaddingMode.REFLECTION:
            at %= max(1, 2 * (size - 1))
            return min(at, 2 * (size - 1) - at)
        case PaddingMode.SYMMETRIC:
            at %= 2 * size
            return min(at, 2 * size - 1 - at)
        case PaddingMode.WRAP:
            return at % size
        case PaddingMode.CONSTANT:
            return None


def run_tile(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source = inputs["InputTensor"]

    def place(coordinate: Coordinate) -> Coordinate:
        return tuple(at % size for at, size in zip(coordinate, source.shape, strict=True))

    move(source, outputs["OutputTensor"], place, stop)


def run_reverse(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    lengths, axis = inputs["SequenceLengthsTensor"], plan.attributes.Axis

    def place(coordinate: Coordinate) -> Coordinate:
        before, (at, *after) = coordinate[:axis], coordinate[axis:]
        length = min(int(lengths[(*before, 0, *after)]), inputs["InputTensor"].shape[axis])
        return (*before, length - 1 - at if at < length else at, *after)

    move(inputs["InputTensor"], outputs["OutputTensor"], place, stop)


KERNELS = {
    **casts.KERNELS,
    "SPLIT": run_split,
    "JOIN": run_join,
    "PADDING": run_padding,
    "PADDING1": run_padding,
    "TILE": run_tile,
    "REVERSE_SUBSEQUENCES": run_reverse,
    **depths.KERNELS,
    **slices.KERNELS,
    **folds.KERNELS,
}
