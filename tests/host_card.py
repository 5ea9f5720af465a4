"""A card in name: its memory is the host's, its streams do at once what they are told, and its kernels certify nothing.

So the host computes all results of the formulas that a card may leave open, and what the device does around its
kernels can be tested without one.
"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from opwire.tensor import Array


class Failure(Exception):
    """What CUDA raises."""


class Card:
    compute_capability = "90"
    attributes: ClassVar[dict[str, int]] = {"MaxSharedMemoryPerBlockOptin": 1 << 16}

    def __init__(self, index: int = 0) -> None:
        self.index = index

    def __enter__(self) -> Card:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing ends."""


class Event:
    done = True

    def __init__(self, **options: bool) -> None:
        """Always there."""

    def record(self, stream: Stream) -> None:
        """Has come at once."""


class Stream:
    ptr = 0

    def __init__(self, **options: bool) -> None:
        """Does at once what it is told."""

    def record(self) -> Event:
        return Event()

    def synchronize(self) -> None:
        """Has nothing to wait for."""


class Runtime:
    """Memory of the host.

    Attributes:
        copied: bytes that were copied between host and card, by direction.
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
        """Has nothing to wait for."""


class Module:
    """The kernels of a program.

    Attributes:
        open_places: those of the results that they leave open; None for all.
        launches: of all of them.
    """

    open_places: list[int] | None = None
    launches = 0

    def load(self, binary: bytes) -> None:
        """There is nothing to load."""

    def get_function(self, entry: str) -> Any:
        return self._run

    def _run(self, grid: object, block: object, parameters: tuple[Array], shared: int, stream: Stream) -> None:
        Module.launches += 1
        (parameter,) = parameters
        structure = parameter.base  # whose bytes these are
        if structure is None or "uncertain" not in (structure.dtype.names or ()) or not structure["uncertain"][0]:
            return
        address = int(structure["uncertain"][0])
        places = Module.open_places
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
        """Any code will do."""

    def getCUBIN(self, program: str) -> bytes:
        return b""

    def destroyProgram(self, program: str) -> None:
        """Nothing is left."""


def host_cupy(runtime: Runtime) -> Any:
    """What stands for CuPy."""
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
