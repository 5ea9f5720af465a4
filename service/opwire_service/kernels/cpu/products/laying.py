"""Where a tile of a convolution finds the columns that its filters are multiplied by: unfolded, or in planes."""

from __future__ import annotations

from array import array
from math import gcd, prod
from typing import NamedTuple

from opwire.tensor import Array

from ..numbers.vectors import WIDTH
from .lines import MOST_DEPTH, MOST_LAID, MOST_LINES
from .multiplying import TALL
from .operands import padded, steps
from .window import IMAGES, MOVE, PLACES, SPATIAL, TAPS, TURN

UNFOLDED, LAID = 4, 3
"""What it takes to copy an element, in parts of what it takes to multiply it by ``TALL`` filters."""

LEAST_LINES = 4
"""Lines of the output below which too much of what is laid out is laid out again for the next ones."""


MOST_PRODUCTS = 1 << 23
"""Of some lines, between two questions whether to stop."""


class Planes(NamedTuple):
    """The input of a tile as ``LAY`` lays it out.

    Attributes:
        kinds, extents: of each spatial dimension the planes, and the elements of one.
        blocks: images and positions of the first dimension, each of whose sums begin with a panel of their own.
        height, length: positions of the other dimensions.
    """

    kinds: tuple[int, ...]
    extents: tuple[int, ...]
    blocks: tuple[int, int]
    height: int
    length: int

    @classmethod
    def of(cls, window: array[int]) -> Planes:
        kinds, extents = [], []
        for i in range(SPATIAL):
            taps, move, turn = window[TAPS + i], window[MOVE + i], abs(window[TURN + i])
            kinds.append(min(taps, move // gcd(turn, move)))
            extents.append(window[PLACES + i] + (taps - 1) * turn // move)
        first, height, length = window[PLACES : PLACES + SPATIAL]
        return cls(tuple(kinds), tuple(extents), (window[IMAGES], first), height, length)

    @property
    def channel(self) -> int:
        """Numbers of all images of a channel."""
        return self.blocks[0] * self._image

    @property
    def _image(self) -> int:
        return prod(self.kinds) * prod(self.extents)

    @property
    def block(self) -> int:
        """Sums of a block; between those of two lines are some that have no meaning."""
        return padded((self.height - 1) * self.extents[2] + self.length)

    @property
    def pitch(self) -> int:
        """Sums of a row."""
        return prod(self.blocks) * self.block

    def starts(self) -> Array:
        """Where the panels begin."""
        images, firsts = self.blocks
        further, panels = self.extents[1] * self.extents[2], self.block // WIDTH
        blocks = steps(self._image, images)[:, None] + steps(further, firsts)
        return (blocks[..., None] + steps(WIDTH, panels)).reshape(-1)

    def is_better(self, columns: int, rows: int, taps: int) -> bool:
        """Whether it takes less time to multiply what lies in planes than to unfold so many columns before."""
        several = -(-rows // TALL)
        unfolding = padded(columns) * several + UNFOLDED * columns
        return self.pitch * several + LAID * self.channel / taps < unfolding


def lines_at_once(window: array[int], channels: int, filters: int) -> int:
    """Lines of the output that ``LINES`` takes at a time, in shares as equal as can be; 0 if it should not."""
    whole = Planes.of(_of_lines(window, window[PLACES + 1]))
    depth, height = channels * prod(window[TAPS : TAPS + SPATIAL]), window[PLACES + 1]
    line = channels * prod(whole.kinds) * whole.extents[0] * whole.extents[2]
    most = min(MOST_LINES, MOST_LAID // line - (whole.extents[1] - height), height)
    most = min(most, MOST_PRODUCTS // (filters * depth * whole.length))
    if depth > MOST_DEPTH or whole.extents[2] > 2 * whole.length or most < min(height, LEAST_LINES):
        return 0
    return -(-height // -(-height // most))


def planes_of_lines(window: array[int], lines: int) -> Planes:
    """Those of a unit of ``LINES``."""
    return Planes.of(_of_lines(window, lines))


def _of_lines(window: array[int], lines: int) -> array[int]:
    part = array("q", window)
    part[PLACES], part[PLACES + 1], part[IMAGES] = 1, lines, 1
    return part
