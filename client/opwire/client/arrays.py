"""Converts the tensors that callers pass to the numpy arrays that a request is written from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from ..desc import data_type_name, show
from ..jsontensor import NumberError, read_numbers
from ..tensor import Array, BufferTensorDesc, DataType, packed_strides


class SupportsArray(Protocol):
    """An object that converts to a numpy array: a numpy array, a PyTorch tensor on the CPU, ..."""

    def __array__(self) -> Array: ...


class SupportsDLPack(Protocol):
    """An object that exports its memory through DLPack."""

    def __dlpack__(self) -> Any: ...

    def __dlpack_device__(self) -> Any: ...


class Symbolic:
    """A tensor whose elements are not known yet.

    Attributes:
        desc: its desc.
        stand_in: a placeholder array with its data type and sizes; the elements mean nothing.
    """

    desc: BufferTensorDesc
    stand_in: Array


class Strided:
    """A tensor that keeps the strides of its ``array``: see ``strided``."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.array, dtype, copy=copy)

    def __repr__(self) -> str:
        array = self.array
        return f"<Strided {array.dtype} {list(array.shape)} with strides {_strides(array)}>"


def strided(array: ArrayLike) -> Strided:
    """Returns a tensor that keeps the strides of an array; the methods send other arrays contiguous, without strides.

    >>> client.gemm(strided(weights.T), x)
    >>> client.add(x, strided(np.broadcast_to(bias, x.shape)))

    Args:
        array: an array whose strides are multiples of its element size and not negative. A stride of 0 repeats
            elements, which are sent once.

    Raises:
        TypeError: it is not an array, or DirectML lacks its data type.
        ValueError: a tensor desc cannot have its strides.
    """
    made = as_array(array, "array")
    if isinstance(array, Symbolic):
        raise TypeError(f"{array!r} has its strides already")
    moving = _moving(made)
    if min(moving, default=0) < 0:
        raise ValueError(f"array has the strides {list(made.strides)} in bytes; DirectML's are not negative")
    if any(step % made.itemsize for step in moving):
        raise ValueError(f"array has the strides {list(made.strides)} in bytes; DirectML counts whole elements")
    return Strided(made)


class LaidOut(np.ndarray[Any, Any]):
    """An array whose strides are those of its desc."""


def laid_out(array: Array) -> Array:
    """Returns a view of an array that keeps its strides."""
    return array.view(LaidOut)


def layout_of(array: Array) -> BufferTensorDesc | None:
    """Returns the desc of an array that keeps its strides, or None for one that is sent contiguous."""
    if not isinstance(array, LaidOut):
        return None
    strides = _strides(array)
    contiguous = strides == packed_strides(array.shape)
    return None if contiguous else BufferTensorDesc(DataType.of(array.dtype), array.shape, strides)


def is_single(array: Array) -> bool:
    """Returns whether an array that keeps its strides has a single element in memory, which is finite."""
    if not isinstance(array, LaidOut) or array.size == 0 or any(_moving(array)):
        return False
    return bool(np.isfinite(array.reshape(-1)[0]))


def _moving(array: Array) -> list[int]:
    """Returns the strides in bytes of the dimensions with several elements."""
    return [step for size, step in zip(array.shape, array.strides, strict=True) if size > 1]


def _strides(array: Array) -> tuple[int, ...]:
    """Returns the strides in elements; those of dimensions of size 1, which do not matter, as if contiguous."""
    packed = packed_strides(array.shape)
    given = zip(array.shape, array.strides, packed, strict=True)
    return tuple(step // array.itemsize if size > 1 else plain for size, step, plain in given)


ArrayLike = SupportsArray | SupportsDLPack
"""A tensor with a data type. Lists have none: [1, 2] could be FLOAT32 as well as INT64."""

TensorLike = ArrayLike | bytes | bytearray | memoryview | list[Any]
"""A tensor whose desc is given: an array, the bytes of the whole buffer, or a nested or flat list of numbers."""


DTypeLike = np.dtype[Any] | type[np.generic]
"""A data type of numpy: ``np.float32``, or the ``dtype`` of an array."""


def with_type_names(value: Any) -> Any:
    """Returns a desc, or a graph with descs, with the names of its data types, which may be those of NumPy."""
    if isinstance(value, Mapping):
        return {name: with_type_names(member) for name, member in value.items()}
    if isinstance(value, list | tuple) and value and isinstance(value[0], Mapping | list | tuple):
        return [with_type_names(item) for item in value]
    return data_type_name(value)


def is_number(value: object) -> bool:
    """Returns whether a value is a number of Python or NumPy."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def number_of(value: float, data_type: DataType) -> float | None:
    """Returns a number as one of a data type, or None if it has no such value; only floats are rounded to it."""
    if data_type.is_float:
        return float(value)
    least, greatest = data_type.limits
    return int(value) if least <= value <= greatest and value == int(value) else None


def as_array(value: Any, name: str) -> Array:
    """Converts a value to an array without changing its data type.

    Args:
        value: an ArrayLike, with any memory layout and byte order.
        name: the name to use in messages.

    Raises:
        TypeError: it is not an array, or DirectML lacks its data type.
    """
    if isinstance(value, Symbolic):
        return value.stand_in
    if isinstance(value, Strided):
        return laid_out(value.array)
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array, but tensors have no masked elements; fill them with .filled()")
    if isinstance(value, np.ndarray):
        array: Array = value
    elif hasattr(value, "__array__"):
        array = np.asarray(value)
    elif hasattr(value, "__dlpack__"):
        array = np.from_dlpack(value)
    else:
        raise TypeError(
            f"{name} is of type {type(value).__name__}, not an array; its data type must be known: "
            "use numpy.array(..., dtype=...)"
        )
    if array.dtype == np.bool_:
        raise TypeError(
            f"{name} is an array of bool, which DirectML does not have; .view('uint8') turns it into 0 and 1"
        )
    try:
        DataType.of(array.dtype)
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None
    return array


def as_array_or_bytes(value: object, name: str) -> Array:
    """Like ``as_array``, but bytes become an array of UINT8."""
    return (
        np.frombuffer(value, np.uint8) if isinstance(value, bytes | bytearray | memoryview) else as_array(value, name)
    )


def fit(value: object, desc: BufferTensorDesc, name: str) -> Array:
    """Returns the logical elements of a tensor, given in any form that its desc allows.

    Args:
        value: an array of shape ``desc.sizes`` (INT8 for INT4, UINT8 for UINT4); the whole buffer in one dimension, as
            ``desc.extent`` elements, as UINT8 or as bytes; or lists of numbers. An array that could be either the
            tensor or its buffer is taken as the tensor.
        desc: the desc of the tensor.
        name: the name to use in messages.

    Returns:
        An array of shape ``desc.sizes``, a view of ``value`` where possible.

    Raises:
        TypeError: the data type does not match the desc.
        ValueError: the shape or the numbers do not match the desc.
    """
    if isinstance(value, Symbolic):
        return _fit_symbolic(value, desc, name)
    if isinstance(value, list):
        try:
            return desc.elements(read_numbers(value, desc, ""))
        except NumberError as error:
            raise ValueError(f"{name}{error.violation.pointer}: {error.violation.message}") from None
    array = as_array_or_bytes(value, name)
    if desc.data_type.is_packed:
        return _fit_packed(array, desc, name)
    same_type = DataType.of(array.dtype) is desc.data_type
    if same_type and array.shape == desc.sizes:
        return array
    is_buffer = array.dtype == np.uint8 and array.ndim == 1 and array.size in desc.accepted_sizes_in_bytes
    if is_buffer or (same_type and array.shape == (desc.extent,)):
        return desc.view(np.ascontiguousarray(array, array.dtype.newbyteorder("<")))
    given = f"{name} is an array of {array.dtype} with shape {show(list(array.shape))}"
    if not same_type and (array.dtype != np.uint8 or array.ndim != 1):
        hint = f".astype({desc.data_type.dtype.name!r}) converts it"
        raise TypeError(f"{given}, but its desc says {desc.data_type.name}; {hint}")
    raise ValueError(
        f"{given}; its desc takes {desc.data_type.name} with shape {list(desc.sizes)}, or the whole buffer in one "
        f"dimension: {desc.extent} elements, or {' or '.join(map(str, desc.accepted_sizes_in_bytes))} bytes"
    )


def _fit_symbolic(tensor: Symbolic, desc: BufferTensorDesc, name: str) -> Array:
    """Like ``fit``, for tensors without elements, which cannot be converted."""
    given = tensor.desc
    if (given.data_type, given.sizes) == (desc.data_type, desc.sizes):
        return tensor.stand_in
    raise (ValueError if given.data_type is desc.data_type else TypeError)(
        f"{name} is {tensor!r}, but its desc says {desc.data_type.name} {list(desc.sizes)}"
    )


def _fit_packed(array: Array, desc: BufferTensorDesc, name: str) -> Array:
    """Like ``fit``, for the 4-bit types."""
    data_type, given = desc.data_type, f"{name} is an array of {array.dtype} with shape {show(list(array.shape))}"
    if DataType.of(array.dtype) in (data_type, DataType.of(data_type.dtype)) and array.shape == desc.sizes:
        elements = array.astype(data_type.dtype, copy=False)
        least, greatest = data_type.limits
        if elements.size and not least <= int(elements.min()) <= int(elements.max()) <= greatest:
            raise ValueError(f"{name} has elements outside {least} to {greatest}, the range of {data_type.name}")
        return elements
    if array.dtype == np.uint8 and array.ndim == 1 and array.size in desc.accepted_sizes_in_bytes:
        return desc.elements(desc.view(np.ascontiguousarray(array)))
    sizes = " or ".join(map(str, desc.accepted_sizes_in_bytes))
    message = (
        f"{given}; its desc takes {data_type.name} as {data_type.dtype} with shape {list(desc.sizes)}, or the "
        f"whole buffer, {sizes} bytes, as one-dimensional uint8"
    )
    raise ValueError(message) if array.dtype in (np.uint8, data_type.dtype) else TypeError(message)
