"""Places in a row of cells for devices that come and go, and their names, which are cells of that row too."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

SEATS = 256
"""Devices of a cluster that a process counts at a time."""

NAME_CELLS = 16
"""Cells that hold a name; what is longer is cut."""

_MARK = "~"


def seat_label(number: int) -> str:
    """The label in the layout of all rows that stands for the name of a device."""
    return f"{_MARK}{number}"


def is_seat(labels: tuple[str, ...]) -> bool:
    """Whether label values are those of a place."""
    return bool(labels) and labels[0].startswith(_MARK)


def name_cells(name: str) -> list[int]:
    """A name as cells; all are zero of an empty one."""
    written = name.encode()[: NAME_CELLS * 8].ljust(NAME_CELLS * 8, b"\0")
    found: list[int] = np.frombuffer(written, np.int64).tolist()
    return found


def names(cells: NDArray[np.int64]) -> Iterator[tuple[int, str]]:
    """The numbers and names of the places that are taken, from the cells of all names."""
    rows = cells.reshape(-1, NAME_CELLS)
    for number in np.flatnonzero(rows.any(axis=1)).tolist():
        yield number, rows[number].tobytes().rstrip(b"\0").decode(errors="replace")
