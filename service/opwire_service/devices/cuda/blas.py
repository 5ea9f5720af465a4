"""float64 matrix products with cuBLAS."""

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
"""Math modes of cuBLAS. The pedantic one keeps the precision of the type, but is slower, without tensor cores."""

_EMULATION = "CUBLAS_EMULATE_DOUBLE_PRECISION"
"""Environment variable that lets cuBLAS emulate float64 with narrower types, at a possible loss of precision."""

_NOT_TRANSPOSED, _TRANSPOSED = 0, 1

_BYTES, _INTEGERS = 3, 10
"""``CUDA_R_8I`` and ``CUDA_R_32I``."""

_EXACT_INTEGERS, _ANY_ALGORITHM = 72, -1
"""``CUBLAS_COMPUTE_32I`` and ``CUBLAS_GEMM_DEFAULT``."""

_ONE, _ZERO = np.ones(1), np.zeros(1)
_INTEGER_ONE, _INTEGER_ZERO = np.ones(1, np.int32), np.zeros(1, np.int32)
"""Scalar factors; cuBLAS reads them before a call returns."""


class Blas:
    """cuBLAS, loaded on first use.

    Args:
        cupy: the CuPy module.
    """

    def __init__(self, cupy: Any) -> None:
        self._runtime = cupy.cuda.runtime
        self._handles: dict[int, int] = {}
        self._lock = threading.Lock()

    @cached_property
    def _library(self) -> Any:
        """CuPy's cuBLAS module, or None if the library is missing."""
        try:
            return import_module("cupy_backends.cuda.libs.cublas")
        except ImportError as error:
            log.warning("cuBLAS is not available, so the cuda device cannot run matrix products: %s", error)
            return None

    @property
    def is_available(self) -> bool:
        """Whether the library is available."""
        return self._library is not None

    def multiply(self, product: MatrixProduct, stream: Any) -> None:
        """Enqueues a product on a stream. The stream's card must be current, and the library available.

        Raises:
            CUDARuntimeError: cuBLAS failed.
        """
        # cuBLAS is column-major and sees all matrices transposed, so the right operand comes first.
        handle = self._handle(stream)
        right, left, target = (_operand(each, product.count) for each in (product.right, product.left, product.target))
        sizes = product.columns, product.rows, product.depth
        operations = _operation(product.right), _operation(product.left)
        adds = _address(_ONE if product.adds else _ZERO)
        numbers = handle, *operations, *sizes, _address(_ONE), *right, *left, adds, *target
        try:
            with stream:
                if product.is_of_bytes:
                    self._multiply_bytes(product, handle)
                elif product.count == 1:
                    self._library.dgemm(*numbers)
                else:
                    self._library.dgemmStridedBatched(*numbers, product.count)
        except self._library.CUBLASError as error:
            raise self._failed(error) from error

    def _multiply_bytes(self, product: MatrixProduct, handle: int) -> None:
        """Multiplies bytes one matrix after the other: cuBLAS is slower with a batch."""
        operations = _operation(product.right), _operation(product.left)
        sizes = product.columns, product.rows, product.depth
        one, zero = _address(_INTEGER_ONE), _address(_INTEGER_ZERO)
        for number in range(product.count):
            right, left, target = (
                (each.address + size * number * each.step, kind, each.pitch)
                for each, size, kind in (
                    (product.right, 1, _BYTES),
                    (product.left, 1, _BYTES),
                    (product.target, 4, _INTEGERS),
                )
            )
            self._library.gemmEx(
                handle, *operations, *sizes, one, *right, *left, zero, *target, _EXACT_INTEGERS, _ANY_ALGORITHM
            )

    def _handle(self, stream: Any) -> int:
        """Returns the cuBLAS handle of a stream, which only one thread uses at a time."""
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
        """Converts a cuBLAS error to one of the CUDA runtime."""
        runtime = self._runtime
        status = runtime.errorMemoryAllocation if "ALLOC_FAILED" in str(error) else _UNKNOWN
        failed: Exception = runtime.CUDARuntimeError(status)
        return failed

    def close(self) -> None:
        """Releases the resources of cuBLAS. Nothing may be running."""
        with self._lock:
            for handle in self._handles.values():
                self._library.destroy(handle)
            self._handles.clear()


_UNKNOWN = 999
"""``cudaErrorUnknown``."""


def _operation(matrices: Matrices) -> int:
    return _TRANSPOSED if matrices.is_transposed else _NOT_TRANSPOSED


def _address(number: Array) -> int:
    address: int = number.ctypes.data
    return address


def _operand(matrices: Matrices, count: int) -> tuple[int, ...]:
    """Returns the arguments that describe an operand: address, leading dimension and, for a batch, stride."""
    return (matrices.address, matrices.pitch, *((matrices.step,) if count > 1 else ()))
