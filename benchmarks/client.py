"""Measures the client's overhead per call: ARGMAX of float32 [3,3], against Triton's client, on the same server.

python benchmarks/client.py http://127.0.0.1:8000

Requires ``pip install "tritonclient[http]"``. The clients take turns, with one call at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import urlsplit

import numpy as np
import typer
from tritonclient.http import InferenceServerClient, InferInput

from opwire import Client

X = np.array([[1, 3, 2], [6, 5, 4], [7, 8, 9]], np.float32)
ANSWER = [1, 0, 2]
TURNS = 20


def triton(url: str) -> Callable[[], Any]:
    """Returns the call with Triton's client."""
    client = InferenceServerClient(urlsplit(url).netloc)
    parameters = {"Axes": "[1]", "AxisDirection": "INCREASING"}

    def call() -> Any:
        given = InferInput("InputTensor", list(X.shape), "FP32")
        given.set_data_from_numpy(X)
        return client.infer("ARGMAX", [given], parameters=parameters).as_numpy("OutputTensor")

    return call


def opwire(url: str) -> Callable[[], Any]:
    """Returns the call with opwire's client."""
    client = Client(url)
    return lambda: client.argmax(X, 1).output


def main(
    url: Annotated[str, typer.Argument(help="URL of a running opwire server.")] = "http://127.0.0.1:8000",
    calls: Annotated[int, typer.Option(min=TURNS, help="Calls per client.")] = 4000,
) -> None:
    """Compares the clients."""
    clients = {"tritonclient": triton(url), "opwire": opwire(url)}
    seconds: dict[str, list[float]] = {name: [] for name in clients}
    used = dict.fromkeys(clients, 0.0)
    for call in clients.values():
        if call().ravel().tolist() != ANSWER:
            raise SystemExit("wrong answer")
    for _ in range(TURNS):
        for name, call in clients.items():
            began = time.process_time()
            for _ in range(calls // TURNS):
                started = time.perf_counter()
                call()
                seconds[name].append(time.perf_counter() - started)
            used[name] += time.process_time() - began
    for name, found in seconds.items():
        p50, p90 = (1e6 * np.percentile(found, percent) for percent in (50, 90))
        cpu = 1e6 * used[name] / len(found)
        typer.echo(f"{name:>12}: p50 {p50:.0f} us, p90 {p90:.0f} us, client CPU {cpu:.0f} us per call")
    ratio = np.median(seconds["opwire"]) / np.median(seconds["tritonclient"])
    typer.echo(f"opwire takes {ratio:.2f} times as long as tritonclient")


if __name__ == "__main__":
    typer.run(main)
