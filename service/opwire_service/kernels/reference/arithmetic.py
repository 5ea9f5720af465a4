"""Elementwise sums, products, quotients, minima and maxima."""

from __future__ import annotations

from .formulas import of_family

KERNELS = of_family("arithmetic")
