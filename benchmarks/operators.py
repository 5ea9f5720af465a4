"""Measures operators against other libraries: the cells of ``kernels``, ``elementwise``, ``families`` or ``products``.

All participants of a cell take turns in one process, while the threads of the others sleep; the fastest call of each
counts, which is the most robust on a busy machine. A ratio is opwire's speedup over the fastest peer. With ``--device
cuda``, the cells are those for one NVIDIA GPU, in whose memory the tensors lie, and PyTorch is the peer.
"""

from __future__ import annotations

import argparse
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from opwire.tensor import Array

from .cell import Cell
from .cells import CELLS
from .report import COPY, Row, line, merge, summary

if TYPE_CHECKING:
    from .cpu import Cpu
    from .cuda import Cuda

OWN = "opwire"


def _part(text: str) -> tuple[int, int]:
    which, count = map(int, text.split("/"))
    if not 1 <= which <= count:
        raise argparse.ArgumentTypeError(f"{text} is not a part such as 1/4")
    return which, count


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--only", nargs="+", default=[""], help="only cells whose names contain one of these")
    parser.add_argument("--sizes", nargs="+", help="only cells of these sizes")
    parser.add_argument("--layouts", nargs="+", help="only cells of these layouts")
    parser.add_argument("--part", type=_part, default=(1, 1), metavar="K/N", help="only the K-th of N parts of these")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processor-time", action="store_true", help="compare CPU time of one thread each")
    parser.add_argument("--breakdown", action="store_true", help="the time of each kernel on a GPU instead")


def chosen(given: argparse.Namespace) -> list[Cell]:
    """Returns the cells to measure; a part is a contiguous run of them."""
    cells = [
        cell
        for cell in CELLS[given.benchmark][given.device]()
        if any(each in f"{cell.group} {cell}" for each in given.only)
        and (not given.sizes or cell.size in given.sizes)
        and (not given.layouts or cell.layout in given.layouts)
    ]
    if given.quick:
        given.rounds = 1
        return [next(found) for _, found in groupby(cells, lambda cell: cell.group)]
    which, count = given.part
    return cells[len(cells) * (which - 1) // count : len(cells) * which // count]


def measure(target: Cpu | Cuda, cell: Cell, rounds: int) -> Row:
    """Returns the row of a cell; peers whose results are far from opwire's are left out."""
    calls = target.calls(cell)
    own = calls[OWN].results()
    equal = {}
    for name in [name for name in calls if name not in (OWN, COPY)]:
        theirs = calls[name].results()
        equal[name] = _equal(own, theirs)
        if not (cell.is_chosen or (cell.is_by_element and cell.layout == "strided") or agree(cell, own, theirs)):
            print(f"{cell}: {name} disagrees with opwire and is left out")
            del calls[name], equal[name]
    seconds = target.seconds(calls, rounds)
    peers = [taken for name, taken in seconds.items() if name not in (OWN, COPY)]
    ratio = min(peers) / seconds[OWN] if peers else None
    return {**cell.key, "seconds": seconds, "ratio": ratio, "equal": equal, **target.more(cell)}


def _equal(own: list[Array], theirs: list[Array]) -> float | None:
    one, other = own[0].ravel(), theirs[0].ravel()
    return float((one == other.astype(one.dtype)).mean()) if one.size == other.size and one.size else None


def agree(cell: Cell, own: list[Array], theirs: list[Array]) -> bool:
    """Whether results are alike: equal integers, and floats up to the error of naive summation."""
    one, other = own[0].ravel(), theirs[0].ravel()
    if one.size != other.size:
        return False
    if one.dtype.kind != "f" or other.dtype.kind != "f":
        return bool(np.abs(one.astype(np.float64) - other.astype(np.float64)).max(initial=0) <= 1)
    # Naive sums of millions of FLOAT32 terms, or thousands of FLOAT16 terms, are that inaccurate; some overflow.
    scale = 0.03 if one.dtype == np.float32 else 0.3
    spread = np.sqrt(max((int(np.prod(each.sizes)) for each in cell.inputs.values()), default=1) / max(one.size, 1))
    with np.errstate(invalid="ignore", over="ignore"):
        close = np.abs(one - other) <= scale * np.maximum(np.abs(one), max(spread, 1))
    known = np.isfinite(one) & np.isfinite(other)
    return bool(close[known].all() and known.any() == np.isfinite(one).any())


def target_of(given: argparse.Namespace) -> Cpu | Cuda:
    if given.device == "cuda":
        from .cuda import Cuda

        return Cuda()
    from .cpu import Cpu

    return Cpu(1 if given.processor_time else given.threads, is_processor_time=given.processor_time)


def main(given: argparse.Namespace) -> None:
    cells = chosen(given)
    if given.breakdown:
        from .cuda import breakdown

        return breakdown(cells)
    target, rows = target_of(given), list[Row]()
    conditions = target.conditions()
    for cell in cells:
        rows.append(measure(target, cell, given.rounds))
        print(line(rows[-1]), flush=True)
        if given.json:  # after each cell, so that an interrupted run keeps its results
            merge(given.json, given.benchmark, conditions, rows)
    target.close()
    summary(rows)
    return None
