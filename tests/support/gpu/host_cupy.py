"""A fake CuPy: card memory is host memory, streams run synchronously, and kernels leave every result undecided.

The host therefore computes every result that a card may leave to it, and the device code around the kernels can be
tested without a card.
"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from opwire.tensor import Array


class Failure(Exception):
    """Stands for CUDA's exceptions."""


class Card:
    compute_capability = "90"
    attributes: ClassVar[dict[str, int]] = {
        "MaxSharedMemoryPerBlockOptin": 1 << 16,
        "SingleToDoublePrecisionPerfRatio": 2,
    }

    def __init__(self, index: int = 0) -> None:
        self.index = index

    def __enter__(self) -> Card:
        return self

    def __exit__(self, *error: object) -> None:
        """Does nothing."""


class Event:
    done = True

    def __init__(self, **options: bool) -> None:
        """Ignores the options."""

    def record(self, stream: Stream) -> None:
        """Does nothing: events are always complete."""


class Stream:
    ptr = 0

    def __init__(self, **options: bool) -> None:
        """Ignores the options; everything runs synchronously."""

    def record(self) -> Event:
        return Event()

    def synchronize(self) -> None:
        """Does nothing."""


class Runtime:
    """A CUDA runtime that uses host memory.

    Attributes:
        copied: Bytes copied between host and card, by direction.
    """

    CUDARuntimeError = Failure
    errorMemoryAllocation = 2
    memcpyHostToDevice, memcpyDeviceToHost = 1, 2

    def __init__(self) -> None:
        self.blocks: dict[int, Array] = {}
        self.copied = {1: 0, 2: 0}

    def getDeviceCount(self) -> int:
        return 1

    def memGetInfo(self) -> tuple[int, int]:
        return 2**26, 2**26

    def getDeviceProperties(self, index: int) -> dict[str, object]:
        return {"multiProcessorCount": 4, "name": b"a host", "totalGlobalMem": 2**26}

    def runtimeGetVersion(self) -> int:
        return 13000

    def malloc(self, size: int) -> int:
        block = np.full(size, 0xA5, np.uint8)
        self.blocks[block.ctypes.data] = block
        return int(block.ctypes.data)

    def free(self, address: int) -> None:
        del self.blocks[address]

    def memcpyAsync(self, target: int, source: int, size: int, kind: int, stream: int) -> None:
        ctypes.memmove(target, source, size)
        self.copied[kind] += size

    def memsetAsync(self, address: int, value: int, size: int, stream: int) -> None:
        ctypes.memset(address, value, size)

    def deviceSynchronize(self) -> None:
        """Does nothing."""


class Module:
    """A compiled program.

    Attributes:
        undecided: Indices of the results that its kernels leave undecided; None for all.
        launches: Number of launches, of all modules.
    """

    undecided: list[int] | None = None
    launches = 0

    def load(self, binary: bytes) -> None:
        """Does nothing."""

    def get_function(self, entry: str) -> Any:
        return self._run

    def _run(self, grid: object, block: object, parameters: tuple[Array], shared: int, stream: Stream) -> None:
        Module.launches += 1
        (parameter,) = parameters
        structure = parameter.base  # the struct that the bytes belong to
        if structure is None or "undecided" not in (structure.dtype.names or ()) or not structure["undecided"][0]:
            return
        address = int(structure["undecided"][0])
        places = Module.undecided
        listed = np.array(
            [len(places), 0, *(each for place in places for each in (place, 0))]
            if places is not None
            else [2**32 - 1, 0]
        )
        ctypes.memmove(address, listed.astype(np.uint32).tobytes(), 4 * len(listed))


class Nvrtc:
    NVRTCError = Failure

    def getVersion(self) -> int:
        return 1

    def createProgram(self, code: str, *_: object) -> str:
        return code

    def compileProgram(self, program: str, options: object) -> None:
        """Accepts any code."""

    def getCUBIN(self, program: str) -> bytes:
        return b""

    def destroyProgram(self, program: str) -> None:
        """Does nothing."""


def host_cupy(runtime: Runtime) -> Any:
    """Returns a stand-in for the ``cupy`` module."""
    cuda = SimpleNamespace(
        runtime=runtime,
        driver=SimpleNamespace(CUDADriverError=Failure),
        nvrtc=Nvrtc(),
        function=SimpleNamespace(Module=Module),
        Device=Card,
        Stream=Stream,
        Event=Event,
        alloc_pinned_memory=bytearray,
    )
    return SimpleNamespace(cuda=cuda, __version__="0")
