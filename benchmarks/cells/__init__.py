"""The cells of each benchmark, by device."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..cell import Cell
from . import elementwise, families, kernels, large, products

CELLS: dict[str, dict[str, Callable[[], Iterator[Cell]]]] = {
    "kernels": {"cpu": kernels.cpu, "cuda": kernels.cuda},
    "elementwise": {"cpu": elementwise.cpu, "cuda": elementwise.cuda},
    "families": {"cpu": families.cells, "cuda": large.cells},
    "products": {"cpu": products.cpu, "cuda": products.cuda},
}
"""What yields the cells, by benchmark and device."""
