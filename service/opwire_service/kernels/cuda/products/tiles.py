"""How products are cut into tiles: what the kernels are told about one, and the memory that it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import NamedTuple

import numpy as np

from opwire.tensor import Array

SPATIAL = 3

TILE_SIDE = 4096
"""Rows and columns of a tile, if the other side is as long."""

LONGEST_SIDE = 1 << 14

MOST_SUMS = 1 << 24
"""Sums of a tile, at most: 128 MiB."""

MOST_COPIED = 1 << 24
"""Elements of the operands of a tile that are copied at a time, at most: 128 MiB."""

DEPTH = 2048
"""Products that are summed at a time where there are many sums: the bound on the error grows with it."""

FEW_SUMS = 1 << 20
"""Of a tile, below which more products are summed at a time."""

MOST_SETTLED = 1 << 20
"""Products of an exact sum that one launch adds up, at most."""

KEPT = 4096
"""Exact sums of more products that are added up side by side."""

LIMBS = 33
"""Numbers of 64 bits that hold an exact sum between two launches."""

WORTH_TURNING = 1 << 29
"""Products of a tile from which on operands are copied with the depth side by side, for what is summed again."""

MOST_TURNED = 1 << 27
"""Bytes of such copies, at most."""

WIDEST = 4
"""Bytes of an element of an operand, at most."""

MOST_SLICES = 1 << 17
"""Of the depth, each with its own sums of squares, of all lines of an operand together, if these are fewer."""

THINNEST = 8
"""Products of a slice, at least."""

ALIGNMENT = 256

STEPS = np.dtype([(name, "<i8") for name in ("outer", "inner", "line", "along")])
_EACH = (SPATIAL,)
WINDOW = np.dtype(
    [
        *((name, "<i8") for name in ("channel", "image")),
        *((name, "<i8", _EACH) for name in ("space", "base", "move", "turn")),
        ("weight_channel", "<i8"),
        ("weight", "<i8", _EACH),
        ("target_image", "<i8"),
        ("target", "<i8", _EACH),
        *((name, "<u4", _EACH) for name in ("size", "taps", "places")),
        ("is_plain", "<u4"),
    ]
)
TENSORS: tuple[str, ...] = ("left", "right", "addend", "target")
PARAMETERS = ("left_zero", "right_zero", "left_scale", "right_scale", "scale", "zero")
PARAMETER = np.dtype([("at", "<u8"), ("inner", "<i8"), ("line", "<i8")])
COPIES = ("left_copy", "right_copy", "sums", "row_bounds", "column_bounds", "open")
OPTIONAL = ("limbs", "left_turned", "right_turned")
TASK = np.dtype(
    [
        *((name, "<u8") for name in (*TENSORS, *COPIES, *OPTIONAL)),
        *((name, STEPS) for name in ("left_steps", "right_steps", "addend_steps", "target_steps")),
        *((name, PARAMETER) for name in PARAMETERS),
        *((name, "<f8") for name in ("alpha", "beta", "error", "part")),
        *((name, "<u4") for name in ("matrices", "rows", "columns", "depth", "matrix", "inner", "first", "count")),
        *((name, "<u4") for name in ("left_pitch", "right_pitch", "share", "column", "begin", "length")),
        *((name, "<u4") for name in ("row_slices", "column_slices")),
        ("window", WINDOW),
        *((f"{name}_is_copied", "<u4") for name in TENSORS[:2]),
    ]
)
"""``Task`` of ``operands.cu``, and whether operands are read from copies."""


class Strides(NamedTuple):
    """Steps in elements: between matrices, which lie in two dimensions, between lines, and along a line."""

    outer: int
    inner: int
    line: int
    along: int

    @property
    def is_along(self) -> bool:
        """Whether neighbours of a line are closer than lines, so that they are copied side by side."""
        return abs(self.along) <= abs(self.line)


NOWHERE = Strides(0, 0, 0, 0)


class LineParameter(NamedTuple):
    """Numbers of which there is one, or one for each line.

    Attributes:
        of_rows: whether lines are rows, not columns.
        item_bytes: of a number.
        inner, line: steps in elements, between matrices and between lines.
    """

    of_rows: bool
    item_bytes: int
    inner: int
    line: int


@dataclass(frozen=True, slots=True)
class BatchedProduct:
    """Products of matrices of one size.

    Attributes:
        outer, inner: how many there are, in two dimensions.
        rows, columns, depth: of each.
        left, right, addend, target: how rows and the depth, columns and the depth, and twice rows and columns lie. In a
            window the right one is what the window sees.
        begin: of the left operand and of the target, in elements.
        window: a record, or None.
        alpha, beta: of the sum and of the addend.
        parameters: of integers, by the names of ``PARAMETERS``.
    """

    outer: int
    inner: int
    rows: int
    columns: int
    depth: int
    left: Strides
    right: Strides
    addend: Strides
    target: Strides
    begin: tuple[int, int] = (0, 0)
    window: Array | None = None
    alpha: float = 1.0
    beta: float = 1.0
    parameters: Mapping[str, LineParameter] = field(default_factory=dict)

    @property
    def matrices(self) -> int:
        return self.outer * self.inner

    @property
    def scale(self) -> float:
        """What becomes of the error of a sum."""
        return abs(self.alpha) if isfinite(self.alpha) else 1.0

    def error(self, depth: int) -> float:
        """The error of alpha times a sum, so many products at a time, in parts of the product of the norms.

        However a library orders the additions, no product takes part in more of them than there are products in a
        piece, and then in one for each piece; each loses at most 2**-53 of a sum of magnitudes. Some steps more than
        there are stand for what follows and for the rounding of the bound itself.
        """
        steps = min(depth, self.depth) + -(-self.depth // max(1, depth))
        return self.scale * _error(steps)

    def part(self, depth: int) -> float:
        """The part of that error which is left beside the last rounding where sums are corrected by what they lose.

        What corrections lose is a square of a rounding for each product, far less than this, but for the rounding of
        products where operands are integers.
        """
        steps = 2 if self.parameters else 2.0**-18
        return steps * 2.0**-53 * self.scale / (self.error(depth) or 1.0)


def _error(steps: int) -> float:
    return (steps * (1 + 2.0**-18) + 16) * 2.0**-53


class ProductTile(NamedTuple):
    """Some matrices, rows and columns: where they begin, and how many there are."""

    matrix: int
    row: int
    column: int
    matrices: int
    rows: int
    columns: int

    @property
    def sums(self) -> int:
        return self.matrices * self.rows * self.columns


class ProductTiling(NamedTuple):
    """Products cut into tiles of at most so many matrices, rows and columns, and of so many products at a time."""

    matrices: int
    rows: int
    columns: int
    depth: int

    @classmethod
    def of(cls, products: BatchedProduct, *, is_direct: bool = False) -> ProductTiling:
        """A tiling whose tiles are as large as their memory may be; direct sums need no copies."""
        rows, columns, depth = products.rows, products.columns, max(2, products.depth)
        height = min(rows, max(TILE_SIDE, min(LONGEST_SIDE, MOST_SUMS // columns)))
        width = min(columns, max(1, MOST_SUMS // height))
        if not is_direct:  # all of a shallow depth is copied at once
            width = min(width, max(TILE_SIDE, MOST_COPIED // min(depth, DEPTH) - height))
        height, width = _evenly(rows, height), _evenly(columns, width)
        side = MOST_COPIED // (height + width)
        count = min(depth, side, DEPTH if height * width >= FEW_SUMS else side)
        several = 1
        if height == rows and width == columns:
            several = min(products.matrices, MOST_SUMS // (rows * columns))
            if not is_direct:
                several = min(several, side // count)
        return cls(max(1, several), height, width, max(1, count))

    def tiles(self, products: BatchedProduct) -> Iterator[ProductTile]:
        for matrix in range(0, products.matrices, self.matrices):
            matrices = min(self.matrices, products.matrices - matrix)
            for row in range(0, products.rows, self.rows):
                rows = min(self.rows, products.rows - row)
                for column in range(0, products.columns, self.columns):
                    columns = min(self.columns, products.columns - column)
                    yield ProductTile(matrix, row, column, matrices, rows, columns)


def _evenly(length: int, most: int) -> int:
    """The length of parts of at most so many elements, as few and as equal as can be but for some at the end."""
    parts = -(-length // most)
    return length if parts == 1 else min(most, -(-length // parts // 128) * 128)


def even(count: int) -> int:
    """Of neighbours in a copy: libraries like two doubles at a time."""
    return count + count % 2


class Scratch(NamedTuple):
    """Where a tile keeps what, in bytes from the beginning of its memory, and how long all of it is.

    What is optional is 0 if there is none.
    """

    left_copy: int
    right_copy: int
    open: int
    sums: int
    row_bounds: int
    column_bounds: int
    limbs: int
    left_turned: int
    right_turned: int
    size: int

    @classmethod
    def of(cls, products: BatchedProduct, tiling: ProductTiling, *, is_direct: bool) -> Scratch:
        """That of the largest tile; direct sums need no copies."""
        lines = tiling.matrices * tiling.rows, tiling.matrices * tiling.columns
        sums = tiling.matrices * tiling.rows * tiling.columns
        copies, turned = [0, 0], [0, 0]
        if not is_direct:
            copies = [
                _aligned(8 * tiling.matrices * even(count) * even(tiling.depth))
                for count in (tiling.rows, tiling.columns)
            ]
            turned = _turned(products, lines, sums)
        listed = _aligned(8 + (4 if is_direct else 8) * sums)
        begins = [0, copies[0], 0]  # sums are listed when copies are no longer needed
        end = max(sum(copies), listed)
        squares = [8 * max(count, min(MOST_SLICES, count * most_slices(products.depth))) for count in lines]
        for part in (0, 0, 0) if is_direct else (8 * sums, *squares):
            begins.append(end)
            end += _aligned(part)
        kept = 8 * LIMBS * min(KEPT, sums) if products.depth > MOST_SETTLED else 0
        for part in (kept, *turned):
            begins.append(end if part else 0)
            end += _aligned(part)
        begins.append(end)
        return cls(*begins)

    def fill(self, task: Array) -> None:
        """Tells a task where everything is."""
        for name, offset in zip(self._fields[:-1], self, strict=False):
            task[name] = offset


def _turned(products: BatchedProduct, lines: tuple[int, int], sums: int) -> list[int]:
    """The bytes of copies of the operands whose lines lie across the depth, as far as they may have some."""
    if products.window is not None or products.depth * sums < WORTH_TURNING:
        return [0, 0]
    needed = [0, 0]
    for side, steps in enumerate((products.left, products.right)):
        size = WIDEST * lines[side] * products.depth
        if not steps.is_along and sum(needed) + size <= MOST_TURNED:
            needed[side] = size
    return needed


def most_slices(depth: int) -> int:
    """Into which the depth of a line may be cut."""
    return -(-depth // THINNEST)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
