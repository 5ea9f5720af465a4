"""The copies of each data-movement operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from opwire.check import Plan
from opwire.enums import DepthSpaceOrder, PaddingMode

from ..reference.slices import window_steps
from .folding import PaddingPart, parts_of
from .view import Copy, Phases, StridedDimension, View, copy, copy_band

INPUT, OUTPUT, CONSTANT = 0, 1, 2
"""Tensor numbers for one input and one output."""


def _tensors(plan: Plan) -> tuple[View, View]:
    """Returns views of the only input and the only output."""
    (source,), (target,) = plan.inputs.values(), plan.outputs.values()
    return View.of(INPUT, source), View.of(OUTPUT, target)


def constant(view: View, number: int = CONSTANT, element: int = 0) -> View:
    """Returns a view that repeats one constant to the sizes of another view."""
    return View(number, element, tuple(StridedDimension(size, 0) for size in view.sizes))


def split(plan: Plan) -> Phases:
    whole = View.of(0, plan.inputs["InputTensor"])
    parts = [View.of(1 + i, desc) for i, desc in enumerate(plan.outputs.values())]
    return [[copy(part, each) for part, each in zip(_parts(plan, whole, parts), parts, strict=True)]]


def join(plan: Plan) -> Phases:
    parts = [View.of(i, desc) for i, desc in enumerate(plan.inputs.values())]
    whole = View.of(len(parts), plan.outputs["OutputTensor"])
    return [[copy(each, part) for part, each in zip(_parts(plan, whole, parts), parts, strict=True)]]


def _parts(plan: Plan, whole: View, parts: list[View]) -> Iterator[View]:
    axis = plan.attributes.Axis
    for begin, end in pairwise(accumulate((part.sizes[axis] for part in parts), initial=0)):
        yield whole.taken(axis, begin, end - begin)


def tile(plan: Plan) -> Phases:
    source, target = _tensors(plan)
    for axis in reversed(range(len(source.sizes))):
        size, count = source.sizes[axis], plan.attributes.Repeats[axis]
        source, target = source.repeated(axis, count), target.split(axis, count, size)
    return [[copy(source, target)]]


def slice_(plan: Plan) -> Phases:
    source, target = _tensors(plan)
    steps = zip(plan.attributes.Offsets, plan.attributes.Strides, strict=True)
    for axis, (offset, stride) in enumerate(steps):
        source = source.taken(axis, offset, target.sizes[axis], stride)
    return [[copy(source, target)]]


def slice1(plan: Plan) -> Phases:
    source, target = _tensors(plan)
    for axis, (start, stride) in enumerate(window_steps(plan)):
        source = source.taken(axis, start, target.sizes[axis], stride)
    return [[copy(source, target)]]


def slice_grad(plan: Plan) -> Phases:
    source, target = _tensors(plan)
    places = target
    for axis, (start, stride) in enumerate(window_steps(plan)):
        places = places.taken(axis, start, source.sizes[axis], stride)
    return [[copy(constant(target), target)], [copy(source, places)]]


def space_to_depth(plan: Plan) -> Phases:
    space, depth = _tensors(plan)
    space, depth = _blocks(plan, space, depth)
    return [[copy(space, depth)]]


def depth_to_space(plan: Plan) -> Phases:
    depth, space = _tensors(plan)
    space, depth = _blocks(plan, space, depth)
    return [[copy(depth, space)]]


def _blocks(plan: Plan, space: View, depth: View) -> tuple[View, View]:
    """Reshapes both to the dimensions batch, depth, y, row in block, x, column in block."""
    block = plan.attributes.BlockSize
    _, _, height, width = depth.sizes
    space = space.split(3, width, block).split(2, height, block)
    channels = space.sizes[1]
    order = getattr(plan.attributes, "Order", DepthSpaceOrder.DEPTH_COLUMN_ROW)
    if order == DepthSpaceOrder.DEPTH_COLUMN_ROW:
        return space, depth.split(1, block, block, channels).ordered(0, 3, 4, 1, 5, 2)
    return space, depth.split(1, channels, block, block).ordered(0, 1, 4, 2, 5, 3)


def padding(plan: Plan, *, rows: bool = True) -> Phases:
    """Copies the input first, then fills the padding: constants in the same phase, other modes dimension by dimension.

    Args:
        plan: the plan of a padding.
        rows: whether to copy the rows of the input and pad along the last dimension.
    """
    source, target = _tensors(plan)
    sizes, starts, ends = source.sizes, plan.attributes.StartPadding, plan.attributes.EndPadding
    phases: list[list[Copy]] = [[copy(source, _within(target, range(len(sizes)), starts, sizes))] if rows else []]
    is_constant = plan.attributes.PaddingMode == PaddingMode.CONSTANT
    for axis in reversed(range(len(sizes) - (not rows))):
        # Earlier dimensions are limited to the input's extent, so that no element is written twice.
        slab = _within(target, range(axis), starts, sizes)
        begins = ((-starts[axis], starts[axis]), (sizes[axis], ends[axis]))
        if is_constant:
            places = [slab.taken(axis, starts[axis] + begin, length) for begin, length in begins if length]
            phases[0] += [copy(constant(place), place) for place in places]
        elif starts[axis] or ends[axis]:
            parts = [part for each in begins for part in parts_of(plan.attributes.PaddingMode, sizes[axis], *each)]
            phases.append([_fold(slab, axis, starts[axis], part) for part in parts])
    return phases


def _within(view: View, axes: Iterable[int], starts: Sequence[int], sizes: Sequence[int]) -> View:
    """Restricts some dimensions to the elements that hold the input."""
    for axis in axes:
        view = view.taken(axis, starts[axis], sizes[axis])
    return view


def _fold(slab: View, axis: int, start: int, part: PaddingPart) -> Copy:
    """Returns the copy of output elements into the padding of a dimension."""
    here = slab.taken(axis, start + part.source, part.size, part.step).repeated(axis, part.repeats)
    there = slab.taken(axis, start + part.target, part.size).repeated(axis, part.repeats)
    step = part.period * slab.dimensions[axis].step
    dimensions = (*there.dimensions[:axis], StridedDimension(part.repeats, step), *there.dimensions[axis + 1 :])
    return copy(here, replace(there, dimensions=dimensions))


def fill(plan: Plan) -> Phases:
    """Fills the output with the constant."""
    target = View.of(0, plan.outputs["OutputTensor"])
    return [[copy(constant(target, 1), target)]]


def band(plan: Plan, *, over_all: bool = False) -> Phases:
    """Fills a band of diagonals, or its complement, with the first constant; the rest with the input or the second one.

    Args:
        plan: the plan of a diagonal matrix.
        over_all: whether to write the outside of the band everywhere first, instead of each diagonal exactly once.
    """
    target = View.of(len(plan.inputs), plan.outputs["OutputTensor"])
    value = constant(target, len(plan.inputs) + 1)
    rest = constant(target, len(plan.inputs) + 1, 1)
    if "InputTensor" in plan.inputs:
        rest = View.of(0, plan.inputs["InputTensor"])
    begin, end = _diagonals(plan)
    inside, outside = (value, rest) if begin <= end else (rest, value)
    rows, columns = target.sizes[-2:]
    ends = -rows, *(max(-rows, min(diagonal, columns)) for diagonal in sorted((begin, end))), columns
    if over_all:
        within = [copy_band(inside, target, *ends[1:3])] if ends[1] < ends[2] else []
        return [[copy(outside, target)], within]
    parts = zip((outside, inside, outside), pairwise(ends), strict=True)
    return [[copy_band(source, target, *between) for source, between in parts if between[0] < between[1]]]


def _diagonals(plan: Plan) -> tuple[int, int]:
    """Returns the half-open range of filled diagonals; reversed, all diagonals outside the range are filled."""
    attributes = plan.attributes
    if plan.operator.name == "DIAGONAL_MATRIX":
        return attributes.Offset, attributes.Offset + 1
    return attributes.DiagonalFillBegin, attributes.DiagonalFillEnd
