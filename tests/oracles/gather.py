"""Operators that read or write by index, as plain loops over coordinates."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

from opwire.check import Plan
from opwire.tensor import Array

from . import Answer
from .movement import raw

Inputs = Mapping[str, Array]


def _all(sizes: Any) -> Any:
    return itertools.product(*map(range, sizes))


def _read(index: Any, size: int) -> int:
    """Returns the element that an index reads: negative ones count from the end, then out-of-range ones are clamped."""
    places = list(range(size))
    at = int(index)
    if at < 0:
        at += size
    return places[min(max(at, 0), size - 1)]


def _answer(plan: Plan, result: Array) -> dict[str, Answer]:
    desc = plan.outputs["OutputTensor"]
    return {"OutputTensor": np.ascontiguousarray(result).view(desc.data_type.dtype).reshape(desc.sizes)}


def _gather(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    source, indices, axis = raw(inputs["InputTensor"]), inputs["IndicesTensor"], plan.attributes.Axis
    chosen = indices.shape[indices.ndim - plan.attributes.IndexDimensions :]
    picked = [_read(index, source.shape[axis]) for index in indices.ravel()]
    taken = np.take(source, picked, axis)
    return _answer(plan, taken.reshape((*source.shape[:axis], *chosen, *source.shape[axis + 1 :])))


def _gather_elements(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    source, indices, axis = raw(inputs["InputTensor"]), inputs["IndicesTensor"], plan.attributes.Axis
    picked = np.array([_read(index, source.shape[axis]) for index in indices.ravel()], np.int64)
    return _answer(plan, np.take_along_axis(source, picked.reshape(indices.shape), axis))


def _gather_nd(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    attributes = plan.attributes
    source, indices = raw(inputs["InputTensor"]), inputs["IndicesTensor"]
    source = source.reshape(source.shape[source.ndim - attributes.InputDimensionCount :])
    indices = indices.reshape(indices.shape[indices.ndim - attributes.IndicesDimensionCount :])
    batches = getattr(attributes, "BatchDimensionCount", 0)
    slices = []
    for at in _all(indices.shape[:-1]):
        batch = source[at[:batches]]
        places = zip(indices[at], batch.shape, strict=False)
        slices.append(batch[tuple(_read(index, size) for index, size in places)])
    return _answer(plan, np.array(slices))


def _written(indices: Any, sizes: Any) -> tuple[int, ...] | None:
    """Returns the coordinate that indices write to, or None if one of them is out of range."""
    places = []
    for index, size in zip(indices, sizes, strict=True):
        counted = [*range(size), *range(-size, 0)]
        if int(index) not in counted:
            return None
        places.append(counted.index(int(index)) % size)
    return tuple(places)


def _scatter_elements(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    result, axis = raw(inputs["InputTensor"]).copy(), plan.attributes.Axis
    indices, updates = inputs["IndicesTensor"], raw(inputs["UpdatesTensor"])
    for at in _all(indices.shape):
        place = _written([indices[at]], [result.shape[axis]]) if result.shape[axis] > 1 else (0,)
        if place:
            result[at[:axis] + place + at[axis + 1 :]] = updates[at]
    return _answer(plan, result)


def _scatter_nd(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    attributes, indices = plan.attributes, inputs["IndicesTensor"]
    result: Array = raw(inputs["InputTensor"]).copy()
    result = result.reshape(result.shape[result.ndim - attributes.InputDimensionCount :])
    indices = indices.reshape(indices.shape[indices.ndim - attributes.IndicesDimensionCount :])
    shape: tuple[int, ...] = indices.shape
    sizes: tuple[int, ...] = (*shape[:-1], *result.shape[shape[-1] :])
    updates = raw(inputs["UpdatesTensor"]).reshape(sizes)
    for at in _all(indices.shape[:-1]):
        place = _written(indices[at], result.shape[: shape[-1]])
        if place is not None:
            result[place] = updates[at]
    return _answer(plan, result)


def draw_indices(draw: Any, plan: Plan) -> dict[str, Array]:
    """Draws indices: in range, counted from the end, slightly and far out of range."""
    desc = plan.inputs["IndicesTensor"]
    dtype = desc.data_type.dtype
    limits = np.iinfo(dtype)
    most = max((*plan.inputs[next(iter(plan.inputs))].sizes, *next(iter(plan.outputs.values())).sizes))
    near = st.integers(max(-most - 2, int(limits.min)), most + 1)
    inside = st.integers(0, 1)
    far = st.sampled_from([int(limits.min), int(limits.max)])
    kind = draw(st.sampled_from([near, near, inside, near | far]))
    drawn = draw(st.lists(kind, min_size=desc.element_count, max_size=desc.element_count))
    return {"IndicesTensor": np.array(drawn, dtype).reshape(desc.sizes)}


EXPECTED = {
    "GATHER": _gather,
    "GATHER_ELEMENTS": _gather_elements,
    "GATHER_ND": _gather_nd,
    "GATHER_ND1": _gather_nd,
    "SCATTER_ELEMENTS": _scatter_elements,
    "SCATTER_ND": _scatter_nd,
}

INPUTS = dict.fromkeys(EXPECTED, draw_indices)
