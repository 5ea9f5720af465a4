"""Serialization of plans and their tensors for a node."""

from __future__ import annotations

import ctypes
import io
import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import EnumMeta
from typing import Any

import numpy as np

from opwire import enums
from opwire.check import Plan
from opwire.fields import NestedOperator, ScaleBias, Size2D
from opwire.graph import GRAPH, Bytes, Place, Step, Steps
from opwire.level import FeatureLevel
from opwire.operator import Attributes, Operator
from opwire.operators import OPERATORS
from opwire.tensor import Array, BufferTensorDesc, DataType, TensorFlags

from ...execution import Arrays, Stop, Stopped
from .unpickling import Unpickler

ALIGNMENT = 64
"""Alignment of tensors in bytes, sufficient for the vectors of any processor."""

PIECE = 1 << 24
"""Number of bytes copied between two calls of ``stop``."""


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """The layout of tensors in a block.

    Attributes:
        offsets: offset of each tensor by name, in bytes.
        size: total size in bytes.
    """

    offsets: Mapping[str, int]
    size: int

    @classmethod
    def of(cls, descs: Mapping[str, BufferTensorDesc]) -> BlockLayout:
        offsets, end = {}, 0
        for name, desc in descs.items():
            offsets[name] = end
            end += -(-desc.data_size_in_bytes // ALIGNMENT) * ALIGNMENT
        return cls(offsets, end)

    def views(self, descs: Mapping[str, BufferTensorDesc], memory: Array) -> dict[str, Array]:
        """Returns the tensors as views of ``memory``."""
        return {name: desc.view(memory, self.offsets[name]) for name, desc in descs.items()}


def allocate(descs: Iterable[BufferTensorDesc], size: int) -> Array:
    """Allocates ``size`` bytes for tensors, zeroed if these have gaps."""
    has_gaps = any(desc.extent != desc.element_count for desc in descs)
    return (np.zeros if has_gaps else np.empty)(size, np.uint8)


def pack(descs: Mapping[str, BufferTensorDesc], arrays: Arrays, memory: Array, stop: Stop) -> None:
    """Copies tensors to memory, gaps included.

    Raises:
        Stopped: ``stop()`` returned True.
    """
    offsets = BlockLayout.of(descs).offsets
    for name, desc in descs.items():
        start, size = offsets[name], desc.data_size_in_bytes
        _copy(_bytes_of(arrays[name], size), memory[start : start + size], stop)


def unpack(descs: Mapping[str, BufferTensorDesc], memory: Array, arrays: Arrays, stop: Stop) -> None:
    """Copies tensors from memory to arrays, leaving the gaps of the arrays unchanged.

    Raises:
        Stopped: ``stop()`` returned True.
    """
    for name, view in BlockLayout.of(descs).views(descs, memory).items():
        desc = descs[name]
        if desc.extent == desc.element_count:
            size = desc.data_size_in_bytes
            start = BlockLayout.of(descs).offsets[name]
            _copy(memory[start : start + size], _bytes_of(arrays[name], size), stop)
        else:
            arrays[name][...] = view


def _bytes_of(array: Array, size: int) -> Array:
    """Returns the bytes of an array in the layout of its desc, gaps included."""
    found: Array = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(array.ctypes.data))
    return found


def _copy(source: Array, target: Array, stop: Stop) -> None:
    for start in range(0, source.size, PIECE):
        if stop():
            raise Stopped
        target[start : start + PIECE] = source[start : start + PIECE]


class _Pickler(pickle.Pickler):
    """Writes operator declarations by name, as both sides have them."""

    def persistent_id(self, obj: Any) -> str | None:
        return obj.name if isinstance(obj, Operator) else None


class _Unpickler(Unpickler):
    def persistent_load(self, pid: str) -> Operator[Any]:
        operator = GRAPH if pid == GRAPH.name else OPERATORS[pid]
        if isinstance(operator.attributes, type):
            self.allow([operator.attributes])
        return operator


_CLASSES: tuple[type, ...] = (
    *(Plan, FeatureLevel, BufferTensorDesc, DataType, TensorFlags, Attributes),
    *(NestedOperator, ScaleBias, Size2D, Bytes, Place, Step, Steps),
    *(each for each in vars(enums).values() if isinstance(each, EnumMeta)),
)
"""The classes in plans, besides those of the attributes of some operators."""


def dump_plan(plan: Plan) -> bytes:
    """Serializes a plan for another process with the same version of opwire."""
    written = io.BytesIO()
    _Pickler(written, pickle.HIGHEST_PROTOCOL).dump(plan)
    return written.getvalue()


def load_plan(written: bytes) -> Plan:
    """Deserializes a plan written by ``dump_plan``.

    Raises:
        UnpicklingError: the bytes contain something else than a plan.
    """
    plan: Plan = _Unpickler(written, _CLASSES).load()
    return plan
