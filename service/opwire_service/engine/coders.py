"""Threads that parse, decode and encode what would block the event loop for too long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from .memory import SMALL

T = TypeVar("T")

INLINE_BYTES = 256 * 1024
"""Size above which data is parsed, decoded or encoded on another thread, in bytes."""


class Coders:
    """The threads that parse, decode and encode.

    Args:
        count: number of threads for small and for large tensors, each.
    """

    def __init__(self, count: int) -> None:
        # Parsing JSON holds the GIL, so more than one parser thread would only starve the others.
        self._parser = ThreadPoolExecutor(1, "opwire-parser")
        self._small = ThreadPoolExecutor(count, "opwire-coder")
        self._large = ThreadPoolExecutor(count, "opwire-large-coder")

    async def parse(self, parse: Callable[..., T], *arguments: Any) -> T:
        """Runs ``parse``, or other long Python code, on the parser's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._parser, parse, *arguments)

    async def code(self, size: int, code: Callable[..., T], *arguments: Any) -> T:
        """Decodes or encodes ``size`` bytes. Large data has threads of its own."""
        threads = self._small if size <= SMALL else self._large
        return await asyncio.get_running_loop().run_in_executor(threads, code, *arguments)

    def close(self) -> None:
        """Waits for running work and ends the threads."""
        for threads in (self._parser, self._small, self._large):
            threads.shutdown()
