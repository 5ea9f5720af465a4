"""A graph of 20 small operators over HTTP, compared with a single operator and with 20 requests."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

import opwire

COUNT = 20
"""Operators in the graph."""

_WARM = 200
"""Untimed calls at first, during which kernels are compiled."""

_AT_A_TIME = 50


@contextmanager
def _server() -> Iterator[str]:
    """Runs a server with default settings and yields its URL."""
    command = [sys.executable, "-m", "opwire_service", "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            yield next(found[1] for line in lines if (found := re.search(r"ready at (\S+)", line)))
        finally:
            process.terminate()


def _graph() -> opwire.Graph:
    """Returns a graph of additions, activations, reductions and absolute values."""
    graph = opwire.Graph()
    x = graph.input("x", "FLOAT32", [8, 16])
    y = x
    for i in range(COUNT):
        kind = i % 4
        if kind == 0:
            y = graph.element_wise_add(y, x)
        elif kind == 1:
            y = graph.activation_relu(y)
        elif kind == 2:
            y = graph.reduce(y, "MAX", [])
        else:
            y = graph.element_wise_abs(y)
    graph.output("y", y)
    return graph


def small_operators(rounds: int) -> dict[str, float]:
    """Returns the median seconds of each call, and their ratios."""
    x = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
    graph = _graph()
    with _server() as url, opwire.Client(url) as client:
        client.register_graph("small", graph)
        calls: dict[str, Callable[[], object]] = {
            "one operator": lambda: client.element_wise_add(x, x),
            "the graph": lambda: client.execute(graph, {"x": x}),
            "the graph by its name": lambda: client.execute("small", {"x": x}),
            "20 requests": lambda: [client.element_wise_add(x, x) for _ in range(COUNT)],
        }
        for call in calls.values():
            for _ in range(_WARM if call is not calls["20 requests"] else 1):
                call()
        taken: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(rounds):
            for name, call in calls.items():
                for _ in range(_AT_A_TIME if name != "20 requests" else _AT_A_TIME // 10):
                    begin = time.perf_counter()
                    call()
                    taken[name].append(time.perf_counter() - begin)
    found = {name: statistics.median(seconds) for name, seconds in taken.items()}
    for name in ("the graph", "the graph by its name"):
        found[f"times of one operator, {name}"] = found[name] / found["one operator"]
        found[f"times as fast as 20 requests, {name}"] = found["20 requests"] / found[name]
    return found
