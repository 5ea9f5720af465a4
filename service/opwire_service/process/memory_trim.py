"""Memory that was freed goes back to the system. The C library keeps it, and a server would stay as large as its worst
minute.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable

LEAST = 64 << 20
"""Bytes that requests have taken since memory was last given back, before it is worth looking again."""

CALM = 16 << 20
"""Bytes that requests take at most between two looks when memory is given back: a busy server would take it again."""


def keep_what_is_there() -> None:
    """Hides what a process has made so far from the garbage collector, whose passes would cost each request a little.

    For a process that does nothing but serve, once it is ready. Until then it collects nothing; here that begins.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


def give_back() -> None:
    """Frees what only dead requests refer to, bodies among it, and gives back what the C library keeps of freed memory.

    The first takes some 30 ms, in which nothing else runs; the second is done by the GNU C library alone.
    """
    gc.collect()
    if _trim is not None:
        _trim(0)


def _find_trim() -> Callable[[int], int] | None:
    # Without the GIL: it takes some 10 ms for some 100 MB.
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None


_trim = _find_trim()


class Freed:
    """Tells when memory is to be given back, from looks at regular intervals."""

    def __init__(self) -> None:
        self._seen = 0
        self._given_back = 0

    def is_due(self, held: int, taken: int) -> bool:
        """Whether the server has been busy and is calm now.

        Args:
            held: bytes that requests hold.
            taken: all that requests ever held.
        """
        calm = not held and taken - self._seen <= CALM
        self._seen = taken
        if not calm or taken - self._given_back < LEAST:
            return False
        self._given_back = taken
        return True
