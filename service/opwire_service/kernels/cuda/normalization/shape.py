"""Distribution of rows over the threads of a GPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..job import LOAD_BYTES
from ..nests import Nest, NestLoop, merged, size_of

WARP = 32
THREADS = 256
MOST_THREADS = 512
"""Maximum threads of a block that holds a row in registers."""

HELD_BYTES = 64
"""Maximum size of the elements that a thread holds, in bytes."""

HELD_KEPT = 16
"""Maximum elements that a thread holds if it also keeps a term for each."""

MOST_HELD = 2**13
"""Maximum elements of a row that a block holds; doubles sum this many FLOAT16 elements exactly."""

RESIDENT = 1024
"""Minimum resident threads per multiprocessor for blocks that hold rows, which limits their registers."""

BATCH = 4
"""Loads in flight per thread where rows are read twice."""

BLOCKS_PER_PROCESSOR = 8

COLUMNS = 32
"""Adjacent columns per block: 128 bytes of FLOAT32."""


@dataclass(frozen=True, slots=True)
class RowShape:
    """Shape of the blocks, and the number of splits per row.

    Attributes:
        by_rows: whether adjacent threads work on adjacent elements of a row rather than on different rows.
        lanes: elements of a row per vector load.
        held: loads that each thread holds in registers, or 0 if rows are read twice.
        block: threads along x and y.
        items: loads per row.
        splits: parts of each row.
        stretch: loads per part.
    """

    by_rows: bool
    lanes: int
    held: int
    block: tuple[int, int]
    items: int
    splits: int
    stretch: int

    @property
    def sharing(self) -> int:
        """Number of threads of a block that share a row."""
        return self.block[0] if self.by_rows else self.block[1]

    @property
    def outputs_of_block(self) -> int:
        return self.block[1] if self.by_rows else self.block[0]

    @property
    def resident(self) -> int:
        """Minimum number of resident blocks per multiprocessor."""
        return max(1, RESIDENT // (self.block[0] * self.block[1]))

    @property
    def batch(self) -> int:
        return max(1, BATCH // max(1, self.lanes // 4))

    @property
    def depth(self) -> int:
        """Maximum number of additions that an element takes part in."""
        return -(-self.stretch // self.sharing) * self.lanes + self.sharing + self.splits + 32

    def grains(self, *, is_half: bool) -> tuple[float, float]:
        """Relative errors of sums of elements and of squares in floats; ``moments_pairs.cu`` derives them."""
        unit, additions = 2.0**-24, -(-self.stretch // self.sharing) + self.splits + 32
        together = (self.lanes * (self.lanes + 7) + 3) * unit**2 + 8 * (additions + 2) ** 3 * unit**3
        return (together, together) if is_half else (6.1 * unit, 2.05 * unit)


def nests_of(
    sizes: Sequence[int], strides: Sequence[Sequence[int]], axes: Iterable[int], *, ordered: bool
) -> tuple[Nest, Nest]:
    """Returns the loops over rows and the loops over the elements of a row.

    Args:
        sizes: the sizes that all tensors share.
        strides: the strides of each tensor, the input first and the output second.
        axes: the axes that make up a row.
        ordered: whether to visit the elements of a row in row-major order rather than in memory order.
    """
    along = frozenset(axes)
    every = [NestLoop(size, tuple(each[i] for each in strides)) for i, size in enumerate(sizes)]
    kept = _by_memory(axis for i, axis in enumerate(every) if i not in along)
    reduced = [axis for i, axis in enumerate(every) if i in along]
    return merged(kept), merged(reduced if ordered else _by_memory(reduced))


def _by_memory(axes: Iterable[NestLoop]) -> list[NestLoop]:
    return sorted(axes, key=lambda axis: axis.steps[:2], reverse=True)


def row_shape(kept: Nest, reduced: Nest, item_bytes: int, processors: int, most_held: int) -> RowShape:
    """Distributes rows over the GPU.

    Args:
        kept, reduced: the loops over rows and over the elements of a row.
        item_bytes: size of an element.
        processors: number of multiprocessors of the GPU.
        most_held: maximum elements that a thread holds.
    """
    outputs, elements = size_of(kept), size_of(reduced)
    inner, beside = (nest[-1].steps[0] if nest else 0 for nest in (reduced, kept))
    by_rows = not kept or inner == 1 or (bool(reduced) and 1 != beside >= inner)
    if not by_rows:
        along = min(COLUMNS, _power_above(outputs))
        block = along, min(THREADS // along, _power_above(elements))
        splits = _splits(-(-outputs // along), elements, block[1], processors)
        return _cut(by_rows, 1, 0, block, elements, splits)
    lanes = _lanes(kept, reduced, LOAD_BYTES // item_bytes)
    items = elements // lanes
    held = min(max(1, most_held // lanes), items)
    sharing = _power_above(-(-items // held))
    while held > 1 and sharing < WARP and outputs * sharing < processors * THREADS:
        held = -(-held // 2)
        sharing = _power_above(-(-items // held))
    few = outputs < processors and items > 8 * THREADS
    if sharing <= MOST_THREADS and sharing * held * lanes <= MOST_HELD and not few:
        # Warps that share no row need not wait for each other.
        rows = THREADS // sharing if sharing <= WARP else 1
        return _cut(by_rows, lanes, held, (sharing, rows), items, 1)
    block = THREADS, 1
    return _cut(by_rows, lanes, 0, block, items, _splits(outputs, items, THREADS, processors))


def _splits(blocks: int, items: int, sharing: int, processors: int) -> int:
    wanted = processors * BLOCKS_PER_PROCESSOR
    if 2 * blocks > wanted:
        return 1
    return max(1, min(wanted // blocks, items // (sharing * 2 * BATCH)))


def _cut(by_rows: bool, lanes: int, held: int, block: tuple[int, int], items: int, splits: int) -> RowShape:
    stretch = -(-items // splits)
    return RowShape(by_rows, lanes, held, block, items, -(-items // stretch), stretch)


def _lanes(kept: Nest, reduced: Nest, full: int) -> int:
    """Returns the elements per vector access, at most ``full``, such that every load and store is aligned."""
    if not reduced or reduced[-1].steps[:2] != (1, 1):
        return 1
    steps = [reduced[-1].size, *(step for axis in (*kept, *reduced[:-1]) for step in axis.steps[:2])]
    return next(
        (lanes for lanes in (full, full // 2, full // 4) if lanes > 1 and not any(step % lanes for step in steps)), 1
    )


def _power_above(number: int) -> int:
    return 1 << (number - 1).bit_length()
