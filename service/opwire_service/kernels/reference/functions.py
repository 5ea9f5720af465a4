"""Elementwise functions: roots, powers, exponentials, logarithms, trigonometry and rounding."""

from __future__ import annotations

from .formulas import of_family

KERNELS = of_family("functions")
