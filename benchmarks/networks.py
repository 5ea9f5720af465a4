"""Times networks in ONNX beside ONNX Runtime's CPU provider, and compares their outputs.

``python -m tests.onnx_models.networks`` and ``tests/onnx_models/exported.py`` provide networks; the light models of
the ``onnx`` package are always there. Each side runs several times in a row in this process, with all cores; times are
the least. The errors are those against a run in float64.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import opwire
from opwire.difference.drawing import draw
from opwire.difference.onnx_subject import OnnxSubject
from opwire.onnx import Model, load
from opwire.tensor import Array
from opwire_service.devices.cpu import THREADS_VARIABLE
from tests.onnx_models.networks import Network, networks

from .doubles import evaluate
from .report import Row, conditions, mean, versions, write

_RUNS, _SECONDS = 7, 0.3
"""Fewest runs of a side, and seconds of which the fastest run counts: those of small networks take less than 1 ms."""
_QUICK = "squeezenet"

Clock = Callable[[], float]


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", help="networks, all by default")
    parser.add_argument("--processor-time", action="store_true", help="compare CPU time of one thread each")


def main(given: argparse.Namespace) -> None:
    names, threads = [_QUICK] if given.quick else given.names, 0
    measured = partial(_row, clock=time.perf_counter)
    if given.processor_time:
        measured, threads = partial(_row, clock=time.process_time), 1
        os.environ[THREADS_VARIABLE] = "1"
    rows = []
    with opwire.local() as runner:
        for network, path in networks():
            if not names or network.name in names:
                rows.append(measured(network, path, runner, threads))
                print(_line(rows[-1]), flush=True)
    if not rows:
        raise SystemExit("no such network is there; tests/onnx_models/networks.py says where they are looked for")
    print(f"geometric mean of the ratios: {mean(row['ratio'] for row in rows):.2f}")
    if given.json:
        clock = "least CPU time" if given.processor_time else "least time"
        found = conditions(threads=threads or os.cpu_count(), clock=clock, versions=versions("onnxruntime"))
        write(given.json, "networks", found, rows)


def _line(row: Row) -> str:
    times = ", ".join(f"{name} {seconds * 1e3:.1f} ms" for name, seconds in row["seconds"].items())
    errors = " ".join(f"{error:.1e}" for error in row["errors"].values())
    nodes = f"level {row['level']:4} {row['nodes']:5} nodes, {row['on_cpu']:3} on the CPU"
    return f"{row['name']:20} {nodes}, {times}, x{row['ratio']:.2f}, errors {errors or '-'}"


def _row(network: Network, path: Path, runner: opwire.LocalClient, threads: int, *, clock: Clock) -> Row:
    """Returns the times of a network, and the errors of both sides unless it cannot be run in float64.

    The ratio is that of opwire's time to the other.
    """
    model = load(path, dimensions=network.dimensions)
    inputs = drawn(model, network)
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level, settings.intra_op_num_threads = 4, threads
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    sides: dict[str, Callable[[], Mapping[str, Any]]] = {
        "opwire": lambda: model.run(inputs, runner=runner),
        "onnxruntime": lambda: dict(zip(names, session.run(None, inputs), strict=True)),
    }
    results = {name: run() for name, run in sides.items()}
    seconds = dict.fromkeys(sides, np.inf)
    for name, run in sides.items():
        runs, end = 0, time.perf_counter() + _SECONDS
        # In a row, since threads of ONNX Runtime wait actively for a while after a run.
        while runs < _RUNS or time.perf_counter() < end:
            began = clock()
            run()
            seconds[name] = min(seconds[name], clock() - began)
            runs += 1
    return {
        "name": network.name,
        "level": model.level.short,
        "nodes": len(model.nodes),
        "on_cpu": sum(not node.is_lowered for node in model.nodes),
        "seconds": seconds,
        "ratio": seconds["opwire"] / seconds["onnxruntime"],
        "errors": _errors(path, inputs, results),
    }


def _errors(path: Path, inputs: Mapping[str, Array], sides: Mapping[str, Mapping[str, Array]]) -> dict[str, float]:
    """Returns the largest error of an output on each side; nothing if the network cannot be run in float64."""
    try:
        true = evaluate(path, inputs)
    except Exception:  # of any class, by either package
        return {}
    return {side: max(error(found[name], true[name]) for name in found) for side, found in sides.items()}


def drawn(model: Model, network: Network) -> dict[str, Array]:
    """Returns inputs of a network: normal floats, and integers below the network's bound."""
    subject = OnnxSubject(model, network.name)
    generator = np.random.default_rng(0)
    found = draw(subject.inputs)
    for name, kind in subject.inputs.items():
        if kind.dtype.kind in "iu":
            found[name] = generator.integers(0, network.integers, kind.sizes).astype(kind.dtype)
    return found


def error(one: Array, other: Array) -> float:
    """Returns the largest difference, as a share of the largest element."""
    if one.dtype.kind != "f":
        return float(not np.array_equal(one, other))
    largest = max(float(np.abs(other.astype(np.float64)).max(initial=0)), 1e-30)
    return float(np.abs(one.astype(np.float64) - other.astype(np.float64)).max(initial=0)) / largest
