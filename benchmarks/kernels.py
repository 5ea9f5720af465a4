"""Measures the CPU device against NumPy, ONNX Runtime and PyTorch over a fixed matrix of cells.

Run it from the root of the repository: ``python -m benchmarks.kernels``. It prints a table and saves the figures as
JSON and as a plot. NumPy has one thread; all others have ``--threads``.

A cell that is slower than allowed is measured again at the end, for ``--again`` more rounds, as other programs may have
disturbed its first ones. Its medians then cover all rounds.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
from collections.abc import Sequence
from pathlib import Path

import numba
import numpy as np
import onnxruntime
import torch
from rich.progress import track

from opwire_service.devices.cpu import CpuDevice

from .matrix import FUNCTIONS, LAYOUTS, SIZES, Cell, Make, cells
from .measure import Reader, disagreeing, interleaved, participants
from .peers import Call
from .report import READING, Figure, picture, table

FOLDER = Path("benchmarks/results")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    rows = [*FUNCTIONS, "MAX_POOLING"]
    types = sorted({row.name for of in FUNCTIONS.values() for row in of})
    parser.add_argument("--functions", nargs="+", default=rows, choices=rows)
    parser.add_argument("--types", nargs="+", default=types, choices=types)
    parser.add_argument("--layouts", nargs="+", default=list(LAYOUTS), choices=list(LAYOUTS))
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.5, help="seconds per cell")
    parser.add_argument("--rounds", type=int, default=30, help="maximum rounds per cell")
    parser.add_argument(
        "--again", type=int, default=12, help="additional rounds for cells that are slower than allowed"
    )
    parser.add_argument("--output", type=Path, default=FOLDER, help="folder for kernels.json and kernels.svg")
    return parser.parse_args()


def _machine(device: CpuDevice, threads: int) -> dict[str, object]:
    return {
        **device.describe(),
        "threads": threads,
        "system": platform.platform(),
        "onnxruntime": onnxruntime.__version__,
        "pytorch": torch.__version__,
        "numba": numba.__version__,
        "numpy": np.__version__,
    }


def _calls(device: CpuDevice, reader: Reader, cell: Cell, threads: int) -> dict[str, Call]:
    """Returns the participants of a cell whose answers agree with opwire's, and reading the same amount of memory."""
    calls = participants(device, cell, threads)
    for wrong in disagreeing(cell, calls):
        # NumPy, for one, accumulates FLOAT16 in FLOAT16, where the sum stops growing.
        print(f"{' '.join(cell.name)}: {wrong} disagrees with opwire and is left out")
        del calls[wrong]
    if len(calls) == 1:
        raise SystemExit(f"{' '.join(cell.name)}: no peer agrees with opwire")
    return {**calls, READING: reader.call(cell.source.nbytes)}


def _measure(device: CpuDevice, chosen: Sequence[Make], given: argparse.Namespace) -> list[Figure]:
    """Measures cells, and those that are slower than allowed once more, for longer."""
    reader = Reader(given.threads)
    figures = []
    # A refresh thread of the progress bar would disturb the measurement.
    for make in track(chosen, "measuring", auto_refresh=False):
        cell = make()
        times = interleaved(_calls(device, reader, cell, given.threads), given.seconds, given.rounds)
        figures.append(Figure(cell.name, cell.function, cell.source.nbytes, cell.is_float, times))
    slow = [i for i, figure in enumerate(figures) if figure.is_slow] if given.again else []
    for i in track(slow, "measuring again", auto_refresh=False):
        calls = _calls(device, reader, chosen[i](), given.threads)
        figures[i] = figures[i].with_rounds(interleaved(calls, math.inf, given.again), given.again)
    reader.close()
    return figures


def main() -> None:
    given = _arguments()
    device = CpuDevice(given.threads)
    device.warm_up()
    chosen = list(cells(given.functions, given.types, given.layouts, given.sizes))
    figures = _measure(device, chosen, given)
    machine = _machine(device, given.threads)
    table(figures, machine)
    given.output.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine, "cells": [figure.to_json() for figure in figures]}
    (given.output / "kernels.json").write_text(json.dumps(content, indent=1) + "\n")
    picture(figures, machine, given.output / "kernels.svg")
    device.close()


if __name__ == "__main__":
    main()
