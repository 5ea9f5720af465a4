"""Plots of results: the ratios of kernels and families, and the shares of correctly rounded products."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot

from .report import Row, mean

pyplot.switch_backend("svg")
mpl.rcParams["svg.hashsalt"] = "opwire"  # makes the SVG reproducible

_SQUARE = re.compile(r"GEMM FLOAT32 ([0-9]+)(x\1x\1)?")
"""The name of a square product, on CPUs and on GPUs."""

_NAMES = {"numpy": "NumPy", "onnxruntime": "ONNX Runtime", "torch": "PyTorch"}
_COLORS = {"16KB": "#7a7a7a", "16MB": "#1b6ca8", "64MB": "#e07b39"}
_TICKS = ([0.5, 1, 2, 4, 10, 40, 100], ["½", "1", "2", "4", "10", "40", "100"])


def _read(path: Path) -> tuple[dict[str, Any], list[Row]]:
    found = json.loads(path.read_text(encoding="utf-8"))
    return found["conditions"], [row for row in found["rows"] if row["ratio"] is not None]


def _saved(chart: Any, path: Path) -> None:
    chart.tight_layout()
    chart.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(chart)


def _ratios(axes: Any, names: Sequence[str], conditions: Mapping[str, Any], peers: str) -> None:
    """Draws what plots of ratios share, with a row for each name."""
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xticks(*_TICKS)
    axes.minorticks_off()
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel(f"speedup over the fastest of {peers}")
    threads = "one thread" if conditions["threads"] == 1 else f"{conditions['threads']} threads"
    axes.set_title(f"opwire's CPU device, {threads} on {conditions['processor']}", fontsize=10)
    axes.legend(fontsize=8, loc="lower right")


def kernels(results: Path, path: Path) -> None:
    """Draws the ratio of each large cell: one row per function, one dot per cell."""
    conditions, rows = _read(results)
    large = [row for row in rows if row["size"].endswith("MB")]
    names = list(dict.fromkeys(row["name"] for row in large))
    types = sorted({row["type"] for row in large})
    chart, axes = pyplot.subplots(figsize=(9, 0.42 * len(names) + 1.6))
    for i, data_type in enumerate(types):
        chosen = [row for row in large if row["type"] == data_type]
        heights = [names.index(row["name"]) + (i - (len(types) - 1) / 2) * 0.11 for row in chosen]
        axes.scatter([row["ratio"] for row in chosen], heights, s=14, label=data_type, alpha=0.8)
    _ratios(axes, names, conditions, "NumPy, ONNX Runtime and PyTorch (inputs of 16 MB and more)")
    _saved(chart, path)


def families(results: Path, path: Path) -> None:
    """Draws the ratios: one row per family, one dot per cell, one bar per mean."""
    conditions, rows = _read(results)
    names = list(dict.fromkeys(row["group"] for row in rows))
    chart, axes = pyplot.subplots(figsize=(9, 0.55 * len(names) + 1.6))
    sizes = [size for size in _COLORS if any(row["size"] == size for row in rows)]
    for i, size in enumerate(sizes):
        chosen = [row for row in rows if row["size"] == size]
        shift, color = (i - (len(sizes) - 1) / 2) * 0.26, _COLORS[size]
        means = [mean(row["ratio"] for row in chosen if row["group"] == name) - 1 for name in names]
        axes.barh([i + shift for i in range(len(names))], means, 0.24, left=1, color=color, alpha=0.45, label=size)
        heights = [names.index(row["group"]) + shift for row in chosen]
        axes.scatter([row["ratio"] for row in chosen], heights, s=7, color=color)
    _ratios(axes, names, conditions, "NumPy, ONNX Runtime, PyTorch and JAX (dots: cells, bars: geometric means)")
    _saved(chart, path)


def products(results: Path, path: Path) -> None:
    """Draws the share of correctly rounded results of square products, by library, on CPUs and GPUs."""
    lines: dict[str, dict[int, float]] = {}
    for file in (results, results.with_stem(f"{results.stem}-cuda")):
        conditions, rows = _read(file) if file.exists() else ({}, [])
        for row in rows:
            if square := _SQUARE.fullmatch(row["name"]):
                for peer, share in row["equal"].items():
                    where = f", {conditions['card']}" if "card" in conditions else ""
                    lines.setdefault(_NAMES[peer] + where, {})[int(square[1])] = share
    sizes = sorted(set().union(*lines.values()))
    chart, axes = pyplot.subplots(figsize=(8, 3.6))
    for name, shares in {**lines, "opwire, on both": dict.fromkeys(sizes, 1.0)}.items():
        color = "black" if name.startswith("opwire") else None
        axes.plot(list(shares), [100 * share for share in shares.values()], marker="o", label=name, color=color)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.set_ylim(0, 105)
    axes.set_xlabel("rows, columns and depth of FLOAT32 matrices")
    axes.set_ylabel("% correctly rounded")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=8)
    _saved(chart, path)


def accuracy(results: Path, path: Path) -> None:
    """Draws the share of correctly rounded FLOAT32 results: one row per function, one marker per library."""
    found = json.loads(results.read_text(encoding="utf-8"))["rows"]
    rows = [row for row in found if row["type"] == "FLOAT32"][::-1]
    figure, axes = pyplot.subplots(figsize=(8, 0.28 * len(rows) + 1.2))
    for library, marker in zip(("numpy", "onnxruntime", "torch", "jax", "opwire"), "sD^vo", strict=True):
        places = [
            (row["libraries"][library]["correct"], i) for i, row in enumerate(rows) if library in row["libraries"]
        ]
        if places:
            shares, heights = zip(*places, strict=True)
            axes.scatter([100 * share for share in shares], heights, marker=marker, s=26, label=library, alpha=0.8)
    axes.set_yticks(range(len(rows)), [row["name"].split("_")[-1] for row in rows], fontsize=8)
    axes.set_xlabel("correctly rounded FLOAT32 results, %")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(fontsize=8, loc="lower left")
    _saved(figure, path)


def plotted(rows: Sequence[Row], case: str) -> list[tuple[str, float]]:
    """Returns each form of a server with its rate relative to the floor, the median over all numbers of connections."""
    rates: dict[str, list[float]] = {}
    for row in rows:
        if row["case"] == case:
            rates.setdefault(f"{row['title']}, {row['form']}", []).append(row["of_floor"])
    return sorted(((name, median(found)) for name, found in rates.items()), key=lambda pair: pair[1])


def serving(results: Path, path: Path) -> None:
    """Draws the rates of servers: one panel per tensor, one bar per form."""
    found = json.loads(results.read_text(encoding="utf-8"))
    cases = {row["case"]: plotted(found["rows"], row["case"]) for row in found["rows"]}
    heights = [len(bars) for bars in cases.values()]
    size = (9, 0.9 + 0.28 * sum(heights) + 0.9 * len(cases))
    figure, panels = pyplot.subplots(len(cases), 1, squeeze=False, figsize=size, height_ratios=heights)
    for (case, bars), axes in zip(cases.items(), panels[:, 0], strict=True):
        names, rates = zip(*bars, strict=True)
        drawn = axes.barh(names, rates, color=["tab:orange" if "opwire" in name else "tab:blue" for name in names])
        axes.bar_label(drawn, fmt="%.3f", padding=3)
        axes.set_title(f"float32 {found['conditions']['cases'][case]}")
        axes.set_xlabel("requests per second relative to the floor (median over numbers of connections)")
        axes.margins(x=0.12)
    _saved(figure, path)


PICTURES: Mapping[str, Callable[[Path, Path], None]] = {
    "kernels": kernels,
    "families": families,
    "products": products,
    "accuracy": accuracy,
    "serving": serving,
}
"""What plots the results of each benchmark."""
