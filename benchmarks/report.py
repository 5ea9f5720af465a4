"""The results as a terminal table and as a plot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from pathlib import Path
from statistics import median

import matplotlib as mpl
from rich.console import Console
from rich.table import Table

from .matrix import EXACT, EXTREMES, MIB

PEERS = ("NumPy", "ONNX Runtime", "PyTorch")

READING = "reading"
"""The additional participant of each cell: reading the same amount of memory with the same number of threads."""

LARGE = 16 * MIB
"""Size from which on a cell is judged by memory speed rather than by overhead."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured cell.

    Attributes:
        name: function or pooling, layout, data type and size.
        function: the REDUCE function, or ``MAX_POOLING2``.
        size: size of the input in bytes.
        is_float: whether its elements are floats.
        times: seconds of all calls by participant.
        again: rounds that were added because it was slow.
    """

    name: tuple[str, ...]
    function: str
    size: int
    is_float: bool
    times: Mapping[str, Sequence[float]]
    again: int = 0

    def with_rounds(self, times: Mapping[str, Sequence[float]], rounds: int) -> Figure:
        """Returns the cell with the times of additional rounds."""
        return replace(self, times={name: [*taken, *times[name]] for name, taken in self.times.items()}, again=rounds)

    @property
    def medians(self) -> Mapping[str, float]:
        """Median seconds by participant."""
        return {name: median(taken) for name, taken in self.times.items()}

    @property
    def best_peer(self) -> str | None:
        medians = self.medians
        return min((name for name in PEERS if name in medians), key=medians.__getitem__, default=None)

    @property
    def ratio(self) -> float | None:
        """Speedup over the best peer."""
        peer = self.best_peer
        return None if peer is None else self.medians[peer] / self.medians["opwire"]

    @property
    def read_fraction(self) -> float:
        """Speed of processing the input, as a fraction of the read bandwidth for the same amount of memory."""
        return self.medians[READING] / self.medians["opwire"]

    @property
    def allowed(self) -> float:
        """Allowed multiple of the best peer's time: correctly rounded float sums cost more than plain ones."""
        return 1.6 if self.is_float and self.function in EXACT else 1.25

    @property
    def is_slow(self) -> bool:
        """Whether it is slower than allowed, for a size to which that applies."""
        return self.size >= LARGE and self.ratio is not None and self.ratio * self.allowed < 1

    def to_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "bytes": self.size,
            "median_seconds": self.medians,
            "least_seconds": {name: min(taken) for name, taken in self.times.items()},
            "rounds_added": self.again,
            "best_peer": self.best_peer,
            "times_faster": self.ratio,
            "read_fraction": self.read_fraction,
        }


def geometric_mean(values: Iterable[float]) -> float:
    logarithms = [log(value) for value in values]
    return exp(sum(logarithms) / len(logarithms)) if logarithms else float("nan")


def table(figures: Sequence[Figure], machine: Mapping[str, object]) -> None:
    """Prints every cell, and a summary of the large ones."""
    console = Console(width=150)
    console.print(", ".join(f"{name} {value}" for name, value in machine.items() if name != "operators"))
    cells = Table("cell", "opwire ms", *(f"{peer} ms" for peer in PEERS), "times faster", "of read bandwidth")
    for figure in figures:
        peers = [f"{figure.medians[peer] * 1e3:.3f}" if peer in figure.medians else "-" for peer in PEERS]
        ratio = "-" if figure.ratio is None else f"{figure.ratio:.2f}"
        cells.add_row(
            " ".join(figure.name),
            f"{figure.medians['opwire'] * 1e3:.3f}",
            *peers,
            ratio,
            f"{figure.read_fraction:.2f}",
            style="red" if figure.is_slow else None,
        )
    console.print(cells)
    for line in summary(figures):
        console.print(line)


def summary(figures: Sequence[Figure]) -> list[str]:
    """Returns the geometric means, the slowest cells, and the read bandwidth that extremes achieve."""
    lines = []
    for name, chosen in (
        ("16 MB and above", [figure for figure in figures if figure.size >= LARGE]),
        ("below", [figure for figure in figures if figure.size < LARGE]),
    ):
        ratios = [figure.ratio for figure in chosen if figure.ratio is not None]
        if ratios:
            lines.append(f"{name}: {len(ratios)} cells, geometric mean {geometric_mean(ratios):.2f} times faster")
    large = [figure for figure in figures if figure.size >= LARGE and figure.ratio is not None]
    slow = [figure for figure in large if figure.is_slow]
    bounds = [figure.ratio / figure.read_fraction for figure in large if figure.ratio is not None]
    if bounds:
        lines.append(f"16 MB and above, a kernel as fast as reading would be {geometric_mean(bounds):.2f} times faster")
    lines.append(f"16 MB and above, slower than allowed: {len(slow)} of {len(large)}")
    again = [figure for figure in large if figure.again]
    if again:
        lines.append(f"  and {len(again) - len(slow)} in their first rounds only")
    lines += [
        f"  {' '.join(figure.name)}: {1 / (figure.ratio or 1):.2f} times as long as {figure.best_peer}"
        for figure in slow
    ]
    for function in sorted(EXTREMES & {figure.function for figure in large}):
        fractions = [figure.read_fraction for figure in large if figure.function == function]
        least = min(fractions)
        lines.append(f"{function}: {geometric_mean(fractions):.2f} of the read bandwidth, minimum {least:.2f}")
    return lines


def picture(figures: Sequence[Figure], machine: Mapping[str, object], path: Path) -> None:
    """Draws the speedup of each large cell over the best peer: one row per function, one dot per cell."""
    mpl.use("svg")
    from matplotlib import pyplot

    large = [figure for figure in figures if figure.size >= LARGE and figure.ratio is not None]
    rows = list(dict.fromkeys(figure.name[0] for figure in large))
    types = sorted({figure.name[2] for figure in large})
    chart, axes = pyplot.subplots(figsize=(9, 0.42 * len(rows) + 1.6))
    for i, data_type in enumerate(types):
        chosen = [figure for figure in large if figure.name[2] == data_type]
        shift = (i - (len(types) - 1) / 2) * 0.11
        heights = [rows.index(figure.name[0]) + shift for figure in chosen]
        axes.scatter([figure.ratio or 1 for figure in chosen], heights, s=14, label=data_type, alpha=0.8)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xticks([0.5, 1, 2, 4, 10, 40, 100], ["½", "1", "2", "4", "10", "40", "100"])
    axes.set_yticks(range(len(rows)), rows)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("times faster than the fastest of NumPy, ONNX Runtime and PyTorch (inputs of 16 MB and more)")
    axes.set_title(f"opwire's CPU device, {machine['threads']} threads on {machine['processor']}", fontsize=10)
    axes.legend(fontsize=8, loc="lower right")
    chart.tight_layout()
    chart.savefig(path)
    pyplot.close(chart)
