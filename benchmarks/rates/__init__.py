"""Predicts the speed of the GPU kernels on cards that are not at hand, from their machine code; needs no GPU.

The programs of the cells of the other benchmarks are compiled for each card, and disassembled. What runs for nearly all
elements, the common path, gives the instructions of each pipe; an operator takes as long as its memory traffic or its
busiest pipe, whichever is longer. That is a bound: it knows nothing of latency, occupancy, bank conflicts or caches, of
overlapping windows that are read more than once, or of clocks that a power limit lowers. It needs the packages
``nvidia-cuda-nvrtc`` and ``nvidia-cuda-nvdisasm``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ..cell import Cell
from ..cells import CELLS
from ..report import versions, write
from .cards import CARDS
from .predicting import predicted

OTHERS = ("elementwise", "families", "kernels")
PRODUCT = "GEMM FLOAT32 4096x4096x4096"


def chosen() -> Iterator[Cell]:
    """Yields the cells, each operator and type in its first layout only, and none whose work depends on the data."""
    seen: set[tuple[str, str, str]] = set()
    for benchmark in OTHERS:
        for cell in CELLS[benchmark]["cuda"]():
            if cell.group != "chosen" and (cell.group, cell.name, cell.type) not in seen:
                seen.add((cell.group, cell.name, cell.type))
                yield cell
    yield from (cell for cell in CELLS["products"]["cuda"]() if cell.name == PRODUCT)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="+", default=[""], help="only cells whose names contain one of these")


def main(given: argparse.Namespace) -> None:
    """Predicts all cells, or those whose names contain a text."""
    cells = [cell for cell in chosen() if any(each in f"{cell.group} {cell}" for each in given.only)]
    rows = []
    for cell in cells[:1] if given.quick else cells:
        found = {card.name: predicted(cell, card) for card in CARDS}
        rows.append({**cell.key, "cards": {name: each.told for name, each in found.items()}})
        print(f"{cell!s:50}", *(f"{each.ratio:.2f} {each.limit:8}" for each in found.values()), flush=True)
    if given.json:
        known = {
            "versions": versions("nvidia-cuda-nvrtc", "nvidia-cuda-nvdisasm"),
            "cards": [card.told for card in CARDS],
        }
        write(given.json, "rates", known, rows)
