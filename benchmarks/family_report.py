"""The results of the family benchmark: a table, the cells that are too slow, and a plot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from rich.table import Table

from .report import geometric_mean

Figure = Mapping[str, Any]
"""A measured cell: family, name, size, layout, ratio to the best peer, and the seconds of each participant."""

COPY = "copy"
"""The additional participant of every movement cell."""

EXACT = ("average", "sum")
"""Name prefixes of cells with correctly rounded sums, which cost more than plain ones."""

COLORS = {"16KB": "#7a7a7a", "16MB": "#1b6ca8", "64MB": "#e07b39"}


def summary(figures: Sequence[Figure]) -> Table:
    """Returns a table with one row per family."""
    table = Table("family", "cells", "speedup", "lowest", "highest")
    for family in dict.fromkeys(figure["family"] for figure in figures):
        cells = sorted((f for f in figures if f["family"] == family), key=lambda f: float(f["ratio"]))
        ends = (f"{f['ratio']:.2f} ({f['name']}, {f['layout']} {f['size']})" for f in (cells[0], cells[-1]))
        table.add_row(family, str(len(cells)), f"{geometric_mean(f['ratio'] for f in cells):.2f}", *ends)
    return table


def slower(figures: Sequence[Figure]) -> Iterator[str]:
    """Yields the cells that are slower than allowed, relative to the best peer or to a copy."""
    for figure in figures:
        name = f"{figure['name']}, {figure['layout']} {figure['size']}"
        allowed = 2.0 if figure["name"].startswith(EXACT) else 1.6
        if figure["ratio"] * allowed < 1:
            yield f"{name}: {1 / figure['ratio']:.2f} times as long as the best peer, allowed: {allowed}"
        share, least = share_of_copy(figure), _least_share(figure)
        if share is not None and share < least:
            yield f"{name}: {share:.2f} of a copy's speed, required: {least}"


def share_of_copy(figure: Figure) -> float | None:
    """Returns the speed of a movement as a fraction of that of a copy of the same size."""
    seconds = figure["seconds"]
    return seconds[COPY] / seconds["opwire"] if COPY in seconds else None


def _least_share(figure: Figure) -> float:
    """Returns the required share of a copy's speed: lower if strided, 0 for single elements and small tensors."""
    if figure["size"] == "16KB" or figure["name"] == "depth to space":
        return 0.0
    return 0.6 if (figure["layout"] == "packed") != (figure["name"] == "transposed copy") else 0.4


def picture(figures: Sequence[Figure], machine: Mapping[str, Any], path: Path) -> None:
    """Draws the speedup over the best peer: one row per family, one dot per cell, one bar per mean."""
    mpl.use("svg")
    from matplotlib import pyplot

    rows = list(dict.fromkeys(figure["family"] for figure in figures))
    sizes = [size for size in COLORS if any(figure["size"] == size for figure in figures)]
    chart, axes = pyplot.subplots(figsize=(9, 0.55 * len(rows) + 1.6))
    for i, size in enumerate(sizes):
        chosen = [figure for figure in figures if figure["size"] == size]
        shift, color = (i - (len(sizes) - 1) / 2) * 0.26, COLORS[size]
        ratios = [[f["ratio"] for f in chosen if f["family"] == family] for family in rows]
        means = [geometric_mean(found) for found in ratios]
        places = [row + shift for row in range(len(rows))]
        axes.barh(places, [mean - 1 for mean in means], 0.24, left=1, color=color, alpha=0.45, label=size)
        heights = [rows.index(figure["family"]) + shift for figure in chosen]
        axes.scatter([figure["ratio"] for figure in chosen], heights, s=7, color=color)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xticks([0.5, 1, 2, 4, 10, 40], ["½", "1", "2", "4", "10", "40"])
    axes.minorticks_off()
    axes.set_yticks(range(len(rows)), rows)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel(
        "speedup over the fastest of NumPy, ONNX Runtime, PyTorch and JAX (dots: cells, bars: geometric means)"
    )
    threads = "one thread" if machine["threads"] == 1 else f"{machine['threads']} threads"
    axes.set_title(f"opwire's CPU device, {threads} on {machine['processor']}", fontsize=10)
    axes.legend(fontsize=8, loc="lower right")
    chart.tight_layout()
    chart.savefig(path)
    pyplot.close(chart)
