"""CAST: contiguous floats by dedicated kernels, everything else by formula kernels; few elements by NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial

import numpy as np

from opwire.check import Plan
from opwire.formulas import InputElement
from opwire.tensor import Array, BufferTensorDesc, DataType, packed_strides

from ....execution import Arrays, Bound, Stop, Stopped
from ...views.view import View, copy
from ..elementwise.compiled import LEAST_RUN, CompiledFormula
from ..elementwise.family import byte_strides
from ..elementwise.forms import converted_form
from ..elementwise.planes import planes_of
from ..jit.compiler import Kernel
from ..jit.element import FLOAT32, HALF, INT64
from ..run.blocks import Blocks
from ..run.job import Job, KernelStep
from ..run.pool import Find, Pool
from ..views.job import CopyJob
from . import floats

FLOATS = {
    DataType.FLOAT16: Kernel(floats.convert, HALF),
    DataType.FLOAT32: Kernel(floats.convert, FLOAT32),
    DataType.FLOAT64: Kernel(floats.convert_doubles, INT64),
}
"""Kernels that convert floats of a type."""

KERNELS = tuple(FLOATS.values())

TARGETS = {
    DataType.FLOAT16: floats.HALVES,
    DataType.FLOAT32: floats.SINGLES,
    DataType.FLOAT64: floats.DOUBLES,
    DataType.INT64: floats.SIGNED_64,
    DataType.UINT64: floats.UNSIGNED_64,
}

SMALL_INTEGERS = {8: floats.INTEGERS_8, 16: floats.INTEGERS_16, 32: floats.INTEGERS_32}
"""Target codes of integers, by bits."""

BLOCK = 1 << 17
"""Elements converted at once."""

CHUNK = 1 << 14
"""Elements converted in two steps at once, few enough to stay in the inner caches."""


def prepare(plan: Plan) -> Job:
    source, target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
    if source.data_type is target.data_type:
        return CopyJob(source.data_type.bits // 8, [[copy(View.of(0, source), View.of(1, target))]])
    return CastJob(source, target)


def geometry_to(data_type: DataType) -> floats.Target:
    """Returns the geometry with which the kernel converts to a type."""
    which, least, greatest = TARGETS.get(data_type, 0), 0, 0
    if not data_type.is_float and data_type.bits < 64:
        which = SMALL_INTEGERS[data_type.bits]
        limits = np.iinfo(data_type.dtype)
        least, greatest = int(limits.min), int(limits.max)
    return floats.Target(code=which, least=least, greatest=greatest)


class CastJob(Job):
    """Converts one type to another."""

    def __init__(self, source: BufferTensorDesc, target: BufferTensorDesc) -> None:
        self._descs = source, target
        self._order = sorted(range(source.rank), key=lambda i: (source.sizes[i] > 1, -source.element_strides[i]))
        self._is_packed = _is_packed(source, self._order) and _is_packed(target, self._order)
        self._geometry = geometry_to(target.data_type)
        self._count = source.element_count
        self._kernel = FLOATS.get(source.data_type)
        self._is_in_two_steps = self._kernel is None and target.data_type is DataType.FLOAT16
        if self._is_in_two_steps:
            self._kernel = FLOATS[DataType.FLOAT32]
        self._kernels = () if self._kernel is None else (self._kernel,)
        self._is_one_step = self._is_packed and self._kernel is not None and not self._is_in_two_steps

    @cached_property
    def _compiled(self) -> CompiledFormula | None:
        """The formula kernel for the types and the layout, if there is one and its tiles are large enough."""
        source, target = self._descs
        name = "InputTensor"
        form = converted_form(InputElement(name), {name: source.data_type}, target.data_type)
        if form is None or (self._is_one_step and target.data_type.is_float) or self._count < LEAST_RUN:
            return None
        tensors = {name: source, "": target}
        steps = {each: (byte_strides(desc), desc.data_type.bits // 8) for each, desc in tensors.items()}
        planes = planes_of(target.sizes, steps)
        return CompiledFormula(form, planes) if planes.is_worth else None

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        source, target = inputs["InputTensor"], outputs["OutputTensor"]
        if self._is_one_step and self._kernel is not None:
            step = KernelStep(self._kernel, self._geometry, self._count, 1)
            otherwise = step.bind(source.ctypes.data, target.ctypes.data, 0, find, pool, (source, target))
        else:
            otherwise = self._in_blocks(source, target, find, pool)
        if self._compiled is None:
            return otherwise
        return self._compiled.bind_if_it_serves(inputs, target, pool, find, otherwise)

    def _in_blocks(self, source: Array, target: Array, find: Find, pool: Pool) -> Bound:
        if self._is_packed:
            source, target = (array.transpose(self._order).reshape(-1) for array in (source, target))
        if target.size <= BLOCK:
            return partial(_at_once, partial(self._convert, find, source, target))
        blocks = Blocks.of(source.shape, BLOCK)

        def piece(number: int) -> None:
            part = blocks.part(number)
            self._convert(find, source[part], target[part])

        return partial(pool.each, piece, blocks.number)

    def scratch_bytes(self, threads: int) -> int:
        packed = 0 if self._is_packed else 16 * BLOCK
        compiled = 0 if self._compiled is None else self._compiled.scratch_bytes(threads)
        return max(threads * (packed + 4 * CHUNK), compiled)

    def _convert(self, find: Find, source: Array, target: Array) -> None:
        """Converts part of the tensors, of any strides."""
        if self._kernel is None:
            _copy_integers(source, target)
            return
        elements = np.ascontiguousarray(source).reshape(-1)
        result = target.reshape(-1) if target.flags.c_contiguous else np.empty(target.size, target.dtype)
        call, (geometry, _) = find(self._kernel).call, self._geometry.buffer_info()
        for start in range(0, elements.size, CHUNK):
            part = elements[start : start + CHUNK]
            numbers = part.astype(np.float32) if self._is_in_two_steps else part
            there = result.ctypes.data + start * result.itemsize
            call(0, numbers.ctypes.data, there, 0, geometry, 0, part.size)
        if not target.flags.c_contiguous:
            target[...] = result.reshape(target.shape)


def _copy_integers(source: Array, target: Array) -> None:
    """Converts to a type that holds the integers, or modulo its width; to 8 bits modulo 2**32, and then saturated."""
    if target.dtype.itemsize > 1 or target.dtype.kind == "f":
        np.copyto(target, source, casting="unsafe")
        return
    limits = np.iinfo(target.dtype)
    np.clip(source.astype(f"{target.dtype.kind}4"), limits.min, limits.max, out=target, casting="unsafe")


def _at_once(convert: partial[None], stop: Stop) -> None:
    if stop():
        raise Stopped
    convert()


def _is_packed(desc: BufferTensorDesc, order: Sequence[int]) -> bool:
    """Whether elements are contiguous, with dimensions in the given order."""
    sizes = [desc.sizes[i] for i in order]
    pairs = zip(order, sizes, packed_strides(sizes), strict=True)
    return all(size == 1 or desc.element_strides[i] == packed for i, size, packed in pairs)


PREPARE = {"CAST": prepare}
