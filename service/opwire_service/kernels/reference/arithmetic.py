"""Sums, products, quotients and extremes of elements."""

from __future__ import annotations

from .formulas import of_family

KERNELS = of_family("arithmetic")
