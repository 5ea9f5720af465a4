"""What processes use, from /proc: CPU time and memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(processes: Iterable[int]) -> float:
    """Returns the CPU time that processes used, with that of their children that have ended."""
    ticks = 0
    for process in processes:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS


def memory(processes: Iterable[int], field: str) -> int:
    """Returns bytes summed over processes: ``VmRSS`` for current, ``VmHWM`` for peak since ``reset_peak``.

    Shared memory counts once per process.
    """
    kibibytes = 0
    for process in processes:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{process}/status").read_text().splitlines():
                if line.startswith(f"{field}:"):
                    kibibytes += int(line.split()[1])
    return kibibytes * 1024


def reset_peak(processes: Iterable[int]) -> None:
    """Resets ``VmHWM``."""
    for process in processes:
        with contextlib.suppress(OSError):
            Path(f"/proc/{process}/clear_refs").write_text("5")
