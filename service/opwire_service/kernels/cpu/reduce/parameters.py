"""Geometry slots of the kernels of REDUCE: which function they compute."""

from __future__ import annotations

from ..run import geometry as g

RESULT, OPERATION, KIND, BOUND, SETTLE, OUTPUTS = range(g.PARAMETERS, g.PARAMETERS + 6)
"""Slots of the geometry.

``RESULT``: function applied to a float sum, as in ``numbers.rounding``.
``OPERATION``: operation on integers, as in ``wrapping``.
``KIND``: kind of the terms of float sums.
``BOUND``: factor of the error bound, as the bits of a float64; see the functions.
``SETTLE``: address of the kernel that settles an output element; see ``blocks``.
``OUTPUTS``: number of output elements.
"""

SIGNED, MAGNITUDES, SQUARES = range(3)
"""Kinds of terms: elements, their magnitudes, and their squares. Loops are compiled for each kind."""
