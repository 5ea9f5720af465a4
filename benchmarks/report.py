"""The one form of all results: what was measured, on which machine, and a row for each case.

A row of operators names a cell (``group``, ``name``, ``type``, ``layout``, ``size``) and has the ``seconds`` of each
participant, the ``ratio`` of the fastest peer's to opwire's, and in ``equal`` the share of each peer's results that are
opwire's bit for bit.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from math import exp, isfinite, log
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

Row = dict[str, Any]

FOLDER = Path(__file__).with_name("results")
COPY = "copy"
"""The participant that copies as many bytes as an operator moves."""

_KEY = ("group", "name", "type", "layout", "size")
_DIGITS, _WIDTH = 10, 160
_VARYING = ("load", "copy_bytes_per_second")


def versions(*names: str) -> dict[str, str]:
    """Returns the versions of those packages that are installed."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def conditions(**known: Any) -> dict[str, Any]:
    """Returns what was known of this machine, and how it was measured."""
    load = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
    return {**known, "cores": os.cpu_count(), "load": load, "python": platform.python_version()}


def write(path: Path, benchmark: str, conditions: Mapping[str, Any], rows: Sequence[Row]) -> None:
    """Writes results, a row a line; NaN and infinities become null."""
    head = json.dumps({"benchmark": benchmark, "conditions": conditions}, ensure_ascii=False)[:-1]
    lines = ",\n".join(json.dumps(_short(row), ensure_ascii=False, allow_nan=False) for row in rows)
    path.write_text(f'{head}, "rows": [\n{lines}\n]}}\n', encoding="utf-8")


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if isfinite(value) else None
    if isinstance(value, dict):
        return {key: _short(each) for key, each in value.items()}
    return [_short(each) for each in value] if isinstance(value, list | tuple) else value


def merge(path: Path, benchmark: str, found: Mapping[str, Any], rows: Sequence[Row]) -> None:
    """Writes results to a file, in which they replace those of the same cells.

    Raises:
        SystemExit: the file was measured under other conditions.
    """
    known: dict[str, Any] = {"conditions": found, "rows": []}
    if path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))
    unlike = [name for name in found if name not in _VARYING and found[name] != known["conditions"].get(name)]
    if unlike:
        raise SystemExit(f"{path} was measured with another {' and '.join(unlike)}; use another file, or delete it")
    merged = {tuple(row[name] for name in _KEY): row for row in (*known["rows"], *rows)}
    load = max(found["load"] or 0, known["conditions"]["load"] or 0)
    write(path, benchmark, {**found, "load": load}, list(merged.values()))


def mean(values: Iterable[float]) -> float:
    """Returns the geometric mean."""
    logarithms = [log(value) for value in values]
    return exp(sum(logarithms) / len(logarithms)) if logarithms else float("nan")


def title(row: Row) -> str:
    return " ".join(filter(None, (row[name] for name in _KEY[1:])))


def summary(rows: Sequence[Row]) -> None:
    """Prints the ratios by group."""
    table = Table("group", "cells", "speedup", "lowest", "highest")
    for group in dict.fromkeys(row["group"] for row in rows):
        found = sorted((row for row in rows if row["group"] == group and row["ratio"]), key=lambda row: row["ratio"])
        if found:
            ends = (f"{row['ratio']:.2f} ({title(row)})" for row in (found[0], found[-1]))
            table.add_row(group, str(len(found)), f"{mean(row['ratio'] for row in found):.2f}", *ends)
    show(table)


def show(table: Table) -> None:
    """Prints a table."""
    Console(width=_WIDTH, highlight=False).print(table)


def line(row: Row) -> str:
    """Formats a row."""
    each = "  ".join(f"{name} {seconds * 1e3:.3f}" for name, seconds in row["seconds"].items())
    ratio = f"x{row['ratio']:.2f}" if row["ratio"] else ""
    return f"{row['group']:18} {title(row):44} {each}  {ratio}"
