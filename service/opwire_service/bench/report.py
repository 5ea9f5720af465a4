"""Output of ``opwire bench``: live progress, a table, JSON and a plot."""

from __future__ import annotations

import platform
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from .load_generator import BUSY, LoadResult
from .workload import Bench, Report

PERCENTS = (50, 90, 99)

_CLIENT_BOUND = (
    f"* This program used more than {BUSY:.0%} of a core, so it may be the bottleneck rather than the server. "
    "Use a faster load generator such as wrk, or run several instances of this one."
)


def table(loads: Sequence[LoadResult]) -> Table:
    """Returns a table with one load per row and times in milliseconds."""
    made = Table(box=box.SIMPLE_HEAD)
    times = (*(f"p{percent} ms" for percent in PERCENTS), "max ms")
    for title in ("connections", "requests/s", *times, "client CPU"):
        made.add_column(title, justify="right")
    made.add_column("errors")
    for load in loads:
        made.add_row(
            str(load.connections),
            f"{load.rate:,.1f}",
            *(f"{load.percentile(percent) * 1000:,.3f}" for percent in (*PERCENTS, 100)),
            f"{load.cpu:.0%}{' *' if load.client_bound else ''}",
            ", ".join(f"{count} x {reason}" for reason, count in load.errors.items()),
        )
    return made


def notes(loads: Sequence[LoadResult]) -> list[str]:
    """Returns the notes that belong to the table."""
    return [_CLIENT_BOUND] if any(load.client_bound for load in loads) else []


@contextmanager
def progress(seconds: float) -> Generator[Report | None]:
    """Shows live progress of a measurement on a terminal, and nothing elsewhere.

    Args:
        seconds: duration of each load.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:

        def report(done: Sequence[LoadResult], connections: int, passed: float, answers: int) -> None:
            rate = answers / passed if passed else 0.0
            words = f" {connections} connections: {passed:.1f} of {seconds:g} s, {rate:,.0f} requests/s"
            live.update(Group(table(done), Text(words)), refresh=True)

        yield report


def to_json(bench: Bench) -> dict[str, object]:
    """Returns a measurement as JSON, with times in milliseconds, or null without responses."""
    workload = bench.workload
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "client": {"python": platform.python_version(), "machine": platform.machine()},
        "url": bench.url,
        "server": bench.server,
        "workload": {
            "operator": "ARGMAX",
            "sizes": list(workload.sizes),
            "axis": workload.axis,
            "encoding": workload.encoding,
            "device": workload.device or bench.server["default_device"],
            "request_bytes": bench.request_bytes,
        },
        "loads": [_load_json(load) for load in bench.loads],
    }


def _load_json(load: LoadResult) -> dict[str, object]:
    times = {f"p{percent}_ms": load.percentile(percent) for percent in PERCENTS} | {"max_ms": load.percentile(100)}
    return {
        "connections": load.connections,
        "seconds": round(load.seconds, 3),
        "answers": len(load.latencies),
        "requests_per_second": round(load.rate, 2),
        **{name: round(seconds * 1000, 4) if load.latencies else None for name, seconds in times.items()},
        "errors": dict(load.errors),
        "client_cpu": round(load.cpu, 3),
        "client_bound": load.client_bound,
    }


def plotter(path: Path) -> Callable[[Bench], None]:
    """Returns a function that plots rates and latencies by number of connections to a file.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import ScalarFormatter

    def draw(bench: Bench) -> None:
        figure = Figure(figsize=(10, 4.2), layout="constrained")
        rates, times = figure.subplots(1, 2)
        counts = [load.connections for load in bench.loads]
        rates.plot(counts, [load.rate for load in bench.loads], marker="o")
        rates.set(ylabel="requests/s", ylim=(0, None))
        for percent in PERCENTS:
            shown = [load.percentile(percent) * 1000 for load in bench.loads]
            times.plot(counts, shown, marker="o", label=f"p{percent}")
        times.set(ylabel="latency, ms", yscale="log")
        times.legend()
        for axes in (rates, times):
            axes.set(xlabel="connections", xscale="log")
            axes.set_xticks(counts, minor=False)
            axes.xaxis.set_major_formatter(ScalarFormatter())
            axes.grid(alpha=0.3)
        workload = bench.workload
        figure.suptitle(f"ARGMAX of float32 {list(workload.sizes)}, {workload.encoding}, at {bench.url}")
        figure.savefig(path, dpi=150)

    return draw
