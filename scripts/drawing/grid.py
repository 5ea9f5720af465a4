"""Draws a tensor as a grid of its elements: matrices side by side, with the indices of rows and columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from opwire.tensor import Array, BufferTensorDesc

WIDTH, HEIGHT = 44, 26
TICKS = 18
_HEAD = 36
_BETWEEN = 26
_CHARACTER = 7.3


@dataclass(frozen=True)
class Grid:
    """A tensor in a picture.

    Attributes:
        name: name of the tensor.
        desc: its desc.
        array: its elements.
        margins: padding before and after the rows, and before and after the columns.
    """

    name: str
    desc: BufferTensorDesc
    array: Array
    margins: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def rows(self) -> int:
        return self.array.shape[-2] if self.array.ndim > 1 else 1

    @property
    def columns(self) -> int:
        return self.array.shape[-1] if self.array.ndim else 1

    @property
    def matrices(self) -> list[tuple[int, ...]]:
        """The indices of the matrices, without their rows and columns."""
        return list(np.ndindex(self.array.shape[:-2]))

    @property
    def _across(self) -> int:
        """The width of a matrix with its padding and the indices of its rows."""
        return TICKS + WIDTH * (self.columns + self.margins[2] + self.margins[3])

    @property
    def width(self) -> float:
        inner = len(self.matrices) * (self._across + _BETWEEN) - _BETWEEN
        return max(inner, _CHARACTER * max(len(self.name), len(self.about)))

    @property
    def height(self) -> int:
        return self._top + HEIGHT * (self.rows + self.margins[0] + self.margins[1])

    @property
    def is_legible(self) -> bool:
        """Whether each element fits into its cell."""
        return all(len(shown(value)) * _CHARACTER <= WIDTH for value in self.array.flat)

    @property
    def _top(self) -> int:
        return _HEAD + TICKS * (2 if len(self.matrices) > 1 else 1)

    @property
    def about(self) -> str:
        """The data type, the sizes, and which axes are drawn in which direction."""
        rank = self.array.ndim
        down = f"axis {rank - 2} ↓ " if self.rows > 1 else ""
        right = f"axis {rank - 1} →" if self.columns > 1 else ""
        return f"{self.desc.data_type.name} {list(self.desc.sizes)} {down}{right}".strip()

    def corner(self, at: tuple[int, ...]) -> tuple[float, float]:
        """Returns the upper left corner of an element."""
        row, column = (at[-2], at[-1]) if len(at) > 1 else (0, at[-1])
        x = self.matrices.index(at[:-2]) * (self._across + _BETWEEN) + TICKS + WIDTH * (column + self.margins[2])
        return x, self._top + HEIGHT * (row + self.margins[0])

    def draw(self, classes: Callable[[tuple[int, ...]], str]) -> Iterator[str]:
        """Yields the elements of the picture.

        Args:
            classes: returns the classes of an element, by its indices.
        """
        yield f'<text class="n" y="12">{escape(self.name)}</text><text class="q" y="28">{escape(self.about)}</text>'
        for matrix in self.matrices:
            yield from self._ticks(matrix)
            yield from self._padding(matrix)
        for at in np.ndindex(self.array.shape):
            x, y = self.corner(at)
            yield _cell(f"c {classes(at)}".strip(), x, y)
        for at in np.ndindex(self.array.shape):
            x, y = self.corner(at)
            yield f'<text class="v" x="{x + WIDTH / 2:g}" y="{y + HEIGHT / 2 + 4:g}">{shown(self.array[at])}</text>'

    def _ticks(self, matrix: tuple[int, ...]) -> Iterator[str]:
        x, y = self.corner((*matrix, 0, 0) if self.array.ndim > 1 else (0,))
        if len(self.matrices) > 1:
            where = f"[{', '.join(map(str, matrix))}]"
            yield f'<text class="q" x="{x - WIDTH * self.margins[2]:g}" y="{self._top - 22:g}">{where}</text>'
        if self.columns > 1:
            for i in range(self.columns):
                yield f'<text class="t" x="{x + WIDTH * (i + 0.5):g}" y="{self._top - 5:g}">{i}</text>'
        if self.rows > 1:
            left = x - WIDTH * self.margins[2] - 9
            for i in range(self.rows):
                yield f'<text class="t" x="{left:g}" y="{y + HEIGHT * (i + 0.5) + 4:g}">{i}</text>'

    def _padding(self, matrix: tuple[int, ...]) -> Iterator[str]:
        top, bottom, left, right = self.margins
        x, y = self.corner((*matrix, 0, 0) if self.array.ndim > 1 else (0,))
        for row in range(-top, self.rows + bottom):
            for column in range(-left, self.columns + right):
                if not (0 <= row < self.rows and 0 <= column < self.columns):
                    yield _cell("p", x + WIDTH * column, y + HEIGHT * row)


def _cell(classes: str, x: float, y: float) -> str:
    return f'<rect class="{classes}" x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}"/>'


def shown(value: Any) -> str:
    """Returns an element in few characters."""
    number = float(value)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    if number == int(number) and abs(number) < 1e5:
        return str(int(number))
    return f"{number:.3g}"
