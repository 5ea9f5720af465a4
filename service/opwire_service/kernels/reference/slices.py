"""SLICE, SLICE1 and SLICE_GRAD: strided access to a window in each dimension."""

from __future__ import annotations

from opwire.check import Plan

from ...execution import Arrays, Stop
from .moves import Coordinate, move


def run_slice(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    steps = list(zip(plan.attributes.Offsets, plan.attributes.Strides, strict=True))

    def place(coordinate: Coordinate) -> Coordinate:
        return tuple(offset + at * stride for at, (offset, stride) in zip(coordinate, steps, strict=True))

    move(inputs["InputTensor"], outputs["OutputTensor"], place, stop)


def run_slice1(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    steps = window_steps(plan)

    def place(coordinate: Coordinate) -> Coordinate:
        return tuple(start + at * stride for at, (start, stride) in zip(coordinate, steps, strict=True))

    move(inputs["InputTensor"], outputs["OutputTensor"], place, stop)


def run_slice_grad(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source, target = inputs["InputGradientTensor"], outputs["OutputGradientTensor"]
    steps = window_steps(plan)

    def place(coordinate: Coordinate) -> Coordinate | None:
        """Returns the slice element taken from this coordinate; None, for a zero, if there is none."""
        found = []
        for at, (start, stride), size in zip(coordinate, steps, source.shape, strict=True):
            index, rest = divmod(at - start, stride)
            if rest or not 0 <= index < size:
                return None
            found.append(index)
        return tuple(found)

    move(source, target, place, stop)


def window_steps(plan: Plan) -> list[tuple[int, int]]:
    """Returns the start and stride of each dimension; for a negative stride the start is the window's last element."""
    attributes = plan.attributes
    windows = zip(
        attributes.InputWindowOffsets, attributes.InputWindowSizes, attributes.InputWindowStrides, strict=True
    )
    return [(offset if stride > 0 else offset + size - 1, stride) for offset, size, stride in windows]


KERNELS = {"SLICE": run_slice, "SLICE1": run_slice1, "SLICE_GRAD": run_slice_grad}
