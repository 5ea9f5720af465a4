"""Shifts, logic and counts of the bits of elements."""

from __future__ import annotations

from .formulas import of_family

KERNELS = of_family("bits")
