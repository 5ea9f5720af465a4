"""Asks DirectML's library of one level: run as ``python -m tests.directml.answering LEVEL`` by ``asking``.

Reads one JSON ``[type, desc]`` a line, and writes what ``IDMLDevice::CreateOperator`` returned, as a hexadecimal
HRESULT a line, or ``crashed``. A process can load one such library only. As a desc may crash or hang it, a copy of the
process that has loaded it answers, and is replaced when it dies.
"""

from __future__ import annotations

import ctypes as c
import json
import os
import signal
import sys
import uuid
from pathlib import Path
from typing import Any

from .layout import Desc, Layout
from .libraries import folder

_DEVICE = uuid.UUID("6dbd6437-96fd-423f-a98c-ae5e7c2a573f")  # IDMLDevice
_OPERATOR = uuid.UUID("26caae7a-3081-4633-9581-226fbe57695d")  # IDMLOperator
_LOWEST_LEVEL = 0x1000
_RELEASE, _CREATE_OPERATOR = 2, 8
"""Indices of methods: ``IUnknown::Release`` and ``IDMLDevice::CreateOperator``."""

MOST_SECONDS = 5
"""The library hangs if an answer takes longer."""


class DirectML:
    """A DirectML device that creates operators. It is never released: its process ends."""

    def __init__(self, libraries: Path) -> None:
        direct3d = c.CDLL(str(libraries / "libd3d12.so"), mode=c.RTLD_GLOBAL)
        c.CDLL(str(libraries / "libdxcore.so"), mode=c.RTLD_GLOBAL)
        make_device = direct3d.device_without_gpu
        make_device.restype = c.c_void_p
        create = c.CDLL(str(libraries / "libdirectml.so")).DMLCreateDevice1
        create.restype = c.c_int32
        self._device = c.c_void_p()
        result = create(c.c_void_p(make_device()), 0, _LOWEST_LEVEL, _iid(_DEVICE), c.byref(self._device))
        if result:
            raise OSError(f"DMLCreateDevice1 returned {result & 0xFFFFFFFF:08x}")
        parameters = (c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p)
        self._create = c.CFUNCTYPE(c.c_int32, *parameters)(_method(self._device, _CREATE_OPERATOR))

    def create(self, type_: str, desc: Desc) -> int:
        """Returns the HRESULT of creating an operator, as an unsigned number."""
        layout, operator = Layout(), c.c_void_p()
        result = self._create(self._device, layout.operator(type_, desc), _iid(_OPERATOR), c.addressof(operator))
        if operator.value is not None:
            c.CFUNCTYPE(c.c_uint32, c.c_void_p)(_method(operator, _RELEASE))(operator)
        return int(result) & 0xFFFFFFFF


def _iid(given: uuid.UUID) -> Any:
    return c.create_string_buffer(given.bytes_le, 16)


def _method(this: c.c_void_p, index: int) -> int:
    methods = c.cast(this, c.POINTER(c.POINTER(c.c_size_t)))[0]
    return int(methods[index])


def main() -> int:
    directml = DirectML(folder(sys.argv[1]))
    while child := os.fork():
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code >= 0:
            return code
        sys.stdout.write("crashed\n")
        sys.stdout.flush()
    _answer(directml)
    return 0


def _answer(directml: DirectML) -> None:
    for line in sys.stdin:
        signal.alarm(MOST_SECONDS)
        result = directml.create(*json.loads(line))
        signal.alarm(0)
        sys.stdout.write(f"{result:08x}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
