"""Cumulative sums and products, each computed from scratch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array
from tests.oracles import Answer


def _combined(values: list[Any], dtype: np.dtype[Any], sums: bool, exclusive: bool) -> Any:
    from tests.oracles import oracle  # avoids an import cycle

    if dtype.kind != "f":
        integers = [int(value) for value in values]
        return oracle.wrapped(sum(integers) if sums else math.prod(integers), dtype)
    floats = [float(value) for value in values]
    if not sums:
        return oracle.FLOATS["MULTIPLY"](floats, dtype)
    return oracle.FLOATS["SUM"]([0.0, *floats] if exclusive else floats, dtype)


def _expected(plan: Plan, inputs: Mapping[str, Array]) -> Mapping[str, Answer]:
    attributes, sums = plan.attributes, plan.operator.name == "CUMULATIVE_SUMMATION"
    exclusive = attributes.HasExclusiveSum if sums else attributes.HasExclusiveProduct
    source = inputs["InputTensor"]
    found = np.empty_like(source)
    for place in np.ndindex(source.shape):
        at = place[attributes.Axis]
        step = 1 if attributes.AxisDirection.name == "INCREASING" else -1
        first = 0 if step == 1 else source.shape[attributes.Axis] - 1
        visited = range(first, at if exclusive else at + step, step)
        values = [source[(*place[: attributes.Axis], i, *place[attributes.Axis + 1 :])] for i in visited]
        found[place] = _combined(values, source.dtype, sums, exclusive)
    return {"OutputTensor": found}


EXPECTED = {"CUMULATIVE_SUMMATION": _expected, "CUMULATIVE_PRODUCT": _expected}
