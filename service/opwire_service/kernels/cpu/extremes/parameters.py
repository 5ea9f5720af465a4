"""What the kernels of extremes find in the geometry beside the loops: what is looked for."""

from __future__ import annotations

from ..run import geometry as g

INVERT, LAST, GROUP_ROWS, INDEX_SIZE = range(g.PARAMETERS, g.PARAMETERS + 4)
"""Slots of the geometry.

``INVERT``: the bits of an element to invert for its rank; see ``ranks.inversion``.
``LAST``: whether the last of equals wins, not the first.
``GROUP_ROWS``: rows with one label; see ``labelled_columns``.
``INDEX_SIZE``: bytes of an index, or 0 if elements are asked for.
"""
