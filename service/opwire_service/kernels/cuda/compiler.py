"""Compiling programs for a card, each once; CuPy keeps them on disk for the next process."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from typing import Any

from ...devices.device import Stop, Stopped
from .job import Program

OPTIONS = ("--std=c++17", "--fmad=false")
"""Contracted multiplications would spoil error-free transformations; where the kernels want one they say so."""

_PATIENCE = 0.01
"""Seconds between two questions whether to stop."""


class Compiler:
    """The compiled programs of a card.

    Args:
        cupy: the module.
        index: of the card.
    """

    def __init__(self, cupy: Any, index: int) -> None:
        self._cupy = cupy
        self._index = index
        self._modules: dict[Program, Future[Any]] = {}
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(4, "opwire-compile")

    def __len__(self) -> int:
        """Programs compiled so far."""
        with self._lock:
            return sum(module.done() for module in self._modules.values())

    def get(self, program: Program, stop: Stop) -> Any:
        """The module of a program.

        Raises:
            Stopped: ``stop()`` returned True while it was compiled; that goes on for the next one who asks.
        """
        with self._lock:
            module = self._modules.get(program)
            if module is None:
                module = self._modules[program] = self._threads.submit(self._compile, program)
        while not module.done():
            try:
                module.result(_PATIENCE)
            except NotYet:
                if stop():
                    raise Stopped from None
        return module.result()

    def _compile(self, program: Program) -> Any:
        with self._cupy.cuda.Device(self._index):
            module = self._cupy.RawModule(code=program.code, options=OPTIONS)
            module.compile()
            return module

    def close(self) -> None:
        """Waits for what is being compiled."""
        self._threads.shutdown(cancel_futures=True)
