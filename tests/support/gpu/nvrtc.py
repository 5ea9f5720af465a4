"""NVRTC without a card: compiles programs for any architecture. It comes with the package ``nvidia-cuda-nvrtc``."""

from __future__ import annotations

import ctypes
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from opwire_service.kernels.cuda.compiler import OPTIONS, architecture_of

ARCHITECTURES = tuple(map(architecture_of, ("75", "86", "89", "90", "100", "120")))


@cache
def library() -> ctypes.CDLL | None:
    """Returns the library, or None if it is not installed."""
    spec = find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder).glob("cu*/lib/libnvrtc.so.*"), reverse=True):
            return ctypes.CDLL(str(path))
    return None


def version() -> tuple[int, int]:
    """Returns the version of the library, as the cache of the device has it."""
    nvrtc, major, minor = library(), ctypes.c_int(), ctypes.c_int()
    assert nvrtc is not None
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def machine_code(code: str, architecture: str, *more: str) -> bytes:
    """Compiles the code of a program as the device does, except for further options.

    Raises:
        RuntimeError: it does not compile; with the compiler's messages.
    """
    nvrtc, handle = library(), ctypes.c_void_p()
    assert nvrtc is not None
    nvrtc.nvrtcCreateProgram(ctypes.byref(handle), code.encode(), b"opwire.cu", 0, None, None)
    options = [option.encode() for option in (*OPTIONS, *more, f"--gpu-architecture={architecture}")]
    try:
        if nvrtc.nvrtcCompileProgram(handle, len(options), (ctypes.c_char_p * len(options))(*options)):
            raise RuntimeError(f"{architecture}: {_taken(nvrtc, handle, 'ProgramLog').decode()}")
        return _taken(nvrtc, handle, "CUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(handle))


def _taken(nvrtc: ctypes.CDLL, handle: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(handle, ctypes.byref(size))
    taken = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(handle, taken)
    return taken.raw
