"""The results: a table, JSON and a plot."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from rich import box
from rich.table import Table

from ..report import write
from .cases import CASES, Case
from .rounds import Row

OURS, FLOOR = "opwire", "floor"
AXIS = "requests per second relative to the floor (median over numbers of connections)"


@dataclass(slots=True)
class Found:
    """The results of a run.

    Attributes:
        load: name of the load generator.
        seconds, rounds, device: the settings.
        versions: versions of the measured packages, by contender.
        installs: seconds to create an environment, by contender.
        settings: the chosen settings, by contender.
        missing: why a contender could not be measured, by name.
        rows: rows of the table.
    """

    load: str
    seconds: float
    rounds: int
    device: str
    versions: dict[str, str] = field(default_factory=dict)
    installs: dict[str, float] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    @property
    def conditions(self) -> dict[str, object]:
        """The machine, and everything else but the rows."""
        return {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": {"cpu": cpu_model(), "cores": os.cpu_count(), "python": platform.python_version()},
            **{name: value for name, value in asdict(self).items() if name != "rows"},
            "cases": {name: case.sizes for name, case in CASES.items()},
        }

    def write(self, path: Path) -> None:
        """Writes all results as JSON; NaN and infinities become null."""
        rows = [{**_finite(asdict(row)), "lead": _or_none(lead(row, self.rows))} for row in self.rows]
        write(path, "serving", self.conditions, rows)


def _or_none(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _finite(values: Mapping[str, object]) -> dict[str, object]:
    return {name: _or_none(value) if isinstance(value, float) else value for name, value in values.items()}


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
    ours = [
        other.of_floor
        for other in rows
        if (other.contender, other.case, other.connections) == (OURS, row.case, row.connections)
        and other.encoding == row.encoding
    ]
    compared = row.contender not in (OURS, FLOOR)
    return max(ours) / row.of_floor if ours and row.of_floor and compared else float("nan")


def table(case: Case, rows: Sequence[Row]) -> Table:
    """Returns the rows of a case, by connections and then by rate."""
    title = f"ARGMAX along axis 1 of float32 {list(case.sizes)}, {_size(case.tensor_bytes)}"
    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    made.add_column("server")
    made.add_column("form")
    for name in ("conns", "req/s", "floor req/s", "of floor", "time/floor", "CPU us", "p50 ms", "p99 ms", "memory"):
        made.add_column(name, justify="right")
    made.add_column("opwire lead", justify="right")
    made.add_column("errors", justify="right")
    for connections in sorted({row.connections for row in rows if row.case == case.name}):
        shown = [row for row in rows if (row.case, row.connections) == (case.name, connections)]
        for row in sorted(shown, key=lambda row: -row.of_floor):
            made.add_row(*_cells(row, lead(row, rows)))
        made.add_section()
    return made


def _cells(row: Row, ahead: float) -> list[str]:
    return [
        row.title,
        row.form,
        str(row.connections),
        _number(row.rate),
        _number(row.floor_rate),
        f"{row.of_floor:.3f}",
        f"{1 / row.of_floor:.2f}" if row.of_floor else "-",
        _number(row.cpu * 1e6),
        f"{row.p50 * 1e3:.3f}",
        f"{row.p99 * 1e3:.3f}",
        f"{row.memory:.1f} x" if row.case != "small" else "-",
        "" if math.isnan(ahead) else f"{ahead:.1f} x",
        str(row.errors) if row.errors else "",
    ]


def _number(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.2f}"


def _size(number: int) -> str:
    for unit, size in (("MiB", 2**20), ("KiB", 2**10)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number} bytes"


def notes(found: Found) -> list[str]:
    """Returns explanations for the reader of the table."""
    rounds = f"{found.rounds} {'rounds' if found.rounds > 1 else 'round'} of {found.seconds:g} s"
    return [
        f"Load: {found.load}, {rounds}, each after the floor with the same bytes; medians. opwire on {found.device}.",
        "CPU: CPU time of all processes of the server per request. Memory: peak of all its processes above idle while",
        "it answers one request at a time, as a multiple of the tensor; shared memory counts once per process.",
        "opwire lead: opwire's best form of the same encoding relative to this row, each relative to its floor.",
        *(f"{title}: {found.versions[title]}; {words}." for title, words in found.settings.items()),
        *(f"{name} was not measured: {reason}" for name, reason in found.missing.items()),
    ]


def plotted(rows: Sequence[Row], case: Case) -> list[tuple[str, float]]:
    """Returns each form with its rate relative to the floor, the median over all numbers of connections."""
    rates: dict[str, list[float]] = {}
    for row in rows:
        if row.case == case.name:
            rates.setdefault(f"{row.title}, {row.form}", []).append(row.of_floor)
    return sorted(((name, median(found)) for name, found in rates.items()), key=lambda pair: pair[1])


def plot(rows: Sequence[Row], path: Path) -> None:
    """Draws one bar per form, one panel per case."""
    from matplotlib.figure import Figure

    cases = [case for case in CASES.values() if any(row.case == case.name for row in rows)]
    bars = {case.name: plotted(rows, case) for case in cases}
    height = 0.9 + 0.28 * sum(map(len, bars.values())) + 0.9 * len(cases)
    figure = Figure(figsize=(9, height), layout="constrained")
    fields = figure.subplots(len(cases), 1, squeeze=False, height_ratios=[len(bars[case.name]) for case in cases])
    for case, axes in zip(cases, fields[:, 0], strict=True):
        names, rates = zip(*bars[case.name], strict=True)
        colors = ["tab:orange" if name.startswith(OURS) else "tab:blue" for name in names]
        drawn = axes.barh(names, rates, color=colors)
        axes.bar_label(drawn, fmt="%.3f", padding=3)
        axes.set(
            title=f"float32 {list(case.sizes)}",
            xlabel=AXIS,
        )
        axes.margins(x=0.12)
    figure.savefig(path, dpi=150)
