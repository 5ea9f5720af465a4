"""The padding of a dimension as runs of input elements, forward or backward, possibly repeated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from opwire.enums import PaddingMode


class PaddingPart(NamedTuple):
    """A run of the padding.

    Attributes:
        target: start of the run, relative to the first element of the input.
        size: number of elements.
        source: input element that comes first.
        step: step between source elements: 1, -1 for backward, or 0 to repeat one element.
        repeats: number of repetitions of the run.
        period: distance between repetitions.
    """

    target: int
    size: int
    source: int
    step: int
    repeats: int = 1
    period: int = 0


def parts_of(mode: PaddingMode, size: int, begin: int, length: int) -> Iterator[PaddingPart]:
    """Yields the runs for ``length`` positions from ``begin``, before or after the ``size`` elements of a dimension."""
    if mode == PaddingMode.EDGE or size == 1:
        if length:
            yield PaddingPart(begin, length, 0 if begin < 0 else size - 1, 0)
        return
    period, pieces = _period(mode, size)
    end = begin + length
    for start, count, source, step in pieces:
        # The first occurrence at or after ``begin``; one period earlier it may be cut off.
        first = begin + (start - begin) % period
        yield from _cut(PaddingPart(first - period, count, source, step), begin, end)
        whole = max(0, (end - first - count) // period + 1) if end - first >= count else 0
        if whole:
            yield PaddingPart(first, count, source, step, whole, period)
        yield from _cut(PaddingPart(first + whole * period, count, source, step), begin, end)


def _period(mode: PaddingMode, size: int) -> tuple[int, list[tuple[int, int, int, int]]]:
    """Returns the period of a mode, and its pieces as ``(start, size, first element, step)``.

    The elements themselves start at 0.
    """
    if mode == PaddingMode.WRAP:
        return size, [(0, size, 0, 1)]
    if mode == PaddingMode.SYMMETRIC:
        return 2 * size, [(0, size, 0, 1), (size, size, size - 1, -1)]
    return 2 * size - 2, [(0, size - 1, 0, 1), (size - 1, size - 1, size - 1, -1)]


def _cut(part: PaddingPart, begin: int, end: int) -> Iterator[PaddingPart]:
    """Yields the part of a run between two positions, if any."""
    first, last = max(part.target, begin), min(part.target + part.size, end)
    if first < last:
        source = part.source + part.step * (first - part.target)
        yield PaddingPart(first, last - first, source, part.step)
