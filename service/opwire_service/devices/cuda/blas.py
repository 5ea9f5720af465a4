"""Products of float64 matrices on a card, by cuBLAS."""

from __future__ import annotations

import threading
from importlib import import_module
from typing import Any

from ...kernels.cuda.job import Matrices, MatrixProduct

_PEDANTIC = 2
"""The mode in which cuBLAS computes as the type says: what emulates float64 by narrower types may lose more than float64."""

_NOT_TRANSPOSED, _TRANSPOSED = 0, 1


class Blas:
    """cuBLAS, loaded when something is multiplied and not before.

    Args:
        cupy: the module.
    """

    def __init__(self, cupy: Any) -> None:
        self._runtime = cupy.cuda.runtime
        self._library: Any = None
        self._handles: dict[int, int] = {}
        self._lock = threading.Lock()

    def multiply(self, product: MatrixProduct, stream: Any) -> None:
        """Puts a product on a stream; the card of that stream is the current one.

        Raises:
            CUDARuntimeError: cuBLAS failed.
        """
        # The library takes columns for lines, and sees all matrices transposed: so the right operand comes first.
        right, left, target = product.right, product.left, product.target
        handle = self._handle(stream)
        sizes = product.columns, product.rows, product.depth
        operations = _operation(right), _operation(left)
        adds = 1.0 if product.adds else 0.0
        try:
            with stream:
                if product.count == 1:
                    operands = right.address, right.pitch, left.address, left.pitch
                    self._library.dgemm(
                        handle, *operations, *sizes, 1.0, *operands, adds, target.address, target.pitch
                    )
                else:
                    self._library.dgemmStridedBatched(
                        handle, *operations, *sizes, 1.0, *_batch(right), *_batch(left), adds, *_batch(target),
                        product.count,
                    )  # fmt: skip
        except self._library.CUBLASError as error:
            raise self._failed(error) from error

    def _handle(self, stream: Any) -> int:
        """That of a stream, on which one thread works at a time."""
        with self._lock:
            if self._library is None:
                self._library = import_module("cupy_backends.cuda.libs.cublas")
            handle = self._handles.get(stream.ptr)
            if handle is None:
                try:
                    handle = self._handles[stream.ptr] = int(self._library.create())
                except self._library.CUBLASError as error:
                    raise self._failed(error) from error
                self._library.setMathMode(handle, _PEDANTIC)
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


def _batch(matrices: Matrices) -> tuple[int, int, int]:
    return matrices.address, matrices.pitch, matrices.step
