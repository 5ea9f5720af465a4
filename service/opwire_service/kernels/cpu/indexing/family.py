"""The operators that gather, scatter or reverse by index, as points for the kernel."""

from __future__ import annotations

from collections.abc import Sequence

from opwire.check import Plan
from opwire.tensor import Array, BufferTensorDesc, DataType

from ....execution import Arrays
from ...picking import PICKS, Component, Point, aligned_strides, last_dimensions
from ...reference.moves import view_at
from ...views.movements import overwritten
from ...views.phases import constant
from ...views.view import View, copy
from ..run.job import Job, KernelStep
from ..views.job import CopyJob, steps_of
from . import points as kernel
from .job import MOVE, IndexJob, Indices, gather_step, reverse_step, scatter_step
from .packed import PackedJob, packed

KERNELS = (MOVE,)

INDEX_TYPES = {
    DataType.INT64: kernel.SIGNED_64,
    DataType.UINT64: kernel.UNSIGNED_64,
    DataType.INT32: kernel.SIGNED_32,
    DataType.UINT32: kernel.UNSIGNED_32,
}


def _tensors(inputs: Arrays, outputs: Arrays) -> Sequence[Array]:
    return inputs["InputTensor"], outputs["OutputTensor"], inputs["IndicesTensor"]


class _PointLayout:
    """Converts points and components of a plan from elements to bytes."""

    def __init__(self, plan: Plan, indices: str = "IndicesTensor") -> None:
        self.item = plan.outputs["OutputTensor"].data_type.bits // 8
        self._desc = plan.inputs[indices]
        self._index = self._desc.data_type.bits // 8

    def point(self, size: int, index: int, source: int, target: int) -> Point:
        return Point(size, index * self._index, source * self.item, target * self.item)

    def indices(self, *components: tuple[int, int, int]) -> Indices:
        """Returns indices for components: position in the tuple, size that is indexed, and stride."""
        scaled = (Component(place * self._index, size, step * self.item) for place, size, step in components)
        return Indices(INDEX_TYPES[self._desc.data_type], tuple(scaled))


def _gather(plan: Plan) -> Job:
    tight, inputs = packed(plan), plan.inputs
    if tight is None:
        return _gather_as_it_lies(plan)
    return PackedJob(inputs["InputTensor"], tight.inputs["InputTensor"], _gather_as_it_lies(tight))


def _gather_as_it_lies(plan: Plan) -> Job:
    layout, picks = _PointLayout(plan), PICKS[plan.operator.name](plan)
    points = [layout.point(*point) for point in picks.points]
    return IndexJob(gather_step(layout.item, layout.indices(*picks.components), points), _tensors)


def _scatter_elements(plan: Plan) -> Job:
    indices, updates, target = plan.inputs["IndicesTensor"], plan.inputs["UpdatesTensor"], plan.outputs["OutputTensor"]
    axis, layout = plan.attributes.Axis, _PointLayout(plan)
    if target.sizes[axis] == 1:
        return CopyJob(*overwritten(plan))
    moved = [
        layout.point(size, step, source, 0 if i == axis else target.element_strides[i])
        for i, (size, step, source) in enumerate(
            zip(indices.sizes, indices.element_strides, updates.element_strides, strict=True)
        )
    ]
    named = layout.indices((0, target.sizes[axis], target.element_strides[axis]))
    free = moved[:axis] + moved[axis + 1 :]
    return _scatter(plan, scatter_step(layout.item, named, moved[axis : axis + 1], free))


def _scatter_nd(plan: Plan) -> Job:
    layout, attributes = _PointLayout(plan), plan.attributes
    target = last_dimensions(plan.outputs["OutputTensor"], attributes.InputDimensionCount)
    *field, (length, place) = last_dimensions(plan.inputs["IndicesTensor"], attributes.IndicesDimensionCount)
    sources = aligned_strides(plan.inputs["UpdatesTensor"], len(field) + len(target) - length)
    ordered = [layout.point(size, step, source, 0) for (size, step), source in zip(field, sources, strict=False)]
    rest = zip(target[length:], sources[len(field) :], strict=True)
    free = [layout.point(size, 0, source, step) for (size, step), source in rest]
    named = layout.indices(*((i * place, *target[i]) for i in range(length)))
    return _scatter(plan, scatter_step(layout.item, named, ordered, free))


def _scatter(plan: Plan, step: KernelStep) -> Job:
    """Copies the input, then writes the updates."""
    target = plan.outputs["OutputTensor"]
    whole = copy(View.of(0, plan.inputs["InputTensor"]), View.of(len(plan.inputs), target))

    def tensors(inputs: Arrays, outputs: Arrays) -> Sequence[Array]:
        return inputs["UpdatesTensor"], outputs["OutputTensor"], inputs["IndicesTensor"]

    return IndexJob(step, tensors, steps_of([whole], target.data_type.bits // 8))


def _one_hot(plan: Plan) -> Job:
    """Fills with the off value, then writes the on value where the indices point."""
    indices, target, axis = plan.inputs["IndicesTensor"], plan.outputs["OutputTensor"], plan.attributes.Axis
    values, layout = plan.inputs["ValuesTensor"], _PointLayout(plan)
    strides = zip(indices.sizes, indices.element_strides, target.element_strides, strict=True)
    free = [layout.point(size, step, 0, out) for i, (size, step, out) in enumerate(strides) if i != axis]
    named = layout.indices((0, target.sizes[axis], target.element_strides[axis]))
    step = scatter_step(layout.item, named, (), free)
    view = View.of(len(plan.inputs), target)
    off = copy(constant(view, list(plan.inputs).index("ValuesTensor")), view)
    on = [1 if i == _fastest(values) else 0 for i in range(values.rank)]

    def tensors(inputs: Arrays, outputs: Arrays) -> Sequence[Array]:
        return view_at(inputs["ValuesTensor"], on), outputs["OutputTensor"], inputs["IndicesTensor"]

    return IndexJob(step, tensors, steps_of([off], layout.item))


def _fastest(desc: BufferTensorDesc) -> int:
    """Returns the last dimension with more than one element."""
    return max(i for i, size in enumerate(desc.sizes) if size > 1)


def _reverse(plan: Plan) -> Job:
    source, lengths = plan.inputs["InputTensor"], plan.inputs["SequenceLengthsTensor"]
    axis, layout = plan.attributes.Axis, _PointLayout(plan, "SequenceLengthsTensor")
    out = plan.outputs["OutputTensor"].element_strides
    free = [
        layout.point(size, lengths.element_strides[i], source.element_strides[i], out[i])
        for i, size in enumerate(source.sizes)
        if i != axis
    ]
    named = layout.indices((0, source.sizes[axis], source.element_strides[axis]))
    along = layout.point(source.sizes[axis], 0, 0, out[axis])

    def tensors(inputs: Arrays, outputs: Arrays) -> Sequence[Array]:
        return inputs["InputTensor"], outputs["OutputTensor"], inputs["SequenceLengthsTensor"]

    return IndexJob(reverse_step(layout.item, named, along, free), tensors)


PREPARE = {
    **dict.fromkeys(PICKS, _gather),
    "SCATTER_ELEMENTS": _scatter_elements,
    "SCATTER_ND": _scatter_nd,
    "ONE_HOT": _one_hot,
    "REVERSE_SUBSEQUENCES": _reverse,
}
