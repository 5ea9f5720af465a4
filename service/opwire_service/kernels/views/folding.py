"""The padding of a dimension as parts of its elements, forwards or backwards, once or again and again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from opwire.enums import PaddingMode


class PaddingPart(NamedTuple):
    """A part of the padding.

    Attributes:
        target: where it begins; the first element of the input is at 0.
        size: elements.
        source: the element of the input that is its first.
        step: from there to the next: 1, backwards -1, or 0 for the same again.
        repeats: how many such parts there are.
        period: from one to the next.
    """

    target: int
    size: int
    source: int
    step: int
    repeats: int = 1
    period: int = 0


def parts_of(mode: PaddingMode, size: int, begin: int, length: int) -> Iterator[PaddingPart]:
    """What stands from ``begin`` on in ``length`` places before or after the ``size`` elements of a dimension."""
    if mode == PaddingMode.EDGE or size == 1:
        if length:
            yield PaddingPart(begin, length, 0 if begin < 0 else size - 1, 0)
        return
    period, pieces = _period(mode, size)
    end = begin + length
    for start, count, source, step in pieces:
        # Where the piece begins for the first time after the beginning, and where it would once before.
        first = begin + (start - begin) % period
        yield from _cut(PaddingPart(first - period, count, source, step), begin, end)
        whole = max(0, (end - first - count) // period + 1) if end - first >= count else 0
        if whole:
            yield PaddingPart(first, count, source, step, whole, period)
        yield from _cut(PaddingPart(first + whole * period, count, source, step), begin, end)


def _period(mode: PaddingMode, size: int) -> tuple[int, list[tuple[int, int, int, int]]]:
    """After how many places all begins again; and of its pieces the beginning, the size, the first element, the step.

    The elements themselves begin at 0.
    """
    if mode == PaddingMode.WRAP:
        return size, [(0, size, 0, 1)]
    if mode == PaddingMode.SYMMETRIC:
        return 2 * size, [(0, size, 0, 1), (size, size, size - 1, -1)]
    return 2 * size - 2, [(0, size - 1, 0, 1), (size - 1, size - 1, size - 1, -1)]


def _cut(part: PaddingPart, begin: int, end: int) -> Iterator[PaddingPart]:
    """What of a part lies between two ends."""
    first, last = max(part.target, begin), min(part.target + part.size, end)
    if first < last:
        source = part.source + part.step * (first - part.target)
        yield PaddingPart(first, last - first, source, part.step)
