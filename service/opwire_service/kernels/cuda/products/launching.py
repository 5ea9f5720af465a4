"""The launches of products of matrices: tiles are copied, multiplied, certified, and settled where they are open."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opwire.fields.member import NestedOperator
from opwire.tensor import Array, DataType

from ..job import TYPES, KernelLaunch, Launch, Matrices, MatrixProduct, Program
from .activation import activated_source
from .tiles import KEPT, MOST_SETTLED, NOWHERE, POINTERS, TASK, Cut, Products, Scratch, Steps, Tile, even

ROUNDED, ACTIVATED, OPEN = range(3)
"""What becomes of sums."""

SOURCES = tuple(f"products/{name}" for name in ("operands", "copies", "certify", "settle"))

WARP = 32
COPY_LINES, COPY_THREADS, CERTIFY_THREADS, SETTLE_THREADS = 8, 128, 256, 128
"""As the kernels have them."""

SETTLED_AT_ONCE = 1 << 33
"""Products that one launch sums exactly, at most: some ms."""

LEAST_DEPTH = 1024
"""Products that a sum of fewer takes as long as."""

COMPUTED_AT_ONCE = 1 << 33
"""Products that one launch sums directly, at most."""

BLOCKS = 16
"""Of each multiprocessor, for kernels whose blocks go on with the next piece."""


class Launching:
    """What all products of a plan launch.

    Args:
        data_type: of the tensors.
        processors: of the card.
        has_window: whether the right operands are what windows see.
        finish: what becomes of sums.
        activation: that follows.
    """

    def __init__(
        self, data_type: DataType, processors: int, *, has_window: bool, finish: int, activation: NestedOperator | None
    ) -> None:
        macros = (("INPUT", TYPES[data_type]), ("WINDOW", int(has_window)), ("FINISH", finish))
        self.program = Program(("scalars", "floats", *SOURCES), macros, activated_source(activation))
        self._item_bytes = data_type.dtype.itemsize
        self._target_bytes = 8 if finish == OPEN else self._item_bytes
        self._processors = processors
        self._has_window = has_window

    def launches(self, products: Products, cut: Cut, addresses: dict[str, int], scratch: int) -> Iterator[Launch]:
        """Those of all tiles.

        Args:
            products: what is multiplied.
            cut: into which tiles.
            addresses: of the tensors ``left``, ``right`` and ``target``, and of the ``addend`` if there is one.
            scratch: the address of the memory for tiles.
        """
        for tile in cut.tiles(products):
            whole = self._task(products, tile, addresses)
            Scratch.of(products, cut, is_direct=False).fill(whole[0], scratch)
            whole["error"] = products.error(cut.depth)
            yield self._few("clear", whole)
            for first in range(0, products.depth, cut.depth):
                yield from self._summed(products, tile, whole, first, min(cut.depth, products.depth - first))
            yield self._few("take_roots", whole)
            yield self._certified("certify", whole, 0, tile.sums)
            yield from self._settled(products, tile, whole)

    def direct(self, products: Products, cut: Cut, addresses: dict[str, int], scratch: int) -> Iterator[Launch]:
        """The same for few products of a window, each sum of which a thread computes."""
        for tile in cut.tiles(products):
            whole = self._task(products, tile, addresses)
            Scratch.of(products, cut, is_direct=True).fill(whole[0], scratch)
            # The magnitudes themselves are summed, and that may be off as well.
            whole["error"] = products.error(products.depth) * 1.01
            yield self._few("clear", whole)
            several = COMPUTED_AT_ONCE // max(1, products.depth)
            for first in range(0, tile.sums, several):
                yield self._certified("convolve", whole, first, min(several, tile.sums - first))
            yield from self._settled(products, tile, whole)

    def _task(self, products: Products, tile: Tile, addresses: dict[str, int]) -> Array:
        (task,) = whole = np.zeros(1, TASK)
        left, right, addend, target = products.left, products.right, products.addend, products.target
        offsets = {
            "left": products.begin[0] + tile.row * left.line,
            "right": 0 if self._has_window else tile.column * right.line,
            "addend": tile.row * addend.line + tile.column * addend.along,
            "target": products.begin[1] + tile.row * target.line + tile.column * target.along,
        }
        for name in POINTERS[:4]:
            if name in addresses:
                item_bytes = self._target_bytes if name == "target" else self._item_bytes
                task[name] = addresses[name] + item_bytes * offsets[name]
        for name, steps in zip(POINTERS[:4], (left, right, addend, target), strict=True):
            task[f"{name}_steps"] = steps
        task["alpha"], task["beta"] = products.alpha, products.beta
        task["matrices"], task["rows"], task["columns"] = tile.matrices, tile.rows, tile.columns
        task["depth"], task["matrix"], task["inner"] = products.depth, tile.matrix, products.inner
        if products.window is not None:
            task["window"], task["column"] = products.window, tile.column
        return whole

    def _few(self, entry: str, task: Array) -> KernelLaunch:
        """A launch of a kernel that visits each line of both operands."""
        lines = int(task["matrices"][0]) * int(max(task["rows"][0], task["columns"][0]))
        blocks = min(-(-lines // CERTIFY_THREADS), self._processors * BLOCKS)
        return KernelLaunch(self.program, entry, (blocks, 1), (CERTIFY_THREADS, 1), task.copy())

    def _summed(self, products: Products, tile: Tile, task: Array, first: int, count: int) -> Iterator[Launch]:
        """Copies some of the depth of both operands, and adds their products to the sums."""
        task["first"], task["count"] = first, count
        left, launch = self._copied("left", products.left, tile.rows, task)
        yield launch
        right_steps = NOWHERE._replace(along=1) if self._has_window else products.right
        right, launch = self._copied("right", right_steps, tile.columns, task)
        yield launch
        sums = Matrices(int(task["sums"][0]), tile.rows * tile.columns, tile.columns)
        # The lines of a copy of the right operand are columns where it lies along the depth.
        right = right._replace(is_transposed=not right.is_transposed)
        yield MatrixProduct(tile.matrices, tile.rows, tile.columns, count, left, right, sums, adds=first > 0)

    def _copied(self, side: str, steps: Steps, lines: int, task: Array) -> tuple[Matrices, KernelLaunch]:
        """Where an operand is copied to, and the launch that copies it; lines of it are those along the depth."""
        matrices, count = int(task["matrices"][0]), int(task["count"][0])
        address = int(task[f"{side}_copy"][0])
        if steps.is_along:
            pitch = even(count)
            task[f"{side}_pitch"] = pitch
            grid, block = (-(-matrices * lines // COPY_LINES), 1), (WARP, COPY_LINES)
            launch = KernelLaunch(self.program, f"copy_{side}_along", grid, block, task.copy())
            return Matrices(address, lines * pitch, pitch), launch
        pitch = even(lines)
        task[f"{side}_pitch"] = pitch
        blocks = matrices * -(-lines // COPY_THREADS)
        slices = max(1, min(self._processors * BLOCKS // blocks, -(-count // 8)))
        task["share"] = share = max(-(-count // slices), -(-count // 65535))
        entry = "unfold" if self._has_window else f"copy_{side}_across"
        launch = KernelLaunch(self.program, entry, (blocks, -(-count // share)), (COPY_THREADS, 1), task.copy())
        return Matrices(address, count * pitch, pitch, is_transposed=True), launch

    def _certified(self, entry: str, task: Array, first: int, count: int) -> KernelLaunch:
        task["first"], task["count"] = first, count
        return KernelLaunch(self.program, entry, (-(-count // CERTIFY_THREADS), 1), (CERTIFY_THREADS, 1), task.copy())

    def _settled(self, products: Products, tile: Tile, task: Array) -> Iterator[KernelLaunch]:
        """The launches for as many open sums as there may be; mostly they find few."""
        depth, is_deep = products.depth, products.depth > MOST_SETTLED
        several = KEPT if is_deep else SETTLED_AT_ONCE // max(depth, LEAST_DEPTH)
        length = MOST_SETTLED if is_deep else max(1, depth)
        if not is_deep:
            task["limbs"] = 0
        for first in range(0, tile.sums, several):
            task["first"], task["count"] = first, min(several, tile.sums - first)
            for begin in range(0, max(1, depth), length):
                task["begin"], task["length"] = begin, length
                blocks = min(int(task["count"][0]), self._processors * BLOCKS)
                yield KernelLaunch(self.program, "settle", (blocks, 1), (SETTLE_THREADS, 1), task.copy())
