"""Sums, products, quotients and extremes of elements."""

from __future__ import annotations

from . import value_scale

KERNELS = {**value_scale.KERNELS}
