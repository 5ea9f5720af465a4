"""Lazy import of CuPy."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..base import DeviceUnavailable


def cupy_for(index: int = 0) -> Any:
    """Returns CuPy, after checking that it can use the GPU.

    Raises:
        DeviceUnavailable: CuPy or the driver is missing, or there is no such GPU.
    """
    try:
        cupy = import_module("cupy")
    except ImportError as error:
        raise DeviceUnavailable(f"the cuda device needs CuPy, which cannot be imported: {_line(error)}") from None
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceUnavailable(f"the cuda device needs an NVIDIA GPU and its driver: {_line(error)}") from None
    if index >= count:
        raise DeviceUnavailable(f"there is no cuda:{index}: this machine has {count} NVIDIA GPU{'s' * (count != 1)}")
    return cupy


def _line(error: Exception) -> str:
    """Returns the first line of an error, as CuPy's messages may be pages long."""
    return next(filter(None, map(str.strip, str(error).splitlines())), type(error).__name__)
