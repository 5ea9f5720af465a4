"""From the tensors that callers pass to the numpy arrays that a request is written from."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ..desc import show
from ..jsontensor import NumberError, read_numbers
from ..tensor import Array, BufferTensorDesc, DataType


class SupportsArray(Protocol):
    """Whatever converts itself to a numpy array: arrays of numpy, tensors of torch on the CPU, ..."""

    def __array__(self) -> Array: ...


class SupportsDLPack(Protocol):
    """Whatever offers its memory through DLPack."""

    def __dlpack__(self) -> Any: ...

    def __dlpack_device__(self) -> Any: ...


ArrayLike = SupportsArray | SupportsDLPack
"""A tensor whose data type is known. Lists are not: whether [1, 2] is FLOAT32 or INT64 is for the caller to say."""

TensorLike = ArrayLike | bytes | bytearray | memoryview | list[Any]
"""A tensor for a given desc: an array, the bytes of the whole buffer, or nested or flat lists of numbers."""


def as_array(value: Any, name: str) -> Array:
    """The array that a value is, without a change of its data type.

    Args:
        value: an ArrayLike, in any layout and byte order.
        name: what a message calls it.

    Raises:
        TypeError: it is no array, or its elements have no DirectML data type.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array, and a tensor has no masked elements; fill them with .filled()")
    if isinstance(value, np.ndarray):
        array: Array = value
    elif hasattr(value, "__array__"):
        array = np.asarray(value)
    elif hasattr(value, "__dlpack__"):
        array = np.from_dlpack(value)
    else:
        raise TypeError(
            f"{name} is of type {type(value).__name__}, not an array: its data type must be known; "
            "numpy.array(..., dtype=...) makes one"
        )
    if array.dtype == np.bool_:
        raise TypeError(
            f"{name} is an array of bool, which DirectML does not have; .view('uint8') makes it one of 0 and 1"
        )
    try:
        DataType.of(array.dtype)
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None
    return array


def as_array_or_bytes(value: object, name: str) -> Array:
    """Like ``as_array``; bytes become an array of UINT8."""
    return (
        np.frombuffer(value, np.uint8) if isinstance(value, bytes | bytearray | memoryview) else as_array(value, name)
    )


def fit(value: object, desc: BufferTensorDesc, name: str) -> Array:
    """The logical elements of a tensor given in any form that its desc allows.

    Args:
        value: an array of shape ``desc.sizes``, of INT8 for INT4 and of UINT8 for UINT4; the whole buffer in one
            dimension, as ``desc.extent`` elements, as UINT8 or as bytes; or lists of numbers. Where an array could be
            both, it is the tensor.
        desc: of the tensor.
        name: what a message calls it.

    Returns:
        An array of shape ``desc.sizes``, a view of what was given where it can be.

    Raises:
        TypeError: the data types differ.
        ValueError: the shape or the numbers are not those of the tensor.
    """
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
    given = f"{name} is an array of {array.dtype} with the shape {show(list(array.shape))}"
    if not same_type and (array.dtype != np.uint8 or array.ndim != 1):
        hint = f".astype({desc.data_type.dtype.name!r}) converts it"
        raise TypeError(f"{given}, and its desc says {desc.data_type.name}; {hint}")
    raise ValueError(
        f"{given}; its desc takes {desc.data_type.name} with the shape {list(desc.sizes)}, or the whole buffer in one "
        f"dimension: {desc.extent} elements, or {' or '.join(map(str, desc.accepted_sizes_in_bytes))} bytes"
    )


def _fit_packed(array: Array, desc: BufferTensorDesc, name: str) -> Array:
    """Like ``fit``, of a 4-bit type."""
    data_type, given = desc.data_type, f"{name} is an array of {array.dtype} with the shape {show(list(array.shape))}"
    if DataType.of(array.dtype) in (data_type, DataType.of(data_type.dtype)) and array.shape == desc.sizes:
        elements = array.astype(data_type.dtype, copy=False)
        least, greatest = data_type.limits
        if elements.size and not least <= int(elements.min()) <= int(elements.max()) <= greatest:
            raise ValueError(f"{name} has elements outside of {least} to {greatest}, the range of {data_type.name}")
        return elements
    if array.dtype == np.uint8 and array.ndim == 1 and array.size in desc.accepted_sizes_in_bytes:
        return desc.elements(desc.view(np.ascontiguousarray(array)))
    sizes = " or ".join(map(str, desc.accepted_sizes_in_bytes))
    message = (
        f"{given}; its desc takes {data_type.name} as {data_type.dtype} with the shape {list(desc.sizes)}, or the "
        f"whole buffer, {sizes} bytes, as uint8 in one dimension"
    )
    raise ValueError(message) if array.dtype in (np.uint8, data_type.dtype) else TypeError(message)
