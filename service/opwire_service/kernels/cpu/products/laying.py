"""Chooses how a convolution tile's right operand is stored: as unfolded columns or as planes of the input."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import gcd, prod

import numpy as np

from opwire.tensor import Array

from ..numbers.vectors import WIDTH
from .lines import MOST_DEPTH, MOST_LAID, MOST_LINES
from .multiplying import TALL
from .operands import padded, steps
from .window import IMAGES, MOVE, PLACES, SPATIAL, TAPS, TURN

UNFOLDED, LAID, COLLECTED = 4, 3, 0.25
"""Costs of copying an element to columns, to planes, and of a run to a panel, relative to ``TALL`` products."""

LEAST_LINES = 4
"""Minimum number of output lines in a unit; with fewer, too much input would be laid out again for the next unit."""


MOST_PRODUCTS = 1 << 23
"""Maximum number of products of a unit's lines between two polls of ``stop``."""


@dataclass(frozen=True)
class InputPlanes:
    """The input of a tile as ``LAY`` lays it out.

    Attributes:
        kinds, extents: number of planes, and elements of one, along each spatial dimension.
        blocks: images, and positions of the first dimension; the sums of each begin with a panel of their own.
        height, length: positions of the other dimensions.
    """

    kinds: tuple[int, ...]
    extents: tuple[int, ...]
    blocks: tuple[int, int]
    height: int
    length: int

    @classmethod
    def of(cls, window: array[int]) -> InputPlanes:
        taps, moves, turns, places = (tuple(window[slot : slot + SPATIAL]) for slot in (TAPS, MOVE, TURN, PLACES))
        return _planes(taps, moves, turns, places, window[IMAGES])

    @cached_property
    def channel(self) -> int:
        """Numbers in all images of a channel."""
        return self.blocks[0] * self._image

    @property
    def _image(self) -> int:
        return prod(self.kinds) * prod(self.extents)

    @property
    def block(self) -> int:
        """Sums in a block, including meaningless ones at its end."""
        return padded(self.height * self.length)

    @cached_property
    def pitch(self) -> int:
        """Sums in a row."""
        return prod(self.blocks) * self.block

    @property
    def gap(self) -> int:
        """Numbers between the last position of a line and the first one of the next."""
        return self.extents[2] - self.length

    @property
    def run(self) -> int:
        """Positions of a block whose numbers are contiguous."""
        return self.length if self.gap else self.height * self.length

    @cached_property
    def reach(self) -> int:
        """Numbers from the first of a panel to the last one read for it."""
        return WIDTH + self._breaks * self.gap

    @cached_property
    def _breaks(self) -> int:
        """Maximum number of runs that end within a panel."""
        return -(-(WIDTH - 1) // self.run)

    @cached_property
    def panels(self) -> tuple[Array, Array]:
        """Starts of the panels, and for each the number of positions of its first run that precede it."""
        images, firsts = self.blocks
        blocks = steps(self._image, images)[:, None] + steps(self.extents[1] * self.extents[2], firsts)
        runs, passed = np.divmod(steps(WIDTH, self.block // WIDTH), self.run)
        starts = blocks[..., None] + runs * (self.run + self.gap) + passed
        return starts.reshape(-1), np.tile(passed, prod(self.blocks))

    def is_better(self, columns: int, rows: int, taps: int) -> bool:
        """Whether multiplying planes in place is faster than unfolding this many columns first."""
        several = -(-rows // TALL)
        unfolding = padded(columns) * several + UNFOLDED * columns
        collecting = COLLECTED * self.pitch * (1 + self._breaks)
        return self.pitch * several + collecting + LAID * self.channel / taps < unfolding


@lru_cache(32)
def _planes(
    taps: tuple[int, ...], moves: tuple[int, ...], turns: tuple[int, ...], places: tuple[int, ...], images: int
) -> InputPlanes:
    kinds, extents = [], []
    for tap, move, turn, place in zip(taps, moves, turns, places, strict=True):
        kinds.append(min(tap, move // gcd(turn, move)))
        extents.append(place + (tap - 1) * abs(turn) // move)
    first, height, length = places
    return InputPlanes(tuple(kinds), tuple(extents), (images, first), height, length)


def lines_at_once(window: array[int], channels: int, filters: int) -> int:
    """Returns the number of lines that ``LINES`` computes at once, in about equal shares; 0 if it does not pay off."""
    whole = InputPlanes.of(_of_lines(window, window[PLACES + 1]))
    depth, height = channels * prod(window[TAPS : TAPS + SPATIAL]), window[PLACES + 1]
    line = channels * prod(whole.kinds) * whole.extents[0] * whole.extents[2]
    most = min(MOST_LINES, MOST_LAID // line - (whole.extents[1] - height), height)
    most = min(most, MOST_PRODUCTS // (filters * depth * whole.length))
    if depth > MOST_DEPTH or whole.extents[2] > 2 * whole.length or most < min(height, LEAST_LINES):
        return 0
    return -(-height // -(-height // most))


def planes_of_lines(window: array[int], lines: int) -> InputPlanes:
    """Returns the planes of a unit of ``LINES``."""
    return InputPlanes.of(_of_lines(window, lines))


def _of_lines(window: array[int], lines: int) -> array[int]:
    part = array("q", window)
    part[PLACES], part[PLACES + 1], part[IMAGES] = 1, lines, 1
    return part
