"""Times networks in ONNX beside ONNX Runtime's CPU provider, and compares their outputs.

``python -m tests.onnx_models.networks`` and ``tests/onnx_models/exported.py`` provide networks; the light models of
the ``onnx`` package are always there. Both sides take turns in this process, with all cores; times are the least of
several runs. Prints a table, in Markdown with ``--markdown``. The errors are those against a run in float64.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import opwire
from opwire.difference.drawing import draw
from opwire.difference.onnx_subject import OnnxSubject
from opwire.level import FeatureLevel
from opwire.onnx import Model, load
from opwire.tensor import Array
from opwire_service.devices.cpu import THREADS_VARIABLE
from tests.onnx_models.networks import Network, networks

from .doubles import evaluate

_RUNS = 7

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Row:
    """A network with its times in seconds, and the errors of both; None without a run in float64."""

    name: str
    level: FeatureLevel
    nodes: int
    on_cpu: int
    loading: float
    opwire: float
    onnxruntime: float
    errors: tuple[float, float] | None


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks networks", description=__doc__)
    parser.add_argument("names", nargs="*", help="networks, all by default")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--processor-time", action="store_true", help="compare CPU time of one thread each")
    parser.add_argument("--quick", action="store_true", help="the smallest network")
    given = parser.parse_args(arguments)
    names = ["squeezenet"] if given.quick else given.names
    plain = (
        "{:20} level {:4} {:5} nodes, {:3} on the CPU {:9.1f} ms, ONNX Runtime {:9.1f} ms, ratio {:6.2f}, errors {} {}"
    )
    line = "| {} | {} | {} | {} | {:.1f} | {:.1f} | {:.2f} | {} | {} |" if given.markdown else plain
    ratios = []
    clock, threads = time.perf_counter, 0
    if given.processor_time:
        clock, threads = time.process_time, 1
        os.environ[THREADS_VARIABLE] = "1"
    with opwire.local() as runner:
        for network, path in networks():
            if names and network.name not in names:
                continue
            row = _row(network, path, runner, threads, clock)
            ratios.append(row.opwire / row.onnxruntime)
            times = row.opwire * 1e3, row.onnxruntime * 1e3, ratios[-1]
            errors = ("-", "-") if row.errors is None else map("{:.1e}".format, row.errors)
            print(line.format(row.name, row.level.short, row.nodes, row.on_cpu, *times, *errors), flush=True)
    if not ratios:
        parser.error("no such network is there; tests/onnx_models/networks.py says where they are looked for")
    print(f"geometric mean of the ratios: {np.exp(np.mean(np.log(ratios))):.2f}")


def _row(network: Network, path: Path, runner: Any, threads: int, clock: Clock) -> Row:
    began = time.perf_counter()
    model = load(path, dimensions=network.dimensions)
    level = model.level
    loading = time.perf_counter() - began
    inputs = drawn(model, network)
    exact = model.run(inputs, runner=runner)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    theirs = dict(zip((each.name for each in session.get_outputs()), session.run(None, inputs), strict=True))
    own, other = _least(clock, lambda: model.run(inputs, runner=runner), lambda: session.run(None, inputs))
    return Row(
        network.name,
        level,
        len(model.nodes),
        sum(not node.is_lowered for node in model.nodes),
        loading,
        own,
        other,
        _errors(path, inputs, exact, theirs),
    )


def _errors(path: Path, inputs: Mapping[str, Array], *sides: Mapping[str, Array]) -> tuple[float, float] | None:
    """Returns the largest error of an output on each side, or None if the network cannot be run in float64."""
    try:
        true = evaluate(path, inputs)
    except Exception:  # of any class, by either package
        return None
    one, other = (max(error(side[name], true[name]) for name in side) for side in sides)
    return one, other


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


def _least(clock: Clock, *sides: Callable[[], Mapping[str, Any] | list[Any]]) -> list[float]:
    """Returns the least time of each side; they take turns."""
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(_RUNS):
        for run, its in zip(sides, times, strict=True):
            began = clock()
            run()
            its.append(clock() - began)
    return [min(its) for its in times]
