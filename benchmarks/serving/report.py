"""The table of results, and what the reader of it should know."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from ..report import Row
from .cases import Case

OURS, FLOOR = "opwire", "floor"


def cpu_model() -> str:
    """Returns the CPU model from /proc, if it has one."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def lead(row: Row, rows: Sequence[Row]) -> float:
    """Returns opwire's throughput in its best form of the same encoding as a multiple of this row's; NaN if unknown.

    Both are relative to the floor that ran beside each.
    """
    alike = ("case", "connections", "encoding")
    ours = [
        each["of_floor"]
        for each in rows
        if each["contender"] == OURS and all(each[name] == row[name] for name in alike)
    ]
    compared = row["contender"] not in (OURS, FLOOR)
    return max(ours) / row["of_floor"] if ours and row["of_floor"] and compared else math.nan


_COLUMNS: Mapping[str, Callable[[Row], str]] = {
    "conns": lambda row: str(row["connections"]),
    "req/s": lambda row: _number(row["rate"]),
    "floor req/s": lambda row: _number(row["floor_rate"]),
    "of floor": lambda row: f"{row['of_floor']:.3f}",
    "CPU us": lambda row: _number(row["cpu"] * 1e6),
    "p50 ms": lambda row: f"{row['p50'] * 1e3:.3f}",
    "p99 ms": lambda row: f"{row['p99'] * 1e3:.3f}",
    "memory": lambda row: f"{row['memory']:.1f} x" if row["case"] != "small" else "-",
    "opwire lead": lambda row: "" if math.isnan(row["lead"]) else f"{row['lead']:.1f} x",
    "errors": lambda row: str(row["errors"] or ""),
}


def _number(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.2f}"


def table(case: Case, rows: Sequence[Row]) -> Table:
    """Returns the rows of a case, by connections and then by rate."""
    size = case.tensor_bytes
    shown = f"{size / 2**20:.3g} MiB" if size >= 2**20 else f"{size} bytes"
    title = f"ARGMAX along axis 1 of float32 {list(case.sizes)}, {shown}"
    made = Table("server", "form", title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for name in _COLUMNS:
        made.add_column(name, justify="right")
    for row in sorted(rows, key=lambda row: (row["connections"], -row["rate"])):
        if row["case"] == case.name:
            made.add_row(row["title"], row["form"], *(told(row) for told in _COLUMNS.values()))
    return made


def notes(conditions: Mapping[str, Any]) -> Iterator[str]:
    """Yields explanations for the reader of the table."""
    rounds = f"{conditions['rounds']} rounds of {conditions['seconds']:g} s"
    yield f"Load: {conditions['load']}, {rounds}, each after the floor with the same bytes; medians."
    yield f"opwire on {conditions['device']}."
    yield "CPU: CPU time of all processes of the server per request. Memory: peak of all its processes above idle while"
    yield "it answers one request at a time, as a multiple of the tensor; shared memory counts once per process."
    yield "opwire lead: opwire's best form of the same encoding relative to this row, each relative to its floor."
    yield from (f"{title}: {conditions['versions'][title]}; {each}." for title, each in conditions["settings"].items())
    yield from (f"{name} was not measured: {reason}" for name, reason in conditions["missing"].items())
