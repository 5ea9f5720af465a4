"""Signals that stop a process."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any


def stop_on_signals(stop: Callable[[int, FrameType | None], Any]) -> None:
    """Installs ``stop`` as the handler of SIGINT and SIGTERM."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
