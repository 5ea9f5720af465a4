"""Signals that stop a process, or make it read its API keys again."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from ..settings import Settings


def stop_on_signals(stop: Callable[[int, FrameType | None], Any]) -> None:
    """Installs ``stop`` as the handler of SIGINT and SIGTERM."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def reload_on_signal(reload: Callable[[int, FrameType | None], Any], settings: Settings) -> None:
    """Installs ``reload`` as the handler of SIGHUP.

    A server without API keys still ends with its terminal, but not with a reload by its service manager.
    """
    has_terminal = sys.stdin is not None and sys.stdin.isatty()
    if sys.platform != "win32" and (settings.api_keys_file is not None or not has_terminal):
        signal.signal(signal.SIGHUP, reload)
