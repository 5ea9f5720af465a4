"""Tiles of products: their partition, their description for the kernels, and their memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import NamedTuple

from opwire.tensor import Array

from ..structures import structure

SPATIAL = 3

TILE_SIDE = 4096
"""Rows and columns of a tile, if both sides are that long."""

LONGEST_SIDE = 1 << 14

MOST_SUMS = 1 << 24
"""Maximum number of sums of a tile: 128 MiB."""

MOST_COPIED = 1 << 24
"""Maximum number of operand elements copied at once for a tile: 128 MiB."""

DEPTH = 2048
"""Products summed per piece if a tile has many sums; the error bound grows with it."""

FEW_SUMS = 1 << 20
"""Number of sums of a tile below which pieces are longer."""

MOST_SETTLED = 1 << 20
"""Maximum number of products of an exact sum that one launch adds up."""

KEPT = 4096
"""Number of longer exact sums that are accumulated side by side."""

LIMBS = 33
"""64-bit words that hold an exact sum between two launches."""

WORTH_TURNING = 1 << 29
"""Products of a tile from which on operands are also copied contiguous along the depth, for recomputed sums."""

MOST_TURNED = 1 << 27
"""Maximum size of such copies, in bytes."""

MOST_ITEM_BYTES = 4
"""Maximum size of an operand's element, in bytes."""

MOST_SLICES = 1 << 17
"""Maximum total of depth slices, each with a sum of squares, over an operand's lines; each line may have one anyway."""

THINNEST = 8
"""Minimum number of products of a slice."""

ALIGNMENT = 256


WINDOW = structure("Window", "products/operands")
TENSORS: tuple[str, ...] = ("left", "right", "addend", "target")
PARAMETERS = ("left_zero", "right_zero", "left_scale", "right_scale", "scale", "zero")

COPIES = ("left_copy", "right_copy", "sums", "row_bounds", "column_bounds", "undecided")
OPTIONAL = ("limbs", "left_turned", "right_turned")
TASK = structure("Task", "products/operands")


class Strides(NamedTuple):
    """Element steps: between matrices in two dimensions, between lines, and along a line."""

    outer: int
    inner: int
    line: int
    along: int

    @property
    def is_along(self) -> bool:
        """Whether elements of a line are closer than lines, so that they are copied side by side."""
        return abs(self.along) <= abs(self.line)


NOWHERE = Strides(0, 0, 0, 0)


class LineParameter(NamedTuple):
    """A parameter with one number, or one for each line.

    Attributes:
        of_rows: whether lines are rows rather than columns.
        item_bytes: bytes per number.
        inner, line: element steps between matrices and between lines.
    """

    of_rows: bool
    item_bytes: int
    inner: int
    line: int


@dataclass(frozen=True, slots=True)
class BatchedProduct:
    """Products of matrices of equal size.

    Attributes:
        outer, inner: number of matrices, in two dimensions.
        rows, columns, depth: sizes of each product.
        left, right, addend, target: steps of the left operand (rows, depth), of the right one (columns, depth), and of
            addend and target (rows, columns). With a window, the right operand consists of the elements under it.
        begin: offsets of the left operand and of the target, in elements.
        window: a record, or None.
        alpha, beta: factors of the sum and of the addend.
        parameters: parameters of integers, by the names of ``PARAMETERS``.
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
        """The factor applied to the error of a sum."""
        return abs(self.alpha) if isfinite(self.alpha) else 1.0

    def error(self, depth: int) -> float:
        """Returns the error of alpha times a sum in pieces of ``depth`` products, relative to the product of the norms.

        However a library orders the additions, no product takes part in more of them than there are products in a
        piece, plus one for each piece; each addition loses at most 2**-53 of a sum of magnitudes. A few extra steps
        cover later operations and the rounding of the bound itself.
        """
        steps = min(depth, self.depth) + -(-self.depth // max(1, depth))
        return self.scale * _error(steps)

    def part(self, depth: int) -> float:
        """Returns the fraction of that error that remains, besides the final rounding, in compensated sums.

        Compensation itself loses the square of a rounding per product, far less than this; for integer operands, the
        rounding of the products comes on top.
        """
        steps = 2 if self.parameters else 2.0**-18
        return steps * 2.0**-53 * self.scale / (self.error(depth) or 1.0)


def _error(steps: int) -> float:
    return (steps * (1 + 2.0**-18) + 16) * 2.0**-53


class ProductTile(NamedTuple):
    """A range of matrices, rows and columns: their starts and their counts."""

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
    """The partition of products into tiles of limited matrices, rows and columns, and of the depth into pieces."""

    matrices: int
    rows: int
    columns: int
    depth: int

    @classmethod
    def of(cls, products: BatchedProduct, *, is_direct: bool = False) -> ProductTiling:
        """Returns the tiling with the largest tiles that memory allows; direct sums need no copies."""
        rows, columns, depth = products.rows, products.columns, max(2, products.depth)
        height = min(rows, max(TILE_SIDE, min(LONGEST_SIDE, MOST_SUMS // columns)))
        width = min(columns, max(1, MOST_SUMS // height))
        if not is_direct:  # a shallow depth is copied all at once
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
    """Returns the length of the fewest, roughly equal parts of at most ``most`` elements; the last may be shorter."""
    parts = -(-length // most)
    return length if parts == 1 else min(most, -(-length // parts // 128) * 128)


def even(count: int) -> int:
    """Rounds up to an even number, as libraries prefer aligned pairs of doubles."""
    return count + count % 2


class Scratch(NamedTuple):
    """The layout of a tile's scratch memory, as byte offsets, and its total size.

    The offset of an absent optional part is 0.
    """

    left_copy: int
    right_copy: int
    undecided: int
    sums: int
    row_bounds: int
    column_bounds: int
    limbs: int
    left_turned: int
    right_turned: int
    size: int

    @classmethod
    def of(cls, products: BatchedProduct, tiling: ProductTiling, *, is_direct: bool) -> Scratch:
        """Returns the layout for the largest tile; direct sums need no copies."""
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
        begins = [0, copies[0], 0]  # the list of sums reuses the memory of the copies
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
        """Sets the offsets in a task."""
        for name, offset in zip(self._fields[:-1], self, strict=False):
            task[name] = offset


def _turned(products: BatchedProduct, lines: tuple[int, int], sums: int) -> list[int]:
    """Returns the bytes of the copies along the depth for each operand whose lines run across it, within the limit."""
    if products.window is not None or products.depth * sums < WORTH_TURNING:
        return [0, 0]
    needed = [0, 0]
    for side, steps in enumerate((products.left, products.right)):
        size = MOST_ITEM_BYTES * lines[side] * products.depth
        if not steps.is_along and sum(needed) + size <= MOST_TURNED:
            needed[side] = size
    return needed


def most_slices(depth: int) -> int:
    """Returns the maximum number of slices for the depth of a line."""
    return -(-depth // THINNEST)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
