"""Compiles GPU programs, each once, and caches their machine code on disk for later processes.

CuPy's own ``RawModule`` compiles with denormals flushed to zero, so NVRTC is called directly.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ...execution import Stop, Stopped
from ..code_files import read_own, write_own
from ..folder import cache_folder
from .job import KernelLaunch, Program

OPTIONS = ("--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--device-int128")
"""Contraction to FMA would break error-free transformations; kernels request FMA explicitly where they want it."""

_USUAL_SHARED = 48 << 10
"""Shared memory per block, in bytes, that needs no opt-in."""

_SHARED_ATTRIBUTE = 8
"""``CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES``."""

LOADED, ON_DISK = 1024, 4096
"""Maximum numbers of programs kept in memory and on disk; every graph may add some."""

_DROPPED = 64
"""Number of evicted programs kept alive, as their kernels may still be running."""

_PATIENCE = 0.01
"""Interval between polls of ``stop``, in seconds."""


def architecture_of(capability: str) -> str:
    """Returns the architecture to compile for, with the instructions that only its own cards have."""
    return f"sm_{capability}a" if capability == "90" else f"sm_{capability}"


def file_name(code: str, options: tuple[str, ...], version: tuple[int, int]) -> str:
    """Returns the name of the file of a program's machine code, given the version of NVRTC."""
    return f"{hashlib.sha256(repr((code, options, version)).encode()).hexdigest()}.cubin"


@dataclass(slots=True)
class _Kernel:
    """A loaded kernel, and how much shared memory its blocks may have."""

    function: Any
    shared_bytes: int = _USUAL_SHARED


class Compiler:
    """The compiled programs of a GPU.

    Args:
        cupy: the CuPy module.
        index: index of the GPU.
        loaded: maximum number of loaded programs; the least recently used one is evicted.
        on_disk: maximum number of programs whose machine code is cached on disk.
    """

    def __init__(self, cupy: Any, index: int, loaded: int = LOADED, on_disk: int = ON_DISK) -> None:
        self._most_loaded, self._most_on_disk = loaded, on_disk
        self._cuda = cupy.cuda
        self._index = index
        self._architecture = f"--gpu-architecture={architecture_of(cupy.cuda.Device(index).compute_capability)}"
        self._most_shared = int(cupy.cuda.Device(index).attributes["MaxSharedMemoryPerBlockOptin"])
        self._folder = cache_folder()
        self._modules: OrderedDict[Program, Future[Any]] = OrderedDict()
        self._dropped: deque[Future[Any]] = deque(maxlen=_DROPPED)
        self._kernels: dict[tuple[Program, str], _Kernel] = {}
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(4, "opwire-compile")

    def __len__(self) -> int:
        """Returns the number of loaded programs."""
        with self._lock:
            return sum(module.done() for module in self._modules.values())

    def kernel(self, launch: KernelLaunch, stop: Stop) -> Callable[[Any], None]:
        """Returns a function that enqueues a launch on a stream; raises like ``get``."""
        program, entry, shared = launch.program, launch.entry, launch.shared_bytes
        loaded = self._kernels.get((program, entry))
        if shared > self._most_shared:
            shared = 0
        if loaded is None:
            loaded = _Kernel(self.get(program, stop).get_function(entry))
            with self._lock:
                if program in self._modules:
                    loaded = self._kernels.setdefault((program, entry), loaded)
        found = loaded.function
        if shared > loaded.shared_bytes:
            with self._lock:
                most = max(shared, loaded.shared_bytes)
                self._cuda.driver.funcSetAttribute(found.ptr, _SHARED_ATTRIBUTE, most)
                loaded.shared_bytes = most
        # As raw bytes: for a structured array CuPy describes every field anew, which takes longer than the launch.
        parameter = launch.parameter.view(f"V{launch.parameter.itemsize}")
        return lambda stream: found(launch.grid, launch.block, (parameter,), shared, stream)

    def ask(self, programs: Iterable[Program]) -> None:
        """Starts compiling the programs that are not ready yet, in the background."""
        for program in programs:
            self._module(program)

    def get(self, program: Program, stop: Stop) -> Any:
        """Returns the module of a program, compiling it if needed.

        Raises:
            Stopped: ``stop()`` returned True during compilation, which continues in the background.
        """
        module = self._module(program)
        while not module.done():
            try:
                module.result(_PATIENCE)
            except NotYet:
                if stop():
                    raise Stopped from None
        return module.result()

    def _module(self, program: Program) -> Future[Any]:
        with self._lock:
            module = self._modules.get(program)
            if module is None:
                module = self._modules[program] = self._threads.submit(self._load, program)
                if len(self._modules) > self._most_loaded:
                    self._drop_oldest()
            self._modules.move_to_end(program)
            return module

    def _drop_oldest(self) -> None:
        oldest, module = self._modules.popitem(last=False)
        self._dropped.append(module)
        for key in [key for key in self._kernels if key[0] == oldest]:
            del self._kernels[key]

    def _load(self, program: Program) -> Any:
        options = (*OPTIONS, self._architecture)
        code = program.code
        kept = self._folder / file_name(code, options, self._cuda.nvrtc.getVersion())
        try:
            binary = read_own(kept)
        except OSError:
            binary = self._compile(code, options)
            with suppress(OSError):  # without a writable cache, the next process compiles again
                if not self._folder.is_dir() or len(os.listdir(self._folder)) < self._most_on_disk:
                    write_own(kept, binary)
        with self._cuda.Device(self._index):
            module = self._cuda.function.Module()
            module.load(binary)
            return module

    def _compile(self, code: str, options: tuple[str, ...]) -> bytes:
        nvrtc = self._cuda.nvrtc
        program = nvrtc.createProgram(code, "opwire.cu", (), ())
        try:
            nvrtc.compileProgram(program, options)
            return bytes(nvrtc.getCUBIN(program))
        except nvrtc.NVRTCError as error:
            raise RuntimeError(f"{error}: {nvrtc.getProgramLog(program)}") from error
        finally:
            nvrtc.destroyProgram(program)

    def close(self) -> None:
        """Waits for running compilations."""
        self._threads.shutdown(cancel_futures=True)
