"""Clipping to an interval, by comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np

from opwire.check import Plan
from tests.oracles.elements import each, greatest, least, nearest_float, number, output_type, scaled, to_integer


def _bound(plan: Plan, name: str) -> Any:
    """Returns a bound as a number of the tensors' type."""
    value, dtype = getattr(plan.attributes, name), output_type(plan)
    if np.issubdtype(dtype, np.integer):
        return value if isinstance(value, int) else to_integer(number(value), dtype)
    if dtype == np.float16:  # whose largest number is the last bound
        value = min(max(value, -65504.0), 65504.0)
    return number(float(nearest_float(number(value), dtype)))


def _clip(plan: Plan, x: Any) -> Any:
    low, high, value, dtype = _bound(plan, "Min"), _bound(plan, "Max"), scaled(x, plan), output_type(plan)
    if isinstance(value, int):
        return dtype.type(max(low, min(value, high)))
    return nearest_float(greatest(low, least(value, high)), dtype)


def _threshold(plan: Plan, x: Any) -> Any:
    low, value, dtype = _bound(plan, "Min"), scaled(x, plan), output_type(plan)
    return dtype.type(max(value, low)) if isinstance(value, int) else nearest_float(greatest(value, low), dtype)


def _gradient(plan: Plan, x: Any, gradient: Any) -> Any:
    low, high = (output_type(plan).type(_bound(plan, name)) for name in ("Min", "Max"))
    return gradient if low < x < high else type(gradient)(0)


_GRADIENT = each(_gradient, "InputTensor", "InputGradientTensor")

EXPECTED = {
    "ELEMENT_WISE_CLIP": each(_clip, "InputTensor"),
    "ELEMENT_WISE_CLIP1": each(_clip, "InputTensor"),
    "ELEMENT_WISE_CLIP_GRAD": _GRADIENT,
    "ELEMENT_WISE_CLIP_GRAD1": _GRADIENT,
    "ELEMENT_WISE_THRESHOLD": each(_threshold, "InputTensor"),
}
