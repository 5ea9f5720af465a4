"""Plots the results of ``benchmarks.cuda``: each operator's share of the copy bandwidth, next to PyTorch's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

COLORS = {"opwire_share": "#1b6ca8", "torch_share": "#e07b39"}
NAMES = {"opwire_share": "opwire", "torch_share": "PyTorch"}


def draw(report: Mapping[str, Any], path: Path) -> None:
    """Draws one panel per data type and saves the figure."""
    types = list(dict.fromkeys(row["data_type"] for row in report["rows"]))
    figure, panels = plt.subplots(1, len(types), figsize=(7 * len(types), 14), layout="constrained")
    for panel, data_type in zip(panels, types, strict=True):
        rows = [row for row in report["rows"] if row["data_type"] == data_type][::-1]
        for offset, member in ((0.2, "opwire_share"), (-0.2, "torch_share")):
            places = [i + offset for i in range(len(rows))]
            panel.barh(places, [row[member] for row in rows], 0.4, color=COLORS[member], label=NAMES[member])
        panel.set_yticks(range(len(rows)), [f"{row['operator']} {row['what']}" for row in rows], fontsize=8)
        panel.axvline(1, color="black", linewidth=0.8)
        panel.set_ylim(-0.6, len(rows) - 0.4)
        panel.set_xlabel("share of a copy's bandwidth")
        panel.set_title(f"{data_type}, 1 GiB")
        panel.legend(loc="lower right")
    copy = report["copy_bytes_per_second"] / 1e12
    figure.suptitle(f"{report['card']}, a copy moves {copy:.2f} TB/s; PyTorch {report['torch']}")
    figure.savefig(path, dpi=100)
