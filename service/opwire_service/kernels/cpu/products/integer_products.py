"""Products of matrices of integers, exact in floats: as many products are summed at a time as a float holds."""

from __future__ import annotations

from functools import partial

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ....execution import Arrays, Stop, Stopped
from ..jit.compiler import Kernel
from ..run.job import Job
from ..run.pool import Find, Pool
from . import blas
from .gemm import Cut, paired
from .requantizing import RADIX, Finishing, Quantized, Scaled, Wrapped, carried

BYTES_DEPTH = 256
"""Products of two numbers below 256 in magnitude that a FLOAT32 sums without error."""

DIGITS = 4
"""Digits of ``RADIX`` of a sum of products of 34 bits each, however many there are."""


class IntegerProductJob(Job):
    """The products of all batches, by tiles."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        a, b = plan.inputs["ATensor"], plan.inputs["BTensor"]
        *batch, rows, columns = plan.outputs["OutputTensor"].sizes
        self._depth = a.sizes[-1]
        self._cut = partial(Cut.of, paired(batch), rows, columns, self._depth)
        self._is_narrow = max(a.data_type.bits, b.data_type.bits) == 8

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return ()

    def scratch_bytes(self, threads: int) -> int:
        cut = self._cut(threads)
        sums = cut.several * cut.rows * cut.columns
        operands = cut.several * (cut.rows + cut.columns) * min(self._depth, blas.DEPTH)
        several = 1 if self._is_narrow else DIGITS
        return min(threads, cut.units) * 8 * (several * (12 * sums + 4 * operands) + (1 << 17))

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        blas.single_threaded()
        cut = self._cut(pool.threads)
        work = partial(self._tiles, cut, inputs, outputs["OutputTensor"], stop)
        if cut.units == 1:
            work(0, 1)
        else:
            pool.run(work, cut.units, 1, stop)

    def _tiles(self, cut: Cut, inputs: Arrays, target: Array, stop: Stop, begin: int, end: int) -> None:
        with np.errstate(all="ignore"):
            for unit in range(begin, end):
                place = cut.place(unit)
                finishing = self._finishing(inputs, place)
                sums = self._narrow(inputs, place, stop) if self._is_narrow else self._wide(inputs, place, stop)
                _batched(target)[place] = finishing.finish(sums)

    def _narrow(self, inputs: Arrays, place: tuple[int, slice, slice, slice], stop: Stop) -> Array:
        """Sums of products of bytes."""
        total: Array | None = None
        for begin in range(0, self._depth, BYTES_DEPTH):
            if stop():
                raise Stopped
            left, right = self._operands(inputs, place, slice(begin, begin + BYTES_DEPTH), np.float32)
            found = np.matmul(left, right)
            total = found.astype(np.float64) if total is None else np.add(total, found, out=total)
        assert total is not None
        return total

    def _wide(self, inputs: Arrays, place: tuple[int, slice, slice, slice], stop: Stop) -> Array:
        """Sums of products of wider numbers as digits, ``[digits, matrices, rows, columns]``."""
        total: Array | None = None
        for begin in range(0, self._depth, blas.DEPTH):
            if stop():
                raise Stopped
            operands = self._operands(inputs, place, slice(begin, begin + blas.DEPTH), np.float64)
            (left_high, left_low), (right_high, right_low) = map(_halves, operands)
            low, high = np.matmul(left_low, right_low), np.matmul(left_high, right_high)
            middle = np.matmul(left_low, right_high) + np.matmul(left_high, right_low)
            found = np.stack([low, middle, high, np.zeros_like(low)])
            total = carried(found if total is None else np.add(total, found, out=total))
        assert total is not None
        return total

    def _operands(
        self, inputs: Arrays, place: tuple[int, slice, slice, slice], depth: slice, dtype: type
    ) -> tuple[Array, Array]:
        """Parts of both matrices less their zero points."""
        first, several, rows, columns = place
        left: Array = _batched(inputs["ATensor"])[first, several, rows, depth].astype(dtype)
        right: Array = _batched(inputs["BTensor"])[first, several, depth, columns].astype(dtype)
        if "AZeroPointTensor" in inputs:
            left -= _of(inputs["AZeroPointTensor"], rows).astype(dtype)[:, None]
        if "BZeroPointTensor" in inputs:
            right -= _of(inputs["BZeroPointTensor"], columns).astype(dtype)
        return left, right

    def _finishing(self, inputs: Arrays, place: tuple[int, slice, slice, slice]) -> Finishing:
        *_, rows, columns = place
        dtype = self._plan.outputs["OutputTensor"].data_type.dtype
        if "AScaleTensor" not in inputs:
            return Wrapped()
        left = _of(inputs["AScaleTensor"], rows).astype(np.float64)[:, None]
        right = _of(inputs["BScaleTensor"], columns).astype(np.float64)
        if "OutputScaleTensor" in inputs:
            scale = _of(inputs["OutputScaleTensor"], rows).astype(np.float64)[:, None]
            zero = np.zeros((1, 1))
            if "OutputZeroPointTensor" in inputs:
                zero = _of(inputs["OutputZeroPointTensor"], rows).astype(np.float64)[:, None]
            return Quantized(left, right, scale, zero, dtype)
        bias = _batched(inputs["BiasTensor"])[place] if "BiasTensor" in inputs else None
        return Scaled(left, right, bias, dtype)


def _halves(numbers: Array) -> tuple[Array, Array]:
    """Integers as ``high * RADIX + low``."""
    high = np.floor(numbers / RADIX)
    return high, numbers - high * RADIX


def _batched(array: Array) -> Array:
    return array[(None,) * (4 - array.ndim)]


def _of(parameter: Array, part: slice) -> Array:
    """The parameters of some rows or columns: one for all, or one for each."""
    flat = parameter.reshape(-1)
    return flat if flat.size == 1 else flat[part]
