"""Access patterns of the gather operators: loops over the output, and how index tuples address the source."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from opwire.check import Plan
from opwire.tensor import BufferTensorDesc


class Point(NamedTuple):
    """A loop over points: its size and its element strides in the indices, the source and the target."""

    size: int
    indices: int
    source: int
    target: int


class Component(NamedTuple):
    """One index of a tuple: its offset from the first one, the size of the indexed dimension and its stride."""

    place: int
    size: int
    step: int


class Picks(NamedTuple):
    """The access pattern of a gather; all strides count elements.

    Attributes:
        points: loops over the elements of the output, one per dimension.
        components: the components of the index tuple that each point reads.
    """

    points: tuple[Point, ...]
    components: tuple[Component, ...]


def gather(plan: Plan) -> Picks:
    source, indices = plan.inputs["InputTensor"], plan.inputs["IndicesTensor"]
    axis, count = plan.attributes.Axis, plan.attributes.IndexDimensions
    strides = source.element_strides
    chosen = range(indices.rank - count, indices.rank)
    loops = [
        *((source.sizes[i], 0, strides[i]) for i in range(axis)),
        *((indices.sizes[i], indices.element_strides[i], 0) for i in chosen),
        *((source.sizes[i], 0, strides[i]) for i in range(axis + 1, source.rank)),
    ]
    return Picks(_with_target(plan, loops), (Component(0, source.sizes[axis], strides[axis]),))


def gather_elements(plan: Plan) -> Picks:
    source, indices, axis = plan.inputs["InputTensor"], plan.inputs["IndicesTensor"], plan.attributes.Axis
    strides = source.element_strides
    loops = [(size, indices.element_strides[i], 0 if i == axis else strides[i]) for i, size in enumerate(indices.sizes)]
    return Picks(_with_target(plan, loops), (Component(0, source.sizes[axis], strides[axis]),))


def gather_nd(plan: Plan) -> Picks:
    attributes = plan.attributes
    batches = getattr(attributes, "BatchDimensionCount", 0)
    source = last_dimensions(plan.inputs["InputTensor"], attributes.InputDimensionCount)
    *field, (length, place) = last_dimensions(plan.inputs["IndicesTensor"], attributes.IndicesDimensionCount)
    loops = [
        *((size, step, source[i][1] if i < batches else 0) for i, (size, step) in enumerate(field)),
        *((size, 0, step) for size, step in source[batches + length :]),
    ]
    components = (Component(i * place, *source[batches + i]) for i in range(length))
    return Picks(_with_target(plan, loops), tuple(components))


def _with_target(plan: Plan, loops: list[tuple[int, int, int]]) -> tuple[Point, ...]:
    targets = aligned_strides(plan.outputs["OutputTensor"], len(loops))
    return tuple(Point(*loop, target) for loop, target in zip(loops, targets, strict=True))


def aligned_strides(desc: BufferTensorDesc, rank: int) -> tuple[int, ...]:
    """Returns the strides of the last ``rank`` dimensions of a tensor, padded with leading zeros."""
    strides = (0,) * rank + desc.element_strides
    return strides[len(strides) - rank :]


def last_dimensions(desc: BufferTensorDesc, count: int) -> list[tuple[int, int]]:
    """Returns the sizes and strides of the last ``count`` dimensions of a tensor."""
    return list(zip(desc.sizes, desc.element_strides, strict=True))[desc.rank - count :]


PICKS: dict[str, Callable[[Plan], Picks]] = {
    "GATHER": gather,
    "GATHER_ELEMENTS": gather_elements,
    "GATHER_ND": gather_nd,
    "GATHER_ND1": gather_nd,
}
"""Access patterns, by operator."""
