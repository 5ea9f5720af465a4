"""The launches of products: tiles are copied, multiplied and certified; undecided sums are summed again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from opwire.fields.member import NestedOperator
from opwire.tensor import Array, DataType

from ..job import TYPES, Matrices, MatrixProduct, Program
from ..structures import constant
from .activation import activated_source
from .batches import Batch, Recording
from .tiles import (
    KEPT,
    MOST_SETTLED,
    MOST_SLICES,
    NOWHERE,
    TASK,
    TENSORS,
    BatchedProduct,
    ProductTile,
    ProductTiling,
    Scratch,
    Strides,
    even,
    most_slices,
)

ROUNDED, ACTIVATED, UNROUNDED, EXACT = range(4)
"""What happens to sums."""

SOURCES = ("rounding", *(f"products/{name}" for name in ("operands", "copies", "certify", "settle")))

WARP, LANES = (constant(name, "products/operands") for name in ("WARP", "LANES"))
COPY_LINES, UNFOLD_THREADS, BOUND_LINES, BOUND_SLICES, ACROSS, ACROSS_ROWS, DEEP = (
    constant(name, "products/copies")
    for name in ("COPY_LINES", "UNFOLD_THREADS", "BOUND_LINES", "BOUND_SLICES", "ACROSS", "ACROSS_ROWS", "DEEP")
)
CERTIFY_THREADS = constant("CERTIFY_THREADS", "products/certify")
AGAIN_SUMS = constant("AGAIN_WARPS", "products/settle")
AGAIN_THREADS, SETTLE_THREADS = AGAIN_SUMS * WARP, constant("SETTLE_WARPS", "products/settle") * WARP

SETTLED_AT_ONCE = 1 << 33
"""Maximum number of products that one launch sums exactly: some ms."""

MOST_TIMES = 4
"""Factor by which later launches may cover more sums, as they mostly find nothing to do."""

CACHED_ELEMENTS = 1 << 23
"""Operand elements per piece when sums are recomputed, so that they stay in the GPU's cache."""

MOST_PIECES, WORTH_NEARNESS = 16, 256
"""Maximum number of such pieces, and the minimum rows and columns of a tile for operands to be shared enough."""

STRIPE = 16
"""Maximum number of sums per certifying thread."""

LEAST_SLICE = 512
"""Minimum number of elements of a line that a warp copies."""

LEAST_DEPTH = 1024
"""A sum of fewer products takes as long as one of this many."""

COMPUTED_AT_ONCE = 1 << 33
"""Maximum number of products that one launch sums directly."""

BLOCKS = 16
"""Blocks per multiprocessor, for kernels whose blocks loop over several pieces."""


def float_program(
    data_type: DataType, *, has_window: bool, finish: int, activation: NestedOperator | None = None
) -> Program:
    """Returns the kernels of float products, given how they finish and their activation, if any."""
    kind = TYPES[data_type]
    types = (("LEFT", kind), ("RIGHT", kind), ("ADDEND", kind), ("OUTPUT", "f64" if finish == UNROUNDED else kind))
    macros = (*types, ("WINDOW", int(has_window)), ("FINISH", finish), ("HAS_ZEROS", 0), ("HAS_SCALES", 0))
    return Program(("scalars", "floats", *SOURCES), macros, activated_source(activation))


def integer_program(types: Mapping[str, DataType], *, has_window: bool, is_quantized: bool) -> Program:
    """Returns the kernels of byte products, given the types of ``left``, ``right`` and ``target``."""
    macros = (("WINDOW", int(has_window)), ("FINISH", EXACT), ("HAS_ZEROS", 1), ("HAS_SCALES", 0))
    sources = ("scalars", *(f"products/{name}" for name in ("operands", "copies", "requantize")))
    return Program(sources, (*_typed(types, "i32"), *macros, ("QUANTIZED", int(is_quantized))))


def scaled_program(types: Mapping[str, DataType]) -> Program:
    """Returns the kernels of integer products scaled to floats."""
    kind = TYPES[types["target"]]
    scales = ("LEFT_SCALE", TYPES[types["left_scale"]]), ("RIGHT_SCALE", TYPES[types["right_scale"]])
    macros = (*scales, ("WINDOW", 0), ("FINISH", ROUNDED), ("HAS_ZEROS", 1), ("HAS_SCALES", 1))
    return Program(("scalars", "floats", *SOURCES), (*_typed(types, kind), *macros), activated_source(None))


def _typed(types: Mapping[str, DataType], addend: str) -> tuple[tuple[str, str], ...]:
    names = {"LEFT": "left", "RIGHT": "right", "OUTPUT": "target"}
    return *((macro, TYPES[types[name]]) for macro, name in names.items()), ("ADDEND", addend)


class Launching:
    """The launches shared by all products of a plan.

    Args:
        program: the program of the kernels.
        item_bytes: bytes per element of ``left``, ``right``, ``addend`` and ``target``.
        processors: number of multiprocessors.
        has_window: whether the right operands are the elements under windows.
    """

    def __init__(self, program: Program, item_bytes: Mapping[str, int], processors: int, *, has_window: bool) -> None:
        self.program = program
        self._item_bytes = item_bytes
        self._processors = processors
        self._has_window = has_window

    def multiplied(self, products: BatchedProduct, tiling: ProductTiling) -> Iterator[Batch]:
        """Yields the launches of each tile of some products."""
        scratch = Scratch.of(products, tiling, is_direct=False)
        for tile in tiling.tiles(products):
            record = Recording(self._task(products, tile, scratch))
            record.task["error"] = products.error(tiling.depth)
            for first in range(0, products.depth, tiling.depth):
                self._add(record, products, tile, first, tiling.depth)
                yield from record.batches()
            self._begin_certifying(record, tile)
            self._certify("certify", record, tile, min(STRIPE, max(1, tile.sums >> 16)))
            self._read_turned(record.task, products, tile)
            record.task["part"] = products.part(tiling.depth) if products.depth <= MOST_SETTLED else 0
            yield from self._settled(record, products, tile, self._near(products, tile))

    def computed(self, products: BatchedProduct, tiling: ProductTiling) -> Iterator[Batch]:
        """Like ``multiplied`` for small products of a window, where each sum is computed by one thread."""
        scratch = Scratch.of(products, tiling, is_direct=True)
        for tile in tiling.tiles(products):
            record = Recording(self._task(products, tile, scratch))
            # The sum of magnitudes is itself rounded.
            record.task["error"] = products.error(products.depth + 1) * 1.01
            record.task["matrices"] = 0  # no bounds needed
            self._begin_certifying(record, tile._replace(matrices=0))
            record.task["matrices"] = tile.matrices
            several = min(COMPUTED_AT_ONCE // max(1, products.depth), 1 << 28)
            self._certify("convolve", record, tile, 1, several)
            yield from self._settled(record, products, tile, 0)

    def exact(self, products: BatchedProduct, tiling: ProductTiling) -> Iterator[Batch]:
        """Like ``multiplied`` for integers, whose sums are exact in float64."""
        scratch = Scratch.of(products, tiling, is_direct=False)
        for tile in tiling.tiles(products):
            record = Recording(self._task(products, tile, scratch))
            for first in range(0, products.depth, tiling.depth):
                self._add(record, products, tile, first, tiling.depth)
                yield from record.batches()
            record.task["count"] = tile.sums
            record.launch("requantize", (-(-tile.sums // CERTIFY_THREADS), 1), (CERTIFY_THREADS, 1))
            yield from record.batches(last=True)

    def _task(self, products: BatchedProduct, tile: ProductTile, scratch: Scratch) -> Array:
        task = np.zeros((), TASK)
        left, right, addend, target = products.left, products.right, products.addend, products.target
        offsets = {
            "left": products.begin[0] + tile.row * left.line,
            "right": 0 if self._has_window else tile.column * right.line,
            "addend": tile.row * addend.line + tile.column * addend.along,
            "target": products.begin[1] + tile.row * target.line + tile.column * target.along,
        }
        for name, steps in zip(TENSORS, (left, right, addend, target), strict=True):
            task[name] = self._item_bytes[name] * offsets[name] % 2**64
            task[f"{name}_steps"] = steps
        task["alpha"], task["beta"] = products.alpha, products.beta
        task["matrices"], task["rows"], task["columns"] = tile.matrices, tile.rows, tile.columns
        task["depth"], task["matrix"], task["inner"] = products.depth, tile.matrix, products.inner
        if products.window is not None:
            task["window"], task["column"] = products.window, tile.column
        for name, row in products.parameters.items():
            line = tile.row if row.of_rows else tile.column * (not self._has_window)
            task[name] = (row.item_bytes * line * row.line % 2**64, row.inner, row.line)
        scratch.fill(task)
        return task

    def _certify(self, entry: str, record: Recording, tile: ProductTile, share: int, several: int = 1 << 31) -> None:
        """Launches a kernel whose threads each handle ``share`` sums of a row, or of a window's column.

        Args:
            several: maximum number of sums per launch.
        """
        width = min(CERTIFY_THREADS, _power_above(tile.columns))
        height = CERTIFY_THREADS // width
        if self._has_window:
            share = min(share, tile.rows)
            chunks, groups = -(-tile.columns // width), -(-tile.rows // share)
        else:
            chunks, groups = -(-tile.columns // (width * share)), tile.rows
            share = -(-tile.columns // (width * chunks))
        record.task["share"] = share
        blocks = chunks * -(-tile.matrices * groups // height)
        at_once = max(1, several // (CERTIFY_THREADS * share))
        for first in range(0, blocks, at_once):
            record.task["first"] = first
            block = width, height
            record.launch(entry, (min(at_once, blocks - first), 1), block, is_short=entry == "certify")

    def _near(self, products: BatchedProduct, tile: ProductTile) -> int:
        """Returns how many products of a sum to add per pass when it is recomputed."""
        depth, wide = products.depth, max(tile.rows, tile.columns)
        near = max(LEAST_DEPTH, CACHED_ELEMENTS // wide // LANES * LANES)
        is_shared = depth <= MOST_PIECES * near and min(tile.rows, tile.columns) >= WORTH_NEARNESS
        return near if is_shared else max(1, depth)

    def _begin_certifying(self, record: Recording, tile: ProductTile) -> None:
        blocks = sum(-(-tile.matrices * lines // BOUND_LINES) for lines in (tile.rows, tile.columns))
        record.launch("begin_certifying", (max(1, blocks), 1), (BOUND_LINES, BOUND_SLICES))

    def _add(self, record: Recording, products: BatchedProduct, tile: ProductTile, first: int, most: int) -> None:
        """Copies a piece of the depth of both operands, and adds their products to the sums.

        Args:
            first, most: start and maximum length of the piece.
        """
        count, most = min(most, products.depth - first), min(most, products.depth)
        record.task["first"], record.task["count"] = first, count
        left = self._copied("left", products.left, tile.rows, most, record)
        right_steps = NOWHERE._replace(along=1) if self._has_window else products.right
        right = self._copied("right", right_steps, tile.columns, most, record)
        sums = Matrices(int(record.task["sums"]), tile.rows * tile.columns, tile.columns)
        # The lines of the right operand's copy are columns if it is contiguous along the depth.
        right = right._replace(is_transposed=not right.is_transposed)
        record.multiply(MatrixProduct(tile.matrices, tile.rows, tile.columns, count, left, right, sums, adds=first > 0))

    def _copied(self, side: str, steps: Strides, lines: int, most: int, record: Recording) -> Matrices:
        """Copies an operand; the copy has the same lines if these run along the depth, otherwise they run across it."""
        task = record.task
        matrices, count, address = int(task["matrices"]), int(task["count"]), int(task[f"{side}_copy"])
        is_unfolded = self._has_window and side == "right"
        if (steps.is_along or self._has_window) and not is_unfolded:
            task[f"{side}_pitch"] = pitch = even(count)
            copied = Matrices(address, lines * pitch, pitch)
            blocks = -(-matrices * lines // COPY_LINES)
            entry, block = f"copy_{side}_along", (WARP, COPY_LINES)
            slices, unit = min(self._processors * BLOCKS // blocks, most // LEAST_SLICE), WARP * LANES
        else:
            task[f"{side}_pitch"] = pitch = even(lines)
            copied = Matrices(address, count * pitch, pitch, is_transposed=True)
            width = UNFOLD_THREADS if is_unfolded else ACROSS
            blocks = matrices * -(-lines // width)
            if is_unfolded:
                entry, block = "unfold", (width, 1)
                slices, unit = min(self._processors * BLOCKS // blocks, most_slices(most)), 1
            else:
                entry, block = f"copy_{side}_across", (width, ACROSS_ROWS)
                slices, unit = min(self._processors * BLOCKS // 2 // blocks, -(-most // DEEP)), DEEP
        # Every piece of the depth is cut into the same slices; the last piece may have fewer.
        slices = max(1, min(slices, MOST_SLICES // (matrices * lines)))
        task["share"] = share = -(-most // (slices * unit)) * unit
        if task["first"] == 0:
            task["row_slices" if side == "left" else "column_slices"] = -(-count // share)
        record.launch(entry, (blocks, -(-count // share)), block)
        return copied

    def _read_turned(self, task: Array, products: BatchedProduct, tile: ProductTile) -> None:
        """Makes later kernels read the copies whose lines run along the depth, where these exist."""
        for side, lines in (("left", tile.rows), ("right", tile.columns)):
            begin, matrix = int(task[f"{side}_turned"]), lines * products.depth
            if begin:
                task[side] = (begin - tile.matrix * matrix * self._item_bytes[side]) % 2**64
                task[f"{side}_steps"] = (products.inner * matrix, matrix, products.depth, 1)
                task[f"{side}_is_copied"] = 1

    def _settled(self, record: Recording, products: BatchedProduct, tile: ProductTile, near: int) -> Iterator[Batch]:
        """Yields the launches so far, and those that settle all sums that may be undecided; usually few are.

        Args:
            near: products per pass when a sum is recomputed, or 0 if there are no bounds for that.
        """
        task = record.task
        depth, is_deep = products.depth, products.depth > MOST_SETTLED
        # Limbs kept between launches limit the number of sums.
        several = KEPT if is_deep else SETTLED_AT_ONCE // max(depth, LEAST_DEPTH)
        length = MOST_SETTLED if is_deep else max(1, depth)
        first = 0
        while first < tile.sums:
            # The list is seldom long: later launches mostly find nothing, are short, and may cover more.
            count = min(tile.sums - first, several * (1 if is_deep else min(MOST_TIMES, max(1, first // several))))
            task["first"], task["count"] = first, count
            if near and not is_deep:
                self._sum_again(record, depth, near if first == 0 else depth)
            for begin in range(0, max(1, depth), length):
                task["begin"], task["length"] = begin, length
                blocks = min(count, self._processors * BLOCKS // 2)
                is_short = (first > 0 and not is_deep) or count * depth < SETTLED_AT_ONCE >> 3
                record.launch("settle", (blocks, 1), (SETTLE_THREADS, 1), is_short=is_short)
                yield from record.batches()
            first += count
        yield from record.batches(last=True)

    def _sum_again(self, record: Recording, depth: int, length: int) -> None:
        task = record.task
        count = int(task["count"])
        blocks = min(-(-count // AGAIN_SUMS), self._processors * BLOCKS // 2)
        for begin in range(0, depth, length):
            task["begin"], task["length"] = begin, length
            is_short = int(task["first"]) > 0 or count * min(depth, length) < SETTLED_AT_ONCE >> 3
            record.launch("sum_again", (blocks, 1), (AGAIN_THREADS, 1), is_short=is_short)


def _power_above(number: int) -> int:
    return 1 << (number - 1).bit_length()
