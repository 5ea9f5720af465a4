"""What the kernels of REDUCE find in the geometry beside the loops: which function they compute."""

from __future__ import annotations

from ..run import geometry as g

RESULT, OPERATION, MASK, IS_EXACT, KIND, TIER, OPEN = range(g.PARAMETERS, g.PARAMETERS + 7)
"""Slots of the geometry.

``RESULT``: what becomes of a float sum, as in ``numbers.rounding``.
``OPERATION``: what is done to integers, as in ``wrapping``.
``MASK``: the bits of the terms of float sums that count.
``IS_EXACT``: whether float64 adds up ``EXACT_TERMS`` terms without rounding.
``KIND``: which terms float sums have.
``TIER``: what the states of segments hold; it goes up for elements that the tier before left open.
``OPEN``: the address of the kernel that decides what a float sum leaves open.
"""

SIGNED, MAGNITUDE, SQUARES, SINGLES = 0, 1, 2, 3
"""Kinds of terms: elements, their magnitudes, their squares, and elements whose sum may be one of FLOAT32."""

PLAIN, COMPENSATED, EXACT = 0, 1, 2
"""Tiers: float64 with an error bound, float64 with the error of every operation kept, and arithmetic without error."""

BATCH = 64
"""Rows that are rounded at once."""
