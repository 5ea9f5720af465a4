"""ELEMENT_WISE_QUANTIZE_LINEAR and its inverse; QUANTIZE and DEQUANTIZE, whose blocks become separate dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial

import numpy as np

from opwire.check import Plan
from opwire.formulas import Constant, Expression, InputElement
from opwire.tensor import Array, BufferTensorDesc, DataType

from ....execution import Arrays, Bound, Stop
from ..elementwise.compiled import CompiledFormula
from ..run.arranged import Arrangement, part_of
from ..run.job import Job
from ..run.pool import Find, Pool
from ..run.tiles import TILE
from .linear import SCALE, SOURCE, ZERO_POINT, compiled, dequantized, quantized
from .packed import bytes_of, pack_into, strided
from .rounding import put_products, saturated

_OUTPUT = "output"


def _split(sizes: tuple[int, ...], strides: tuple[int, ...], counts: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Splits each dimension in two, block and position within it; returns their sizes and strides."""
    triples = list(zip(sizes, strides, counts, strict=True))
    return (
        [each for size, _, count in triples for each in (count, size // count)],
        [each for size, stride, count in triples for each in (stride * (size // count), stride)],
    )


def _blocked(array: Array, counts: tuple[int, ...]) -> Array:
    """Returns a view with each dimension split in two: block, and position within it."""
    if array.shape == counts:
        return _of_blocks(array)
    return np.lib.stride_tricks.as_strided(array, *_split(array.shape, array.strides, counts))


def _of_blocks(array: Array) -> Array:
    """Returns a view of parameters with one element per block."""
    return array.reshape(tuple(each for size in array.shape for each in (size, 1)))


class LinearJob(Job):
    """Quantizes or dequantizes elements with their scales and zero points.

    Args:
        plan: the plan.
        quantizes: whether to quantize; otherwise dequantizes.
        scale, zero_point: names of the parameters.
    """

    def __init__(self, plan: Plan, *, quantizes: bool, scale: str, zero_point: str) -> None:
        self._source, self._target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
        self._quantizes = quantizes
        self._names = scale, zero_point
        self._counts = plan.inputs[scale].sizes
        descs = {**plan.inputs, **plan.outputs}
        self._packed = {name: desc for name, desc in descs.items() if desc.data_type.is_packed}
        integers = self._target if quantizes else self._source
        self._default = 0.0
        if scale.startswith("Quantization") and not integers.data_type.is_signed:
            self._default = 2.0 ** (integers.data_type.bits - 1)
        sizes, strides = _split(self._source.sizes, self._source.element_strides, self._counts)
        self._layout = Arrangement.of(BufferTensorDesc(DataType.UINT8, tuple(sizes), tuple(strides)))
        self._limits = integers.data_type.limits
        parameters = zip((SCALE, ZERO_POINT), (scale, zero_point), strict=True)
        self._tensors = {
            SOURCE: self._source,
            **{role: plan.inputs[name] for role, name in parameters if name in plan.inputs},
            _OUTPUT: self._target,
        }

    @cached_property
    def _compiled(self) -> CompiledFormula | None:
        """The kernel for types and layout; None for 32-bit integers, whose products may be inexact in FLOAT64."""
        if not self._quantizes and self._source.data_type.bits > 16:
            return None
        zero_point: Expression | None = InputElement(ZERO_POINT) if ZERO_POINT in self._tensors else None
        if zero_point is None and self._default:
            zero_point = Constant(self._default)
        formula = dequantized(zero_point)
        if self._quantizes:
            formula = quantized(self._source.data_type, self._target.data_type, zero_point)
        split = {
            role: (desc.data_type, _split(desc.sizes, desc.element_strides, self._counts)[1])
            if desc.sizes == self._source.sizes
            else (desc.data_type, [each for stride in desc.element_strides for each in (stride, 0)])
            for role, desc in self._tensors.items()
        }
        sizes, _ = _split(self._source.sizes, self._source.element_strides, self._counts)
        # Differences of 16-bit integers are exact in FLOAT32, and their products are rounded once.
        is_in_float32 = not self._quantizes and split[SCALE][0] == self._target.data_type == DataType.FLOAT32
        return compiled(formula, sizes, split, is_in_float32=is_in_float32)

    def scratch_bytes(self, threads: int) -> int:
        tiles = 48 * TILE * min(threads, self._layout.tiles.count)
        by_kernel = 0 if self._compiled is None else self._compiled.scratch_bytes(threads)
        unpacked = sum(2 * desc.data_size_in_bytes for desc in self._packed.values())
        return max(tiles, by_kernel) + 4 * threads * (1 << 18) + unpacked

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        arrays = {**inputs, **outputs}
        whole = {name: bytes_of(desc, arrays[name], pool, stop) for name, desc in self._packed.items()}
        arrays |= {name: strided(self._packed[name], elements) for name, elements in whole.items()}
        self._bound(arrays, pool, find)(stop)
        if "OutputTensor" in whole:
            pack_into(outputs["OutputTensor"], whole["OutputTensor"], pool, stop)

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        if self._packed:
            return super().bind(inputs, outputs, find, pool)
        return self._bound({**inputs, **outputs}, pool, find)

    def _bound(self, arrays: Arrays, pool: Pool, find: Find) -> Bound:
        otherwise = partial(self._in_tiles, arrays, pool)
        if self._compiled is None:
            return otherwise
        scale, zero_point = self._names
        target = _blocked(arrays["OutputTensor"], self._counts)
        given = {SOURCE: arrays["InputTensor"], SCALE: arrays[scale]}
        if zero_point in arrays:
            given[ZERO_POINT] = arrays[zero_point]
        views = {role: _blocked(array, self._counts) for role, array in given.items()}
        return self._compiled.bind_if_it_serves(views, target, pool, find, otherwise)

    def _in_tiles(self, arrays: Mapping[str, Array], pool: Pool, stop: Stop) -> None:
        """Computes the output with NumPy."""
        source, target = (
            _blocked(arrays[name], self._counts).transpose(self._layout.order)
            for name in ("InputTensor", "OutputTensor")
        )
        scale, zero_point = (
            self._layout.arranged(_of_blocks(arrays[name])) if name in arrays else None for name in self._names
        )
        assert scale is not None
        tiles, convert = self._layout.tiles, self._quantize if self._quantizes else self._dequantize

        def piece(number: int) -> None:
            at = tiles.at(number)
            moved = self._default if zero_point is None else part_of(zero_point, at).astype(np.float64)
            convert(source[at], target[at], part_of(scale, at).astype(np.float64), moved)

        pool.each(piece, tiles.count, stop)

    def _quantize(self, source: Array, target: Array, scale: Array, zero_point: Array | float) -> None:
        x = np.array(source, np.float64, order="C")
        x /= scale
        saturated(x, zero_point, self._limits)
        np.copyto(target, x, casting="unsafe")

    def _dequantize(self, source: Array, target: Array, scale: Array, zero_point: Array | float) -> None:
        x = np.array(source, np.float64, order="C")
        x -= zero_point
        put_products(x, scale, target, exact=self._source.data_type.bits < 32)
