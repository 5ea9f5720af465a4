"""The gather and scatter operators, which read or write elements and slices by index."""

from __future__ import annotations

from opwire.check import Plan
from opwire.tensor import Array

from ...execution import Arrays, Stop
from .indexing import clamped, copy, found, tuples
from .moves import Coordinate, bits, move, paced, view_at


def run_gather(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    axis, dimensions = plan.attributes.Axis, plan.attributes.IndexDimensions
    source, indices = inputs["InputTensor"], inputs["IndicesTensor"]
    before, size, after = source.shape[:axis], source.shape[axis], source.shape[axis + 1 :]
    chosen = indices.shape[indices.ndim - dimensions :]
    target = _without_ones(outputs["OutputTensor"], (*before, *chosen, *after))
    ignored = (0,) * (indices.ndim - dimensions)

    def place(coordinate: Coordinate) -> Coordinate:
        end = axis + dimensions
        index = int(indices[(*ignored, *coordinate[axis:end])])
        return (*coordinate[:axis], clamped(index, size), *coordinate[end:])

    move(source, target, place, stop)


def run_gather_elements(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    axis, source, indices = plan.attributes.Axis, inputs["InputTensor"], inputs["IndicesTensor"]

    def place(coordinate: Coordinate) -> Coordinate:
        index = clamped(int(indices[coordinate]), source.shape[axis])
        return (*coordinate[:axis], index, *coordinate[axis + 1 :])

    move(source, outputs["OutputTensor"], place, stop)


def run_gather_nd(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    source, indices = _counted(plan, inputs)
    batches = getattr(plan.attributes, "BatchDimensionCount", 0)
    length = indices.shape[-1]
    rest = source.shape[batches + length :]
    target = _without_ones(outputs["OutputTensor"], (*indices.shape[:-1], *rest))
    for coordinate, indexed in tuples(indices, stop):
        at = [clamped(index, size) for index, size in zip(indexed, source.shape[batches:], strict=False)]
        copy(view_at(source, (*coordinate[:batches], *at)), view_at(target, coordinate), stop)


def run_scatter_elements(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    axis, indices, target = plan.attributes.Axis, inputs["IndicesTensor"], bits(outputs["OutputTensor"])
    updates = bits(inputs["UpdatesTensor"])
    copy(inputs["InputTensor"], target, stop)
    for coordinate in paced(indices.shape, stop):
        size = target.shape[axis]
        place = found((int(indices[coordinate]),), (size,)) if size > 1 else (0,)
        if place is not None:
            target[(*coordinate[:axis], *place, *coordinate[axis + 1 :])] = updates[coordinate]


def run_scatter_nd(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    copy(inputs["InputTensor"], outputs["OutputTensor"], stop)
    _, indices = _counted(plan, inputs)
    target = outputs["OutputTensor"]
    target = target[(0,) * (target.ndim - plan.attributes.InputDimensionCount)]
    length = indices.shape[-1]
    updates = _without_ones(inputs["UpdatesTensor"], (*indices.shape[:-1], *target.shape[length:]))
    for coordinate, indexed in tuples(indices, stop):
        place = found(indexed, target.shape[:length])
        if place is not None:
            copy(view_at(updates, coordinate), view_at(target, place), stop)


def _counted(plan: Plan, inputs: Arrays) -> tuple[Array, Array]:
    """Returns the input and the indices without their ignored leading dimensions."""
    counts = plan.attributes.InputDimensionCount, plan.attributes.IndicesDimensionCount
    source, indices = inputs["InputTensor"], inputs["IndicesTensor"]
    return source[(0,) * (source.ndim - counts[0])], indices[(0,) * (indices.ndim - counts[1])]


def _without_ones(array: Array, sizes: tuple[int, ...]) -> Array:
    """Reshapes an array to the given sizes by adding or removing leading dimensions of size 1."""
    if array.ndim < len(sizes):
        return array[(None,) * (len(sizes) - array.ndim)]
    return view_at(array, (0,) * (array.ndim - len(sizes)))


KERNELS = {
    "GATHER": run_gather,
    "GATHER_ELEMENTS": run_gather_elements,
    "GATHER_ND": run_gather_nd,
    "GATHER_ND1": run_gather_nd,
    "SCATTER_ELEMENTS": run_scatter_elements,
    "SCATTER_ND": run_scatter_nd,
}


COPIED = 8
"""Number of elements copied in the time it takes to read an index tuple."""


def _gathered(plan: Plan) -> int:
    """Index tuples, and the elements they address."""
    return _tuples(plan) + plan.outputs["OutputTensor"].element_count // COPIED


def _scattered(plan: Plan) -> int:
    """Elements copied or scattered, and index tuples."""
    tensors = plan.inputs
    return tensors["InputTensor"].element_count + tensors["UpdatesTensor"].element_count + _tuples(plan)


def _tuples(plan: Plan) -> int:
    indices = plan.inputs["IndicesTensor"]
    return indices.element_count // indices.sizes[-1]


TURNS = {run_gather_nd: _gathered, run_scatter_nd: _scattered}
