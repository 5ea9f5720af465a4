"""TOP_K, ONE_HOT and NONZERO_COORDINATES in plain Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from . import Answer
from .gather import draw_indices
from .movement import raw

Inputs = Mapping[str, Array]


def _top(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    axis, count = plan.attributes.Axis, plan.attributes.K
    direction = getattr(plan.attributes, "AxisDirection", None)
    is_least = direction is not None and direction.name == "INCREASING"
    source = np.moveaxis(inputs["InputTensor"], axis, -1)
    elements = np.moveaxis(raw(inputs["InputTensor"]), axis, -1)
    index_type = plan.outputs["OutputIndexTensor"].data_type.dtype
    values = np.zeros((*source.shape[:-1], count), elements.dtype)
    indices = np.zeros(values.shape, index_type)
    for at in np.ndindex(source.shape[:-1]):
        chosen = _first(source[at].tolist(), count, is_least)
        values[at], indices[at] = elements[at][chosen], chosen
    dtype = plan.outputs["OutputValueTensor"].data_type.dtype
    return {
        "OutputValueTensor": np.ascontiguousarray(np.moveaxis(values, -1, axis)).view(dtype),
        "OutputIndexTensor": np.moveaxis(indices, -1, axis),
    }


def _first(sequence: list[Any], count: int, is_least: bool) -> list[int]:
    """Returns the indices of the top elements, selected one by one."""
    left = list(range(len(sequence)))
    chosen = []
    for _ in range(count):
        numbers = [i for i in left if sequence[i] == sequence[i]]
        best = left[0]
        if numbers:
            extreme = (min if is_least else max)(sequence[i] for i in numbers)
            best = next(i for i in numbers if sequence[i] == extreme)
        chosen.append(best)
        left.remove(best)
    return chosen


def _one_hot(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    desc, axis = plan.outputs["OutputTensor"], plan.attributes.Axis
    size = desc.sizes[axis]
    off, on, *_ = raw(inputs["ValuesTensor"]).ravel()
    result = np.full(desc.sizes, off)
    for at in np.ndindex(inputs["IndicesTensor"].shape):
        index = int(inputs["IndicesTensor"][at])
        if -size <= index < size:
            result[(*at[:axis], range(size)[index], *at[axis + 1 :])] = on
    return {"OutputTensor": result.view(desc.data_type.dtype)}


def _nonzero(plan: Plan, inputs: Inputs) -> dict[str, Answer]:
    rows = np.argwhere(inputs["InputTensor"])
    count, coordinates = plan.outputs["OutputCountTensor"], plan.outputs["OutputCoordinatesTensor"]
    length = coordinates.sizes[-1]
    result = np.zeros(coordinates.sizes[-2:], np.uint32)
    result[: len(rows)] = rows[:, rows.shape[1] - length :]
    return {
        "OutputCountTensor": np.full(count.sizes, len(rows), np.uint32),
        "OutputCoordinatesTensor": result.reshape(coordinates.sizes),
    }


EXPECTED = {"TOP_K": _top, "TOP_K1": _top, "ONE_HOT": _one_hot, "NONZERO_COORDINATES": _nonzero}

INPUTS = {"ONE_HOT": draw_indices}
