"""Sums by the rules of IEEE arithmetic but without rounding, and the elements of windows, found one by one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from opwire.tensor import Array

Coordinate = tuple[int, ...]

Number = Fraction | float
"""A fraction, or a float if infinite or NaN."""


def number_of(value: Any) -> Number:
    given = float(value)
    return Fraction(given) if math.isfinite(given) else given


def total(terms: Iterable[tuple[Any, Fraction]]) -> Number:
    """Returns the sum of values times weights other than 0."""
    finite, special = Fraction(0), 0.0
    for value, weight in terms:
        number = number_of(value)
        if isinstance(number, float):
            special += number if weight > 0 else -number
        else:
            finite += number * weight
    return special or finite


def elements_of(attributes: Any, sizes: Sequence[int], window: Coordinate) -> Iterator[Coordinate]:
    """Yields the spatial coordinates of a window's elements without padding, in row-major order."""
    dilations = getattr(attributes, "Dilations", [1] * len(window))
    for offsets in itertools.product(*map(range, attributes.WindowSize)):
        place = tuple(
            at * stride - start + offset * dilation
            for at, stride, start, offset, dilation in zip(
                window, attributes.Strides, attributes.StartPadding, offsets, dilations, strict=True
            )
        )
        if all(0 <= at < size for at, size in zip(place, sizes, strict=True)):
            yield place


def every(shape: Sequence[int]) -> Iterator[Coordinate]:
    return itertools.product(*map(range, shape))


def numbers(shape: Sequence[int], number: Callable[[Coordinate], Any]) -> Array:
    """Returns an array of objects computed from their coordinates."""
    result = np.empty(shape, object)
    for place in every(shape):
        result[place] = number(place)
    return result


def of_sums(shape: Sequence[int], sums: Mapping[Coordinate, Sequence[tuple[Any, Fraction]]]) -> Array:
    """Returns an array of objects, each the sum of the terms at its coordinate."""
    return numbers(shape, lambda place: total(sums.get(place, ())))
