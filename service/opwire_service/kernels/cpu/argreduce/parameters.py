"""Geometry slots of the kernels that search for winners."""

from __future__ import annotations

from ..run import geometry as g

INVERT, LAST, INDEX_SIZE, OUTPUTS = range(g.PARAMETERS, g.PARAMETERS + 4)
"""Slots of the geometry.

``INVERT``: bits of an element to invert for its rank; see ``ranks.inversion``.
``LAST``: whether the last of equal elements wins instead of the first.
``INDEX_SIZE``: size of an index in bytes, or 0 if elements are returned.
``OUTPUTS``: number of output elements.
"""
