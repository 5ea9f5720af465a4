"""Products of integer matrices, exact in floats: only as many products are summed at once as a float can hold."""

from __future__ import annotations

from functools import partial

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ....execution import Arrays, Stop, Stopped
from ..run.job import Job
from ..run.pool import Find, Pool
from . import blas
from .gemm import TILE, GemmTiling, paired
from .requantizing import FINISH_BYTES, RADIX, Finishing, Quantized, ScaledFinish, WrappedFinish, carried, strips

BYTES_DEPTH = 256
"""Products of two numbers below 256 in magnitude that FLOAT32 sums exactly."""

DIGITS = 4
"""Digits in base ``RADIX`` of a sum of 34-bit products, however many there are."""

WIDE_ROWS = 128
"""Maximum number of rows in a tile of wider numbers, whose digits then take some ms."""

NARROW_SUM, NARROW_OPERAND = 4 + 8, 2 * 4
"""Bytes per element of a tile of byte products (product and running sums), and per element of the operands, whose next
copies are made before the last ones are freed."""

WIDE_SUM, WIDE_OPERAND = 14 * 8, 7 * 8
"""The same for wider numbers: three products, the digits of a part and of the running sums, and temporaries of carries;
and the operands, their halves, and both of the previous part."""

Tile = tuple[int, slice, slice, slice]
"""First batch index, second batch indices, rows and columns."""


class IntegerProductJob(Job):
    """Computes the products of all batches, by tiles."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        a, b = plan.inputs["ATensor"], plan.inputs["BTensor"]
        *batch, rows, columns = plan.outputs["OutputTensor"].sizes
        self._depth = a.sizes[-1]
        self._is_narrow = max(a.data_type.bits, b.data_type.bits) == 8
        tall = TILE if self._is_narrow else WIDE_ROWS
        self._tiling = partial(GemmTiling.of, paired(batch), rows, columns, self._depth, tall=tall)

    def scratch_bytes(self, threads: int) -> int:
        tiling = self._tiling(threads)
        sums = tiling.several * tiling.rows * tiling.columns
        lines = tiling.several * (tiling.rows + tiling.columns)
        if self._is_narrow:
            tile = NARROW_SUM * sums + NARROW_OPERAND * lines * min(self._depth, BYTES_DEPTH)
        else:
            tile = WIDE_SUM * sums + WIDE_OPERAND * lines * min(self._depth, blas.DEPTH)
        return min(threads, len(tiling.boxes)) * (tile + FINISH_BYTES)

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        blas.single_threaded()
        tiling = self._tiling(pool.threads)
        target = _batched(outputs["OutputTensor"])

        def work(begin: int, end: int) -> None:
            with np.errstate(all="ignore"):
                for first, several, rows, _, columns in tiling.boxes[begin:end]:
                    self._tile((first.start, several, rows, columns), inputs, target, stop)

        pool.run(work, len(tiling.boxes), 1, stop, find)

    def _tile(self, place: Tile, inputs: Arrays, target: Array, stop: Stop) -> None:
        sums = self._narrow(inputs, place, stop) if self._is_narrow else self._wide(inputs, place, stop)
        first, several, rows, columns = place
        *_, count, height, width = sums.shape
        for part in strips(height, count * width):
            if stop():
                raise Stopped
            strip = first, several, slice(rows.start + part.start, rows.start + part.stop), columns
            target[strip] = self._finishing(inputs, strip).finish(sums[..., part, :])

    def _narrow(self, inputs: Arrays, place: Tile, stop: Stop) -> Array:
        """Returns sums of products of bytes."""
        total: Array | None = None
        for begin in range(0, self._depth, BYTES_DEPTH):
            if stop():
                raise Stopped
            left, right = self._operands(inputs, place, slice(begin, begin + BYTES_DEPTH), np.float32)
            found = np.matmul(left, right)
            total = found.astype(np.float64) if total is None else np.add(total, found, out=total)
        assert total is not None
        return total

    def _wide(self, inputs: Arrays, place: Tile, stop: Stop) -> Array:
        """Returns sums of products of wider numbers as digits, ``[digits, matrices, rows, columns]``."""
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

    def _operands(self, inputs: Arrays, place: Tile, depth: slice, dtype: type) -> tuple[Array, Array]:
        """Returns parts of both matrices minus their zero points."""
        first, several, rows, columns = place
        left: Array = _batched(inputs["ATensor"])[first, several, rows, depth].astype(dtype)
        right: Array = _batched(inputs["BTensor"])[first, several, depth, columns].astype(dtype)
        if "AZeroPointTensor" in inputs:
            left -= _of(inputs["AZeroPointTensor"], rows).astype(dtype)[:, None]
        if "BZeroPointTensor" in inputs:
            right -= _of(inputs["BZeroPointTensor"], columns).astype(dtype)
        return left, right

    def _finishing(self, inputs: Arrays, place: Tile) -> Finishing:
        *_, rows, columns = place
        dtype = self._plan.outputs["OutputTensor"].data_type.dtype
        if "AScaleTensor" not in inputs:
            return WrappedFinish()
        left = _of(inputs["AScaleTensor"], rows).astype(np.float64)[:, None]
        right = _of(inputs["BScaleTensor"], columns).astype(np.float64)
        if "OutputScaleTensor" in inputs:
            scale = _of(inputs["OutputScaleTensor"], rows).astype(np.float64)[:, None]
            zero = np.zeros((1, 1))
            if "OutputZeroPointTensor" in inputs:
                zero = _of(inputs["OutputZeroPointTensor"], rows).astype(np.float64)[:, None]
            return Quantized(left, right, scale, zero, dtype)
        bias = _batched(inputs["BiasTensor"])[place] if "BiasTensor" in inputs else None
        return ScaledFinish(left, right, bias, dtype)


def _halves(numbers: Array) -> tuple[Array, Array]:
    """Splits integers into ``high * RADIX + low``."""
    high = np.floor(numbers / RADIX)
    return high, numbers - high * RADIX


def _batched(array: Array) -> Array:
    return array[(None,) * (4 - array.ndim)]


def _of(parameter: Array, part: slice) -> Array:
    """Returns the parameters of some rows or columns: one for all, or one for each."""
    flat = parameter.reshape(-1)
    return flat if flat.size == 1 else flat[part]
