"""Console output and result files shared by the GPU benchmarks of families and of elementwise operators."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import cupy
import torch


def times(size: int, bandwidth: float, ours: float, theirs: float) -> dict[str, float]:
    """Returns the fields of a row derived from two times in microseconds, the bytes moved, and a copy's bandwidth."""
    copied = size / bandwidth * 1e6
    return {
        "bytes": size,
        "opwire_us": round(ours, 1),
        "torch_us": round(theirs, 1),
        "opwire_share": round(copied / ours, 3),
        "torch_share": round(copied / theirs, 3),
        "speedup": round(theirs / ours, 2),
    }


def announce(bandwidth: float) -> None:
    print(f"{torch.cuda.get_device_name()}: a copy moves {bandwidth / 1e12:.2f} TB/s; * is bound by memory")


def show(label: str, row: Any, remark: str) -> None:
    """Prints one line for a row."""
    print(
        f"{label}{'*' if row.bound_by_memory else ' '} {row.opwire_us:9.1f} us {row.opwire_share:5.2f} of copy  "
        f"torch {row.torch_us:9.1f} us {row.torch_share:5.2f}  x{row.speedup:5.2f}{remark}",
        flush=True,
    )


def mean(rows: Iterable[Any]) -> float:
    """Returns the geometric mean speedup over PyTorch."""
    return round(statistics.geometric_mean(row.torch_us / row.opwire_us for row in rows), 3)


def write(results: Path, bandwidth: float, speedup: float | dict[str, float], rows: Sequence[Any]) -> None:
    report = {
        "card": torch.cuda.get_device_name(),
        "copy_bytes_per_second": round(bandwidth),
        "torch": torch.__version__,
        "cupy": cupy.__version__,
        "geometric_mean_speedup": speedup,
        "rows": [asdict(row) for row in rows],
    }
    results.write_text(json.dumps(report, indent=1) + "\n")
