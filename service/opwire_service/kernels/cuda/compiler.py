"""Compiling programs for a card, each once; machine code is kept on disk for the next process.

CuPy's own ``RawModule`` compiles with denormals flushed to zero, so NVRTC is called directly.
"""

from __future__ import annotations

import hashlib
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...execution import Stop, Stopped
from ..folder import cache_folder
from .job import KernelLaunch, Program

OPTIONS = ("--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true")
"""Contracted multiplications would spoil error-free transformations; where the kernels want one they say so."""

_USUAL_SHARED = 48 << 10
"""Bytes of shared memory that a block may have without being allowed more."""

_SHARED_ATTRIBUTE = 8
"""``CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES``."""

_PATIENCE = 0.01
"""Seconds between two questions whether to stop."""


class Compiler:
    """The compiled programs of a card.

    Args:
        cupy: the module.
        index: of the card.
    """

    def __init__(self, cupy: Any, index: int) -> None:
        self._cuda = cupy.cuda
        self._index = index
        self._architecture = f"--gpu-architecture=sm_{cupy.cuda.Device(index).compute_capability}"
        self._most_shared = int(cupy.cuda.Device(index).attributes["MaxSharedMemoryPerBlockOptin"])
        self._folder = cache_folder()
        self._modules: dict[Program, Future[Any]] = {}
        self._kernels: dict[tuple[Program, str], Any] = {}
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(4, "opwire-compile")

    def __len__(self) -> int:
        """Programs compiled so far."""
        with self._lock:
            return sum(module.done() for module in self._modules.values())

    def kernel(self, launch: KernelLaunch, stop: Stop) -> Callable[[Any], None]:
        """What puts a launch on a stream; the errors are those of ``get``."""
        program, entry, shared = launch.program, launch.entry, launch.shared_bytes
        found = self._kernels.get((program, entry))
        if shared > self._most_shared:
            shared = 0
        if found is None:
            found = self._kernels[program, entry] = self.get(program, stop).get_function(entry)
            if shared > _USUAL_SHARED:
                self._cuda.driver.funcSetAttribute(found.ptr, _SHARED_ATTRIBUTE, shared)
        return lambda stream: found(launch.grid, launch.block, (launch.parameter,), shared, stream)

    def get(self, program: Program, stop: Stop) -> Any:
        """The module of a program.

        Raises:
            Stopped: ``stop()`` returned True while it was compiled; that goes on for the next one who asks.
        """
        with self._lock:
            module = self._modules.get(program)
            if module is None:
                module = self._modules[program] = self._threads.submit(self._load, program)
        while not module.done():
            try:
                module.result(_PATIENCE)
            except NotYet:
                if stop():
                    raise Stopped from None
        return module.result()

    def _load(self, program: Program) -> Any:
        options = (*OPTIONS, self._architecture)
        code = program.code
        key = repr((code, options, self._cuda.nvrtc.getVersion())).encode()
        kept = self._folder / f"{hashlib.sha256(key).hexdigest()}.cubin"
        try:
            binary = kept.read_bytes()
        except OSError:
            binary = self._compile(code, options)
            with suppress(OSError):  # without a place to keep it the next process compiles again
                _write(kept, binary)
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
        """Waits for what is being compiled."""
        self._threads.shutdown(cancel_futures=True)


def _write(path: Path, data: bytes) -> None:
    """Writes a file that others may read at any time, so that they see all of it or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(data)
    Path(file.name).replace(path)
