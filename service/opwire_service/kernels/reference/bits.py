"""Elementwise shifts, bitwise logic and bit counts."""

from __future__ import annotations

from .formulas import of_family

KERNELS = of_family("bits")
