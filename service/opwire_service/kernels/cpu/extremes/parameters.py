"""Geometry slots of the kernels of extremes: what is searched for."""

from __future__ import annotations

from ..run import geometry as g

INVERT, LAST, GROUP_ROWS, INDEX_SIZE = range(g.PARAMETERS, g.PARAMETERS + 4)
"""Slots of the geometry.

``INVERT``: bits of an element to invert for its rank; see ``ranks.inversion``.
``LAST``: whether the last of equal elements wins instead of the first.
``GROUP_ROWS``: rows per label; see ``labeled_columns``.
``INDEX_SIZE``: size of an index in bytes, or 0 if elements are returned.
"""
