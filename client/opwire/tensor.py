"""Data types and buffer tensor descs: the exact layout of tensors in memory.

Source: ``DML_BUFFER_TENSOR_DESC``, ``DML_TENSOR_DATA_TYPE`` and the pages on strides and on helper functions of the
DirectML reference. All sizes, strides and extents are in elements unless the name says bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum, IntFlag
from math import gcd, prod
from typing import Any

import numpy as np

from .level import FeatureLevel
from .nibbles import Array as Array
from .nibbles import pack, unpacked

LEAST_ALIGNMENT = 16
"""The least guaranteed alignment other than 0 that DirectML accepts, in bytes."""

MAX_ELEMENTS = 2**32 - 1
"""Maximum number of elements of a tensor, and maximum extent of its buffer; both are 32-bit counts."""

MAX_RANK = 8
"""``DML_TENSOR_DIMENSION_COUNT_MAX1``."""

_LINE, _LARGE = 64, 1 << 16
"""Size of a cache line, and minimum size of the buffers aligned to one, in bytes."""


class DataType(Enum):
    """``DML_TENSOR_DATA_TYPE``: each member with its value, its width, its numpy type and its first feature level.

    Attributes:
        code: the value in directml.h.
        bits: width of an element in a buffer, in bits.
        introduced: the first feature level that has it.
        dtype: the numpy type of one element, little-endian.
        is_float: whether it is a binary floating-point type.
        is_signed: whether it has negative numbers.
        is_packed: whether two elements share a byte of a buffer; in an array, each still takes a whole ``dtype``.
    """

    __hash__ = object.__hash__  # Enum's is slower: it is implemented in Python

    FLOAT32 = (1, 32, "<f4", FeatureLevel.V1_0)
    FLOAT16 = (2, 16, "<f2", FeatureLevel.V1_0)
    UINT32 = (3, 32, "<u4", FeatureLevel.V1_0)
    UINT16 = (4, 16, "<u2", FeatureLevel.V1_0)
    UINT8 = (5, 8, "<u1", FeatureLevel.V1_0)
    INT32 = (6, 32, "<i4", FeatureLevel.V1_0)
    INT16 = (7, 16, "<i2", FeatureLevel.V1_0)
    INT8 = (8, 8, "<i1", FeatureLevel.V1_0)
    FLOAT64 = (9, 64, "<f8", FeatureLevel.V3_0)
    UINT64 = (10, 64, "<u8", FeatureLevel.V3_0)
    INT64 = (11, 64, "<i8", FeatureLevel.V3_0)
    UINT4 = (12, 4, "<u1", FeatureLevel.V6_3)
    INT4 = (13, 4, "<i1", FeatureLevel.V6_3)

    def __init__(self, code: int, bits: int, storage: str, introduced: FeatureLevel) -> None:
        self.code = code
        self.bits = bits
        self.introduced = introduced
        self.dtype: np.dtype[Any] = np.dtype(storage)
        self.is_float = self._name_.startswith("FLOAT")
        self.is_signed = not self._name_.startswith("UINT")
        self.is_packed = bits < 8

    @property
    def limits(self) -> tuple[int, int]:
        """The least and greatest integer."""
        least = -(1 << (self.bits - 1)) if self.is_signed else 0
        return least, least + (1 << self.bits) - 1

    @classmethod
    def of(cls, dtype: np.dtype[Any]) -> DataType:
        """Returns the data type for a numpy type of any byte order, including the 4-bit types of ml_dtypes.

        Raises:
            TypeError: DirectML has no such type.
        """
        found = _BY_DTYPE.get(dtype) or _BY_DTYPE.get(dtype.newbyteorder("<")) or _PACKED.get(dtype.name)
        if found is None:
            known = ", ".join(sorted(str(known) for known in _BY_DTYPE))
            raise TypeError(f"numpy type {dtype} has no DirectML data type; supported: {known}")
        return found


_BY_DTYPE = {row.dtype: row for row in DataType if not row.is_packed}
_PACKED = {row.name.lower(): row for row in DataType if row.is_packed}

FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
INTEGERS_32 = (DataType.INT32, DataType.UINT32)
INTEGERS_64 = (DataType.INT64, DataType.UINT64)
INTEGERS_8 = (DataType.INT8, DataType.UINT8)
INTEGERS_TO_32 = (*INTEGERS_32, DataType.INT16, DataType.UINT16, *INTEGERS_8)
ALL_INTEGERS = (*INTEGERS_64, *INTEGERS_TO_32)


class TensorType(IntEnum):
    """``DML_TENSOR_TYPE``; a tensor desc describes a buffer."""

    BUFFER = 1


class TensorFlags(IntFlag):
    """``DML_TENSOR_FLAGS``. OWNED_BY_DML does not affect values and is allowed on inputs only."""

    NONE = 0
    OWNED_BY_DML = 1


@dataclass(frozen=True, slots=True)
class BufferTensorDesc:
    """``DML_BUFFER_TENSOR_DESC``: how the elements of a tensor are laid out in its buffer.

    Attributes:
        data_type: the data type of the elements.
        sizes: number of elements along each dimension, all at least 1.
        strides: step from one element to the next along each dimension, in elements; 0 broadcasts. None is contiguous
            row-major.
        total_size_in_bytes: size of the buffer. Defaults to ``minimum_size_in_bytes`` if 0.
        flags: see TensorFlags.
        guaranteed_base_offset_alignment: in bytes; 0 for none.
        element_count: number of logical elements; elements repeated by a stride of 0 count each time.
        extent: number of elements from the first to the last address, gaps included.
        data_size_in_bytes: size of the extent, without rounding up to DirectML's minimum.
    """

    data_type: DataType
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    total_size_in_bytes: int = 0
    flags: TensorFlags = TensorFlags.NONE
    guaranteed_base_offset_alignment: int = 0
    element_count: int = field(init=False, repr=False, compare=False)
    extent: int = field(init=False, repr=False, compare=False)
    data_size_in_bytes: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # All three are used too often to compute on each access.
        count = extent = prod(self.sizes)
        if self.strides is not None:
            extent = 1 + sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=True))
        object.__setattr__(self, "element_count", count)
        object.__setattr__(self, "extent", extent)
        object.__setattr__(self, "data_size_in_bytes", (extent * self.data_type.bits + 7) // 8)
        if not self.total_size_in_bytes:
            object.__setattr__(self, "total_size_in_bytes", self.minimum_size_in_bytes)

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def element_strides(self) -> tuple[int, ...]:
        """The strides, made explicit if the desc has none."""
        return packed_strides(self.sizes) if self.strides is None else self.strides

    @property
    def minimum_size_in_bytes(self) -> int:
        """The minimum implied size: ``data_size_in_bytes`` rounded up to a multiple of 4."""
        return rounded(self.data_size_in_bytes)

    @property
    def accepted_sizes_in_bytes(self) -> tuple[int, ...]:
        """The sizes that a buffer may be sent with: of the data, the rounded minimum, or the declared total."""
        return tuple(sorted({self.data_size_in_bytes, self.minimum_size_in_bytes, self.total_size_in_bytes}))

    def view(self, buffer: Any, offset: int = 0) -> Array:
        """Returns the tensor as an array of shape ``sizes`` over a buffer, without a copy.

        For the 4-bit types it is the UINT8 array of the ``data_size_in_bytes`` bytes: see ``elements``.

        Args:
            buffer: at least ``data_size_in_bytes`` bytes from ``offset``. The view is writable if the buffer is.
            offset: offset of the first element, in bytes.
        """
        if self.data_type.is_packed:
            return np.ndarray(self.data_size_in_bytes, np.uint8, buffer, offset)
        return self._strided(buffer, offset)

    def bytes_of(self, view: Array) -> Array:
        """Returns the ``data_size_in_bytes`` bytes behind a ``view``, gaps included, without a copy."""
        if self.data_type.is_packed:
            return view
        first = view[(slice(0, 1),) * view.ndim].reshape(-1)
        extent = np.lib.stride_tricks.as_strided(first, (self.extent,), (view.itemsize,), writeable=False)
        return extent.view(np.uint8)

    def elements(self, view: Array) -> Array:
        """Returns the logical elements of a ``view`` as an array of shape ``sizes``.

        Only the 4-bit types need a copy, of one byte per element of the extent.
        """
        if not self.data_type.is_packed:
            return view
        return self._strided(unpacked(view, self.extent, signed=self.data_type.is_signed))

    def put(self, elements: Array, view: Array) -> None:
        """Writes logical elements, an array of shape ``sizes``, to a ``view``, leaving gaps untouched."""
        if not self.data_type.is_packed:
            view[...] = elements
            return
        whole = unpacked(view, self.extent, signed=self.data_type.is_signed)
        self._strided(whole)[...] = elements
        pack(whole, view)

    def _strided(self, buffer: Any, offset: int = 0) -> Array:
        dtype = self.data_type.dtype
        if self.strides is None:
            return np.ndarray(self.sizes, dtype, buffer, offset)
        strides = tuple(
            0 if size == 1 else stride * dtype.itemsize for size, stride in zip(self.sizes, self.strides, strict=True)
        )
        return np.ndarray(self.sizes, dtype, buffer, offset, strides)

    def allocate(self) -> tuple[Array, Array]:
        """Returns a new buffer of ``data_size_in_bytes`` bytes (UINT8) and the tensor's view of it. Gaps are zero."""
        if self.data_type.is_packed:
            buffer = np.zeros(self.data_size_in_bytes, np.uint8)
            return buffer, buffer
        gaps = self.strides is not None and self.extent != self.element_count
        buffer = _memory(self.data_size_in_bytes, np.zeros if gaps else np.empty)
        return buffer, self.view(buffer)

    def lay_out(self, array: Array) -> tuple[Array, Array] | None:
        """Like ``allocate``, with the elements of an array of shape ``sizes`` written to the buffer.

        Returns:
            None if elements that share an address differ.
        """
        buffer, view = self.allocate()
        if self.data_type.is_packed:
            self.put(array, view)
            return (buffer, view) if np.array_equal(self.elements(view), array) else None
        # Dimensions broadcast on both sides need to be written and compared only once.
        once = tuple(
            slice(1) if stride == step == 0 else slice(None)
            for stride, step in zip(array.strides, self.element_strides, strict=True)
        )
        source, target = array[once].astype(view.dtype, copy=False), view[once]
        target[...] = source
        return (buffer, view) if target.tobytes() == source.tobytes() else None

    def addresses_are_unique(self) -> bool:
        """Returns whether no two elements share an address; False also if that would take too long to prove."""
        moving = [(size, step) for size, step in zip(self.sizes, self.element_strides, strict=True) if size > 1]
        return _addresses_are_unique(moving)

    def to_json(self) -> dict[str, object]:
        """Returns the desc as JSON, with the field names of directml.h and without fields that have their default."""
        fields: dict[str, object] = {"DataType": self.data_type.name, "Sizes": list(self.sizes)}
        if self.strides is not None:
            fields["Strides"] = list(self.strides)
        fields["TotalTensorSizeInBytes"] = self.total_size_in_bytes
        if self.flags:
            fields["Flags"] = self.flags.name
        if self.guaranteed_base_offset_alignment:
            fields["GuaranteedBaseOffsetAlignment"] = self.guaranteed_base_offset_alignment
        return fields

    @classmethod
    def packed(cls, array: Array) -> BufferTensorDesc:
        """Returns the desc of an array's values, contiguous in row-major order."""
        return cls(DataType.of(array.dtype), array.shape)


def _memory(size: int, make: Callable[..., Array]) -> Array:
    """Allocates bytes. Large buffers are aligned to cache lines, so that results are written a whole line at a time."""
    if size < _LARGE:
        return make(size, np.uint8)
    memory = make(size + _LINE - 1, np.uint8)
    start = -memory.ctypes.data % _LINE
    return memory[start : start + size]


def rounded(size: int) -> int:
    """Rounds a byte count up to a multiple of 4, as DirectML does for buffer sizes."""
    return (size + 3) & ~3


def packed_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Returns row-major strides: the innermost is 1, each outer one the product of the inner sizes."""
    strides = [1] * len(sizes)
    for i in range(len(sizes) - 1, 0, -1):
        strides[i - 1] = strides[i] * sizes[i]
    return tuple(strides)


_SEARCH_STEPS = 10_000


def _addresses_are_unique(moving: list[tuple[int, int]]) -> bool:
    # Two elements share an address iff some non-zero difference d, |d[i]| < size[i], has sum(d * stride) == 0. Starting
    # with the widest stride, the reach of the narrower ones bounds each d[i]; for real layouts only d == 0 remains.
    moving = sorted(moving, key=lambda dimension: -dimension[1])
    if any(step == 0 for _, step in moving):
        return False
    reach = [0] * (len(moving) + 1)
    for i in range(len(moving) - 1, -1, -1):
        reach[i] = reach[i + 1] + (moving[i][0] - 1) * moving[i][1]
    if prod(size for size, _ in moving) > reach[0] + 1:
        return False
    divisors = [gcd(*(step for _, step in moving[i:])) for i in range(len(moving))]
    pending = [(0, 0, False)]
    for _ in range(_SEARCH_STEPS):
        if not pending:
            return True
        depth, rest, moved = pending.pop()
        if depth == len(moving):
            if moved and rest == 0:
                return False
            continue
        if rest % divisors[depth]:
            continue
        size, step = moving[depth]
        # d and -d are equivalent, so the first non-zero difference may be taken as positive.
        lowest = max(-((reach[depth + 1] + rest) // step), 1 - size if moved else 0)
        highest = min((reach[depth + 1] - rest) // step, size - 1)
        if highest - lowest > _SEARCH_STEPS:
            return False
        pending.extend((depth + 1, rest + d * step, moved or d != 0) for d in range(lowest, highest + 1))
    return False
