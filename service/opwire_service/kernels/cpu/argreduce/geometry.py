"""What the kernels that search for winners read."""

from __future__ import annotations

from ..run.geometry import Reduction


class Search(Reduction):
    """A search for the winners among the reduced elements."""

    invert: int  # bits of an element to invert for its rank; see ranks.inversion
    last: bool  # whether the last of equal elements wins instead of the first
    index_size: int  # size of an index in bytes, or 0 if elements are returned
