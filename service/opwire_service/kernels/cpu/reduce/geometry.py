"""What the kernels of REDUCE read."""

from __future__ import annotations

from ..run.geometry import Reduction

SIGNED, MAGNITUDES, SQUARES = range(3)
"""Kinds of terms: elements, their magnitudes, and their squares. Loops are compiled for each kind."""


class FloatReduction(Reduction):
    """A reduction of floats."""

    function: int  # applied to a sum, as in numbers.rounding
    kind: int  # of the terms of a sum
    bound: float  # factor of the error bound; see the functions
    settle: int  # address of the kernel that settles an output element; see blocks


class IntegerReduction(Reduction):
    """A reduction of integers."""

    operation: int  # as in wrapping
