"""Errors in ULP: units in the last place of the exact result."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensor import Array

_BITS: dict[int, np.dtype[Any]] = {size: np.dtype(f"i{size}") for size in (2, 4, 8)}


def ulp(actual: Any, exact: Any) -> Array:
    """Returns the distance of each element from the exact one, in units in the last place (ULP).

    For floats, it is the number of steps between neighbouring numbers of the type: 0 is correctly rounded if ``exact``
    is. Zeros of either sign are equal, and infinity is one step beyond the largest number. NaN is 0 from NaN, and
    infinitely far from numbers. For integers and booleans it is the absolute difference.

    Args:
        actual: an array.
        exact: an array of the same data type, which it is broadcast to.

    Returns:
        The distances as float64, of the broadcast shape.

    Raises:
        TypeError: the data types differ, or are neither floats, integers nor booleans.
        ValueError: the shapes cannot be broadcast.
    """
    one, other = np.asarray(actual), np.asarray(exact)
    if one.dtype != other.dtype:
        raise TypeError(f"actual is {one.dtype} and exact is {other.dtype}; both need the same data type")
    one, other = np.broadcast_arrays(one, other)
    if one.dtype.kind in "iub":
        wide = object if one.dtype.itemsize == 8 else np.float64  # float64 has all integers up to 2**53
        distances: Array = np.abs(one.astype(wide) - other.astype(wide)).astype(np.float64)
        return distances
    if one.dtype.kind != "f" or one.dtype.itemsize not in _BITS:
        raise TypeError(f"{one.dtype} given; ULP are of floats and integers")
    return _steps(np.ascontiguousarray(one), np.ascontiguousarray(other))


def _steps(one: Array, other: Array) -> Array:
    distances = np.abs(_ordered(one).astype(np.float64) - _ordered(other).astype(np.float64))
    if one.dtype.itemsize == 8:  # beyond the integers that float64 has
        distances = np.abs(_ordered(one).astype(object) - _ordered(other).astype(object)).astype(np.float64)
    nan, other_nan = np.isnan(one), np.isnan(other)
    distances[nan != other_nan] = np.inf
    distances[nan & other_nan] = 0
    return distances


def _ordered(array: Array) -> Array:
    """Returns integers in the order of floats, with consecutive ones for neighbouring floats and 0 for both zeros."""
    kind = _BITS[array.dtype.itemsize]
    bits = array.view(kind)
    return np.where(bits < 0, kind.type(-(2 ** (8 * kind.itemsize - 1))) - bits, bits)


def assert_close_ulp(actual: Any, exact: Any, *, ulp: float = 1, name: str = "actual") -> None:
    """Asserts that every element is within some ULP of the exact one; for tests of a backend.

    Args:
        actual: the array of the backend.
        exact: the exact array, for instance of ``opwire.local()``.
        ulp: the largest distance that is allowed.
        name: what to call the array in the message.

    Raises:
        AssertionError: shapes or data types differ, or an element is further away; the message names the worst ones.
    """
    one, other = np.asarray(actual), np.asarray(exact)
    if one.shape != other.shape or one.dtype != other.dtype:
        raise AssertionError(f"{name} is {one.dtype}{list(one.shape)}, and exact is {other.dtype}{list(other.shape)}")
    distances = _distances(one, other)
    far = int(np.count_nonzero(distances > ulp))
    if far:
        raise AssertionError(
            "\n".join(
                [f"{far} of {one.size} elements of {name} are more than {ulp} ULP off:", *_worst(one, other, distances)]
            )
        )


_distances = ulp

_SHOWN = 5


def _worst(actual: Array, exact: Array, distances: Array) -> list[str]:
    order = np.argsort(-distances, axis=None, kind="stable")[:_SHOWN]
    lines = []
    for flat in order:
        at = np.unravel_index(flat, distances.shape)
        where = f"[{', '.join(str(int(each)) for each in at)}]"
        lines.append(f"  {where}: {actual[at]!r} instead of {exact[at]!r}, {distances[at]:.6g} ULP")
    return lines
