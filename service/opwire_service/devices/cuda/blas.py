"""Products of float64 matrices on a card, by cuBLAS."""

from __future__ import annotations

import logging
import os
import threading
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from opwire.tensor import Array

from ...kernels.cuda.job import Matrices, MatrixProduct

log = logging.getLogger("opwire")

_DEFAULT, _PEDANTIC = 0, 2
"""Modes of cuBLAS. The second one computes as the type says, but slower, without tensor cores for float64."""

_EMULATION = "CUBLAS_EMULATE_DOUBLE_PRECISION"
"""The variable that lets cuBLAS emulate float64 by narrower types, which may lose more than float64 itself."""

_NOT_TRANSPOSED, _TRANSPOSED = 0, 1

_ONE, _ZERO = np.ones(1), np.zeros(1)
"""Factors, which cuBLAS reads before a call returns."""


class Blas:
    """cuBLAS, loaded when somebody asks for what multiplies and not before.

    Args:
        cupy: the module.
    """

    def __init__(self, cupy: Any) -> None:
        self._runtime = cupy.cuda.runtime
        self._handles: dict[int, int] = {}
        self._lock = threading.Lock()

    @cached_property
    def _library(self) -> Any:
        """CuPy's module, or None where the library that it stands for is missing."""
        try:
            return import_module("cupy_backends.cuda.libs.cublas")
        except ImportError as error:
            log.warning("without cuBLAS the cuda device multiplies no matrices: %s", error)
            return None

    @property
    def is_available(self) -> bool:
        """Whether the library is there."""
        return self._library is not None

    def multiply(self, product: MatrixProduct, stream: Any) -> None:
        """Puts a product on a stream; the card of that stream is the current one, and the library is there.

        Raises:
            CUDARuntimeError: cuBLAS failed.
        """
        # The library takes columns for lines, and sees all matrices transposed: so the right operand comes first.
        handle = self._handle(stream)
        right, left, target = (_operand(each, product.count) for each in (product.right, product.left, product.target))
        sizes = product.columns, product.rows, product.depth
        operations = _operation(product.right), _operation(product.left)
        adds = _address(_ONE if product.adds else _ZERO)
        numbers = handle, *operations, *sizes, _address(_ONE), *right, *left, adds, *target
        try:
            with stream:
                if product.count == 1:
                    self._library.dgemm(*numbers)
                else:
                    self._library.dgemmStridedBatched(*numbers, product.count)
        except self._library.CUBLASError as error:
            raise self._failed(error) from error

    def _handle(self, stream: Any) -> int:
        """That of a stream, on which one thread works at a time."""
        with self._lock:
            handle = self._handles.get(stream.ptr)
            if handle is None:
                try:
                    handle = self._handles[stream.ptr] = int(self._library.create())
                except self._library.CUBLASError as error:
                    raise self._failed(error) from error
                emulates = os.environ.get(_EMULATION, "0") not in ("", "0")
                self._library.setMathMode(handle, _PEDANTIC if emulates else _DEFAULT)
            return handle

    def _failed(self, error: Exception) -> Exception:
        """The error as one of the card."""
        runtime = self._runtime
        status = runtime.errorMemoryAllocation if "ALLOC_FAILED" in str(error) else _UNKNOWN
        failed: Exception = runtime.CUDARuntimeError(status)
        return failed

    def close(self) -> None:
        """Gives back what cuBLAS holds; nothing runs any more."""
        with self._lock:
            for handle in self._handles.values():
                self._library.destroy(handle)
            self._handles.clear()


_UNKNOWN = 999
"""The status of a failure that CUDA has no name for."""


def _operation(matrices: Matrices) -> int:
    return _TRANSPOSED if matrices.is_transposed else _NOT_TRANSPOSED


def _address(number: Array) -> int:
    address: int = number.ctypes.data
    return address


def _operand(matrices: Matrices, count: int) -> tuple[int, ...]:
    """As the library is told of one matrix, or of several."""
    return (matrices.address, matrices.pitch, *((matrices.step,) if count > 1 else ()))
