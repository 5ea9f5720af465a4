"""Returns freed memory to the system, which the C library otherwise keeps, so that a server shrinks after a peak."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable

MIN_TAKEN_BYTES = 64 << 20
"""Bytes that requests must have taken since the last trim for another one to be worthwhile."""

IDLE_BYTES = 16 << 20
"""Maximum bytes taken by requests between two samples for the server to count as idle; a busy one would need the memory
again."""


def freeze_heap() -> None:
    """Freezes all existing objects, so that garbage collections do not slow down requests, and enables collection.

    Called once a process is ready to serve; until then the garbage collector is disabled.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


def trim() -> None:
    """Collects garbage, such as the bodies of dead requests, and returns freed memory to the system.

    The collection holds the GIL for some 30 ms. Memory is only returned where ``malloc_trim`` exists, in the GNU C
    library.
    """
    gc.collect()
    if _trim is not None:
        _trim(0)


def _find_trim() -> Callable[[int], int] | None:
    # A ctypes.CDLL call releases the GIL, and trimming takes some 10 ms per 100 MB.
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None


_trim = _find_trim()


class TrimPolicy:
    """Decides, from periodic samples, when to return freed memory to the system."""

    def __init__(self) -> None:
        self._taken_at_sample = 0
        self._taken_at_trim = 0

    def is_due(self, held: int, taken: int) -> bool:
        """Whether the server has been busy and is idle now.

        Args:
            held: bytes currently held by requests.
            taken: total of all bytes ever taken by requests.
        """
        calm = not held and taken - self._taken_at_sample <= IDLE_BYTES
        self._taken_at_sample = taken
        if not calm or taken - self._taken_at_trim < MIN_TAKEN_BYTES:
            return False
        self._taken_at_trim = taken
        return True
