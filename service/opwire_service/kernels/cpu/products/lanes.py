"""Tiles of products that threads share in machine code, with all calls of all tiles prepared.

Python code between tiles takes about as long as a small one, and threads would contend for the GIL. The tiles are dealt
out to lanes, one for each thread; those of a lane are computed one after the other in the same memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import partial
from math import prod

from ....execution import Bound, Stop
from ..jit.compiler import Kernel
from ..run.pool import Pool, Task
from ..run.scratch import Scratch
from .boxes import Box, Boxes
from .calls import CALLS, KernelCall, rows_of
from .fixed_left import FixedLeft
from .product import Product, tile_of
from .tile_shapes import TileShape
from .workspace import Workspace

MOST_TILES = 64
"""Maximum number of tiles that are prepared."""

MOST_PRODUCTS = 1 << 28
"""Maximum number of products in a lane, some 10 ms of work: nothing stops its tiles."""

Again = Callable[[Sequence[Box], Stop], None]
"""Computes some tiles, of which too many elements for a lane are undecided."""


def bound_lanes(product: Product, boxes: Boxes, pool: Pool, scratch: Scratch, again: Again) -> Bound | None:
    """Returns a function that computes all tiles of a product, or None if that takes Python or too long.

    Args:
        product: the product.
        boxes: its tiles.
        pool: the threads that share them.
        scratch: their memory.
        again: computes the tiles that lanes cannot finish.
    """
    each = -(-len(boxes) // pool.threads)
    work = each * prod(part.stop - part.start for part in boxes[0]) * product.depth
    if not product.is_compiled or len(boxes) > MOST_TILES or work > MOST_PRODUCTS:
        return None
    fixed, left_over = FixedLeft.of(product), array("q", [0]) * len(boxes)
    spaces = [Workspace(product.sizes, scratch.take(lane)) for lane in range(-(-len(boxes) // each))]
    calls: list[tuple[Kernel, KernelCall]] = []
    for number, tile in enumerate(map(tile_of, boxes)):
        shape = TileShape(product, tile, spaces[number // each], fixed)
        if shape.is_copied:
            return None
        calls += shape.all_calls(product, tile, left_over.buffer_info()[0] + left_over.itemsize * number)
    lane, code = each * len(calls) // len(boxes), product.find(CALLS).address
    task = Task(code, CALLS.is_float, rows_of(calls, product.find), len(calls), lane, 1)
    compute = pool.bind(task, 0, 0, 0, product.find)
    return partial(_run, compute, fixed, left_over, boxes, again, (product, calls))


def _run(
    compute: Bound, fixed: FixedLeft | None, left_over: array[int], boxes: Boxes, again: Again, kept: object, stop: Stop
) -> None:
    """Computes all tiles, while keeping what their calls use alive."""
    if fixed is not None:
        fixed.read()
    compute(stop)
    if any(left_over):
        again([box for box, count in zip(boxes, left_over, strict=True) if count], stop)
