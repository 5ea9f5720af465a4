"""Geometry slots of the kernels of REDUCE: which function they compute."""

from __future__ import annotations

from ..run import geometry as g

RESULT, OPERATION, MASK, IS_EXACT, KIND, TIER, OPEN = range(g.PARAMETERS, g.PARAMETERS + 7)
"""Slots of the geometry.

``RESULT``: function applied to a float sum, as in ``numbers.rounding``.
``OPERATION``: operation on integers, as in ``wrapping``.
``MASK``: bits of the terms of float sums that count.
``IS_EXACT``: whether float64 adds up ``EXACT_TERMS`` terms without rounding.
``KIND``: kind of the terms of float sums.
``TIER``: what the states of segments hold; raised for elements that the previous tier left open.
``OPEN``: address of the kernel that decides open float sums.
"""

SIGNED, MAGNITUDE, SQUARES, SINGLES = 0, 1, 2, 3
"""Kinds of terms: elements, magnitudes, squares, and elements whose sum may be computed in FLOAT32."""

PLAIN, COMPENSATED, EXACT = 0, 1, 2
"""Tiers: float64 with an error bound, compensated float64, and exact arithmetic."""

BATCH = 64
"""Rows rounded together."""
