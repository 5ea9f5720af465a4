"""ELEMENT_WISE_QUANTIZE_LINEAR and its inverse; QUANTIZE and DEQUANTIZE, whose blocks are dimensions of their own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array, BufferTensorDesc, DataType

from ....execution import Arrays, Stop
from ..jit.compiler import Kernel
from ..run.arranged import Arrangement, part_of
from ..run.job import Job
from ..run.pool import Find, Pool
from ..run.tiles import TILE
from .linear import DEQUANTIZE, QUANTIZE, apply
from .packed import bytes_of, pack_into, strided
from .rounding import put_products, saturated

Convert = Callable[[Array, Array, Array, Array | float], None]
"""Takes a part of the input, of the output, of the scales and of the zero points."""


def _blocked(array: Array, counts: tuple[int, ...]) -> Array:
    """A view with two dimensions for each: of blocks, and within one."""
    sizes = tuple(each for size, count in zip(array.shape, counts, strict=True) for each in (count, size // count))
    strides = tuple(
        each
        for stride, size, count in zip(array.strides, array.shape, counts, strict=True)
        for each in (stride * (size // count), stride)
    )
    return np.lib.stride_tricks.as_strided(array, sizes, strides)


def _of_blocks(array: Array) -> Array:
    """A view of parameters that has one element for each block."""
    return array.reshape(tuple(each for size in array.shape for each in (size, 1)))


def _is_run(source: Array, target: Array) -> bool:
    return source.flags.c_contiguous and target.flags.c_contiguous


class LinearJob(Job):
    """What tiles of the input become with their scales and zero points.

    Args:
        plan: of the operator.
        quantizes: whether it does, or the inverse.
        scale, zero_point: the names of the parameters.
    """

    def __init__(self, plan: Plan, *, quantizes: bool, scale: str, zero_point: str) -> None:
        self._source, self._target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
        self._quantizes = quantizes
        self._names = scale, zero_point
        self._counts = plan.inputs[scale].sizes
        self._packed = {
            name: desc for name, desc in {**plan.inputs, **plan.outputs}.items() if desc.data_type.is_packed
        }
        integers = self._target if quantizes else self._source
        self._default = 0.0
        if scale.startswith("Quantization") and not integers.data_type.is_signed:
            self._default = 2.0 ** (integers.data_type.bits - 1)
        self._layout = Arrangement.of(self._split(self._source))
        self._limits = integers.data_type.limits
        self._kernel = self._chosen()

    def _chosen(self) -> Kernel | None:
        """The kernel for runs with one scale, if there is one for the types."""
        source, target = self._source.data_type, self._target.data_type
        if self._quantizes:
            is_taken = not target.is_packed and target.bits <= 32
            return QUANTIZE[source is DataType.FLOAT16] if is_taken else None
        is_taken = not source.is_packed and source.bits == 8 and target is DataType.FLOAT32
        return DEQUANTIZE if is_taken else None

    def _split(self, desc: BufferTensorDesc) -> BufferTensorDesc:
        """The input with two dimensions for each."""
        pairs = list(zip(desc.sizes, desc.element_strides, self._counts, strict=True))
        sizes = tuple(each for size, _, count in pairs for each in (count, size // count))
        strides = tuple(each for size, stride, count in pairs for each in (stride * (size // count), stride))
        return BufferTensorDesc(DataType.UINT8, sizes, strides)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return () if self._kernel is None else (self._kernel,)

    def scratch_bytes(self, threads: int) -> int:
        tiles = 48 * TILE * min(threads, self._layout.tiles.count)
        return tiles + 4 * threads * (1 << 18) + sum(2 * desc.data_size_in_bytes for desc in self._packed.values())

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        arrays = {**inputs, **outputs}
        whole = {name: bytes_of(desc, arrays[name], pool, stop) for name, desc in self._packed.items()}
        arrays |= {name: strided(self._packed[name], elements) for name, elements in whole.items()}
        source, target = (
            _blocked(arrays[name], self._counts).transpose(self._layout.order)
            for name in ("InputTensor", "OutputTensor")
        )
        scale, zero_point = (
            self._layout.arranged(_of_blocks(arrays[name])) if name in arrays else None for name in self._names
        )
        assert scale is not None
        tiles, convert = self._layout.tiles, self._quantize if self._quantizes else self._dequantize

        entry = None if self._kernel is None else find(self._kernel)

        def piece(begin: int, end: int) -> None:
            with np.errstate(all="ignore"):
                for number in range(begin, end):
                    at = tiles.at(number)
                    moved = self._default if zero_point is None else part_of(zero_point, at).astype(np.float64)
                    factor, given, into = part_of(scale, at).astype(np.float64), source[at], target[at]
                    if entry is not None and factor.size == np.size(moved) == 1 and _is_run(given, into):
                        point = float(np.reshape(moved, ()))
                        apply(entry, given, into, float(factor.reshape(())), point, self._limits)
                    else:
                        convert(given, into, factor, moved)

        pool.run(piece, tiles.count, 1, stop)
        if "OutputTensor" in whole:
            pack_into(outputs["OutputTensor"], whole["OutputTensor"], pool, stop)

    def _quantize(self, source: Array, target: Array, scale: Array, zero_point: Array | float) -> None:
        x = np.array(source, np.float64, order="C")
        x /= scale
        saturated(x, zero_point, self._target.data_type.limits)
        np.copyto(target, x, casting="unsafe")

    def _dequantize(self, source: Array, target: Array, scale: Array, zero_point: Array | float) -> None:
        x = np.array(source, np.float64, order="C")
        x -= zero_point
        put_products(x, scale, target, exact=self._source.data_type.bits < 32)
