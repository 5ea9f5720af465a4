"""Tensors as JSON numbers: nested or flat lists, with the strings "NaN", "Infinity" and "-Infinity".

The numbers are the logical elements in row-major order; strides only determine where they go in the buffer.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from .desc import pointer_to, show
from .operator import Code, Violation
from .tensor import Array, BufferTensorDesc, DataType

SPECIAL = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}


FEW = 1 << 14
"""Maximum number of elements that are read at once: other threads wait until that is done."""


class NumberError(Exception):
    """The numbers do not match the tensor; ``violation`` says where and why."""

    def __init__(self, code: Code, pointer: str, message: str) -> None:
        super().__init__(message)
        self.violation = Violation(code, pointer, message)


def read_numbers(value: object, desc: BufferTensorDesc, pointer: str) -> Array:
    """Returns the tensor given as lists of numbers, in the form of ``desc.view``.

    Floats are read as float64 and rounded once; integers must be in the range of the data type.

    Raises:
        NumberError: the shape of the lists is wrong, or an element is not a number of the data type.
    """
    flat = isinstance(value, list) and list not in map(type, value)
    sizes = (desc.element_count,) if flat else desc.sizes
    items = _flattened(value, sizes) if desc.element_count <= FEW else []
    items = items or list(_elements(value, sizes, pointer))

    def fail(index: int, why: str) -> NumberError:
        place = () if not sizes else np.unravel_index(index, sizes)
        at = pointer_to(pointer, *(int(i) for i in place))
        return NumberError(Code.INVALID_NUMBER, at, f"{show(items[index])} given; {why}")

    array = _floats(items, desc.data_type, fail) if desc.data_type.is_float else _integers(items, desc.data_type, fail)
    return _lay_out(array.reshape(desc.sizes), desc, pointer)


def _flattened(value: object, sizes: tuple[int, ...]) -> list[Any]:
    """Returns the elements of lists of these sizes, or none if they have others."""
    found: list[Any] = [value]
    for size in sizes:
        if any(type(each) is not list or len(each) != size for each in found):
            return []
        found = list(chain.from_iterable(found))
    return found


def _elements(value: object, sizes: tuple[int, ...], pointer: str) -> Iterator[object]:
    """Yields the elements of lists, or says where their sizes are wrong."""
    if not sizes:
        yield value
        return
    if not isinstance(value, list) or len(value) != sizes[0]:
        given = f"{len(value)} elements" if isinstance(value, list) else show(value)
        raise NumberError(Code.SHAPE_MISMATCH, pointer, f"{given} given; expected a list of {sizes[0]}")
    if len(sizes) == 1:
        yield from value
        return
    for i, item in enumerate(value):
        yield from _elements(item, sizes[1:], pointer_to(pointer, i))


def _floats(items: list[Any], data_type: DataType, fail: Any) -> Array:
    found = _few_floats(items, data_type)
    if found is not None:
        return found
    values = np.empty(len(items), np.float64)
    for i, item in enumerate(items):
        number = SPECIAL.get(item) if isinstance(item, str) else item
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise fail(i, f"allowed are numbers, {', '.join(map(show, SPECIAL))}")
        try:
            values[i] = number
        except OverflowError:
            raise fail(i, f"it is out of the range of {data_type.name}") from None
    with np.errstate(over="ignore"):
        array = values.astype(data_type.dtype)
    overflowed = np.flatnonzero(np.isinf(array) & np.isfinite(values))
    if overflowed.size:
        raise fail(int(overflowed[0]), f"it is out of the range of {data_type.name}")
    return array


def _few_floats(items: list[Any], data_type: DataType) -> Array | None:
    """Returns few elements that are all numbers in the range of a type, or NaN, as they almost always are, or None."""
    if len(items) > FEW:
        return None
    types = {*map(type, items)}
    if str in types:
        items = [SPECIAL.get(item, item) if type(item) is str else item for item in items]
        types = {*map(type, items)}
    if not types <= {int, float}:
        return None
    most = _GREATEST[data_type]
    if not (-most <= min(items) and max(items) <= most):  # also if the first is NaN, which hides others
        return None
    return np.array(items, np.float64).astype(data_type.dtype)


_GREATEST = {each: float(np.finfo(each.dtype).max) for each in DataType if each.is_float}


def _integers(items: list[Any], data_type: DataType, fail: Any) -> Array:
    least, greatest = data_type.limits
    for i, item in enumerate(items):
        if isinstance(item, bool) or not isinstance(item, int) or not least <= item <= greatest:
            raise fail(i, f"{data_type.name} takes integers from {least} to {greatest}")
    return np.array(items, data_type.dtype)


def _lay_out(array: Array, desc: BufferTensorDesc, pointer: str) -> Array:
    if desc.strides is None and not desc.data_type.is_packed:
        return array
    laid_out = desc.lay_out(array)
    if laid_out is None:
        message = "the strides map several elements to one address, but their numbers differ"
        raise NumberError(Code.OVERLAP_CONFLICT, pointer, message)
    return laid_out[1]


def write_numbers(array: Array) -> Any:
    """Converts an array to nested lists of numbers; NaN and the infinities become strings."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return _named(array.tolist())
    return array.tolist()


def _named(value: Any) -> Any:
    if isinstance(value, list):
        return [_named(item) for item in value]
    if np.isfinite(value):
        return value
    return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
