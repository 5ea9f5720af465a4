"""Weights of recurrent networks, laid out once per run, or once for all runs if they never change."""

from __future__ import annotations

from opwire.tensor import Array

from ....execution import Stop, Stopped
from ..numbers.vectors import WIDTH
from ..products.operands import padded

PART = 1 << 20
"""Weights laid out at once."""


def panels_shape(rows: int, columns: int) -> tuple[int, int, int]:
    """Returns the shape of the panels of weights ``[rows, columns]``."""
    return padded(rows) // WIDTH, columns, WIDTH


def lay_out(view: Array, panels: Array, stop: Stop) -> None:
    """Copies weights ``[rows, columns]`` in panels of sixteen rows; zeros fill up the last one.

    Raises:
        Stopped: ``stop()`` returned True.
    """
    rows, columns = view.shape
    whole = rows // WIDTH
    height = max(1, PART // (WIDTH * columns))
    for first in range(0, whole, height):
        if stop():
            raise Stopped
        part = slice(first, min(first + height, whole))
        panels[part] = view[part.start * WIDTH : part.stop * WIDTH].reshape(-1, WIDTH, columns).swapaxes(1, 2)
    if whole < len(panels):
        panels[whole] = 0
        panels[whole, :, : rows - whole * WIDTH] = view[whole * WIDTH :].T
