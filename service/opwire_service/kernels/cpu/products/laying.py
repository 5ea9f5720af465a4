"""Where a tile of a convolution finds the columns that its filters are multiplied by: unfolded, or in planes."""

from __future__ import annotations

from array import array
from math import gcd, prod
from typing import NamedTuple

from ..numbers.vectors import WIDTH
from .multiplying import TALL
from .operands import padded
from .window import IMAGES, MOVE, PLACES, SPATIAL, TAPS, TURN

UNFOLDED, LAID = 4, 3
"""What it takes to copy an element, in parts of what it takes to multiply it by ``TALL`` filters."""


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

    def starts(self) -> array[int]:
        """Where the panels begin."""
        images, firsts = self.blocks
        further = self.extents[1] * self.extents[2]
        return array("q", (
            image * self._image + first * further + place
            for image in range(images) for first in range(firsts) for place in range(0, self.block, WIDTH)
        ))  # fmt: skip

    def is_better(self, columns: int, rows: int, taps: int) -> bool:
        """Whether it takes less time to multiply what lies in planes than to unfold so many columns before."""
        several = -(-rows // TALL)
        unfolding = padded(columns) * several + UNFOLDED * columns
        return self.pitch * several + LAID * self.channel / taps < unfolding
