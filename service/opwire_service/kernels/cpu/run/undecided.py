"""Elements that an error bound leaves undecided: each is settled with exact arithmetic, alone or with its row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from opwire.tensor import Array

from ....execution import Stop, Stopped
from .arranged import Arrangement
from .tiles import Slices


def settle(into: Array, undecided: Array, exact: Callable[[tuple[int, ...]], Any], stop: Stop) -> None:
    """Writes exact results where ``undecided`` is true; ``exact`` takes an element's place."""
    for place in map(tuple, np.argwhere(undecided).tolist()):
        if stop():
            raise Stopped
        into[place] = exact(place)


def by_row(undecided: Array, layout: Arrangement, at: Slices, stop: Stop) -> Iterator[tuple[Slices, tuple[Array, ...]]]:
    """Yields the rows of a tile that have undecided elements: the slices of the whole row, and the elements' index."""
    index = np.nonzero(undecided)
    if not index[0].size:
        return
    kept = [np.zeros_like(each) if i in layout.axes else each for i, each in enumerate(index)]
    rows = np.ravel_multi_index(kept, undecided.shape)
    order = np.argsort(rows, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(rows[order])) + 1):
        if stop():
            raise Stopped
        chosen = tuple(each[part] for each in index)
        yield layout.whole_row([int(each[0]) for each in chosen], at), chosen
