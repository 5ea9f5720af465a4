"""Slots in a row of cells for devices that join and leave, with their names stored in cells of the row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

SEATS = 256
"""Maximum number of cluster devices that a process keeps metrics for."""

NAME_CELLS = 16
"""Number of cells per name; longer names are truncated."""

_MARK = "~"


def seat_label(number: int) -> str:
    """Returns the placeholder for a device name in the layout."""
    return f"{_MARK}{number}"


def is_seat(labels: tuple[str, ...]) -> bool:
    """Whether label values are those of a slot."""
    return bool(labels) and labels[0].startswith(_MARK)


def name_cells(name: str) -> list[int]:
    """Encodes a name as cells, which are all zero for an empty name."""
    written = name.encode()[: NAME_CELLS * 8].ljust(NAME_CELLS * 8, b"\0")
    found: list[int] = np.frombuffer(written, np.int64).tolist()
    return found


def names(cells: NDArray[np.int64]) -> Iterator[tuple[int, str]]:
    """Yields number and name of each slot in use, given the cells of all names."""
    rows = cells.reshape(-1, NAME_CELLS)
    for number in np.flatnonzero(rows.any(axis=1)).tolist():
        yield number, rows[number].tobytes().rstrip(b"\0").decode(errors="replace")
