"""Measures the operator families other than products on the CPU, against NumPy, ONNX Runtime, PyTorch and JAX.

Run it from the root of the repository: ``python -m benchmarks.families``. All participants of a cell take turns in one
process, while the threads of the others sleep; the fastest call of each counts. A ratio is opwire's speedup over the
best peer. Data movement is also compared with a plain copy of the same number of bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from opwire.check import Plan, check
from opwire.tensor import Array, DataType
from opwire_service.devices.cpu import CpuDevice

from .family_cells import FAMILIES, MOVEMENT, Cell
from .family_peers import PEERS, Call
from .family_report import COPY, picture, slower, summary
from .products import machine
from .resting import rest

Clock = Callable[[], float]

SIZES = {"16KB": 1 << 12, "16MB": 1 << 22, "64MB": 1 << 24}
"""Number of 4-byte elements, by size."""

TURN = 0.02
"""Duration of a participant's turn, in seconds."""


def _drawn(layout: str) -> Callable[..., Array]:
    """Returns a factory of inputs; strided ones have their last two dimensions swapped in memory."""

    def draw(*sizes: int) -> Array:
        values = np.random.default_rng(0).standard_normal(sizes, np.float32)
        return values if layout == "packed" else np.ascontiguousarray(values.swapaxes(-1, -2)).swapaxes(-1, -2)

    return draw


def _described(array: Array) -> dict[str, Any]:
    strides = [step // array.itemsize for step in array.strides]
    return {"DataType": DataType.of(array.dtype).name, "Sizes": list(array.shape), "Strides": strides}


def _plan(cell: Cell) -> Plan:
    desc: dict[str, Any] = dict(cell.fields)
    for name, array in cell.inputs.items():
        if name.endswith("]"):
            desc.setdefault(name[:-3], []).append(_described(array))
        else:
            desc[name] = _described(array)
    return check({"type": cell.operator, "desc": desc})


def _opwire(device: CpuDevice, plan: Plan, cell: Cell) -> Call:
    outputs = {name: tensor.allocate()[1] for name, tensor in plan.outputs.items()}
    device.run(plan, cell.inputs, outputs, lambda: False)
    bound = device.bind(plan, cell.inputs, outputs)
    return lambda: bound(lambda: False)


def _copy(plan: Plan) -> Call:
    """Copies half the bytes that a plan reads and writes, with all threads, between packed arrays."""
    import torch

    count = sum(desc.data_size_in_bytes for desc in (*plan.inputs.values(), *plan.outputs.values())) // 2
    source, target = (torch.from_numpy(np.full(count, number, np.uint8)) for number in range(2))  # in huge pages
    return lambda: target.copy_(source)


def _participants(device: CpuDevice, cell: Cell, threads: int) -> dict[str, Call]:
    plan = _plan(cell)
    peers = {name: make(cell, threads) for name, make in PEERS.items()}
    calls = {"opwire": _opwire(device, plan, cell), **{name: call for name, call in peers.items() if call}}
    return {**calls, COPY: _copy(plan)} if cell.family == MOVEMENT else calls


def _measure(calls: dict[str, Call], rounds: int, clock: Clock) -> dict[str, float]:
    """Returns the minimum seconds of each call, taken in turns; the minimum is the most robust on a busy machine."""
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            rest()
            call()
            end = now = time.perf_counter()
            end += TURN
            while now < end:
                begin = clock()
                call()
                least[name] = min(least[name], clock() - begin)
                now = time.perf_counter()
    return least


def _renewed(known: list[dict[str, Any]], found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merges figures by cell; new ones replace known ones."""

    def cells(figures: list[dict[str, Any]]) -> dict[tuple[str, ...], dict[str, Any]]:
        return {tuple(figure[name] for name in ("family", "size", "layout", "name")): figure for figure in figures}

    return list((cells(known) | cells(found)).values())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--layouts", nargs="+", default=["packed", "strided"])
    parser.add_argument("--processor-time", action="store_true", help="compare CPU time, for a busy machine")
    parser.add_argument("--only", nargs="+", default=[""], help="only cells whose family or name contains one of these")
    parser.add_argument("--json", type=Path, help="JSON file for the results; keeps its other cells")
    parser.add_argument("--picture", type=Path, help="SVG file for a plot of all results in the JSON file")
    options = parser.parse_args(arguments)
    if options.processor_time and options.threads != 1:
        parser.error("--processor-time compares single threads: use --threads 1")
    clock = time.process_time if options.processor_time else time.perf_counter
    if hasattr(os, "sched_setaffinity"):  # JAX uses one thread per core
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    device, figures = CpuDevice(options.threads), []
    for _ in device.warm_up():  # otherwise a bound plan looks for its kernels on every call
        pass
    for family, size, layout in product(FAMILIES, options.sizes, options.layouts):
        for cell in family(SIZES[size], _drawn(layout)):
            if not any(each in f"{cell.family} {cell.name}" for each in options.only):
                continue
            taken = _measure(_participants(device, cell, options.threads), options.rounds, clock)
            ratio = min(value for name, value in taken.items() if name not in ("opwire", COPY)) / taken["opwire"]
            figures.append({"family": cell.family, "name": cell.name, "size": size, "layout": layout, "ratio": ratio})
            figures[-1]["seconds"] = taken
            each = "  ".join(f"{name} {value * 1e3:.3f}" for name, value in taken.items())
            print(f"{cell.family:20} {cell.name:26} {layout:7} {size:5} {each}  x{ratio:.2f}", flush=True)
    device.close()
    console = Console(width=160)
    console.print(summary(figures), *slower(figures), sep="\n")
    if options.json:
        known = json.loads(options.json.read_text())["cells"] if options.json.exists() else []
        report = {"machine": machine(options.threads, options.processor_time), "cells": _renewed(known, figures)}
        options.json.write_text(json.dumps(report, indent=1) + "\n")
        if options.picture:
            picture(report["cells"], report["machine"], options.picture)


if __name__ == "__main__":
    main()
