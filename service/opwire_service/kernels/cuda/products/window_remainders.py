"""Exact convolutions by remainders: one kernel multiplies modulo several small numbers, and certifies the sums.

The arithmetic is that of ``remainders``. Filters and images are split into integers and their remainders once; the
products are not written to memory, which would take longer than to compute them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, prod
from typing import NamedTuple

from opwire.tensor import DataType

from ..job import Card, Program
from ..structures import constant
from .batches import Batch, Recording
from .launching import WARP, Launching
from .remainders import MODULI, array, source
from .tiles import ALIGNMENT, MOST_SUMS, BatchedProduct, ProductTile, ProductTiling, Scratch

BITS = {DataType.FLOAT32: 33.5, DataType.FLOAT16: 22.0}
"""The size of typical integers that leaves hardly any result undecided."""

DEEPEST = 1 << 14
"""Maximum depth, with padding: a sum of so many products of bytes is at most 2**28."""

LEAST_CAPABILITY = 75
"""That of the first cards whose tensor cores multiply bytes."""

LEAST_RATIO = 8
"""Minimum ``Card.float64_ratio`` for convolutions of any size."""

GROUPED = 90
"""The compute capability of cards whose warps multiply in groups."""

LEAST_DEPTH, LEAST_TILES = 512, 2
"""Minimum depth, and tiles per multiprocessor, on such cards, with any ratio. Measured on an H100, whose ratio is 2:
there, a product saves some 17 femtoseconds, but certifying its sum by remainders costs 7 picoseconds more."""

MOST_FILTER_BYTES, MOST_IMAGE_BYTES = 1 << 26, 3 << 26
"""Maximum sizes of the remainders of the filters, and of the images of a tile."""

MOST_PHASES = 16

FEWEST, THINNEST = 16, 8
"""Minimum numbers of filters and of channels: both are padded."""

MOST_GROUPS = 1024
"""Maximum number of groups of pixels that are measured side by side."""

STAGES, GROUP_STAGES = 3, 4
"""Steps of the depth in shared memory, of which all but one are still being copied; where warps multiply in groups, all
but two."""

KERNELS = "window_layout", "window_splits", "fragments", "byte_tiles", "window_remainders"

PART, CHUNK, STEP = (constant(name, "products/window_layout") for name in ("PART", "CHUNK", "STEP"))
SPLIT_WARPS, OCTET = (constant(name, "products/window_splits") for name in ("SPLIT_WARPS", "OCTET"))
EDGE = constant("EDGE", "products/byte_tiles")
KEPT_GAP, KEPT_PASSES = (constant(name, "products/window_remainders") for name in ("KEPT_GAP", "KEPT_PASSES"))
SPLIT_THREADS = SPLIT_WARPS * WARP
PIXELS = SPLIT_THREADS * OCTET // PART


class Tile(NamedTuple):
    """The warps of a block, each of which computes 32 rows and columns."""

    row_warps: int
    column_warps: int

    @property
    def rows(self) -> int:
        return EDGE * self.row_warps

    @property
    def columns(self) -> int:
        return EDGE * self.column_warps

    @property
    def threads(self) -> int:
        return WARP * self.row_warps * self.column_warps


FLAT, SMALL, TALL = Tile(1, 4), Tile(2, 2), Tile(4, 2)


class Layout(NamedTuple):
    """The layout of the remainders of convolutions, as in the kernels.

    Attributes:
        pixels: the pixels of an image that windows reach, with padding.
        places: the results per image and filter.
        channels: the channels of a group.
        padded: these, with padding.
        steps: steps of the depth.
    """

    pixels: int
    places: int
    channels: int
    padded: int
    steps: int

    @classmethod
    def of(cls, products: BatchedProduct) -> Layout:
        window = products.window
        assert window is not None
        taps, places, turns, moves = (list(map(int, window[name])) for name in ("taps", "places", "turn", "move"))
        sizes = (
            (tap - 1) * abs(turn) + (place - 1) * move + 1
            for tap, place, turn, move in zip(taps, places, turns, moves, strict=True)
        )
        channels = products.depth // prod(taps)
        padded = _up(channels, CHUNK)
        return cls(prod(sizes), prod(places), channels, padded, -(-padded * prod(taps) // STEP))

    @property
    def groups(self) -> int:
        return min(MOST_GROUPS, -(-self.pixels // PIXELS))


def suits(products: Sequence[BatchedProduct], data_type: DataType, card: Card) -> bool:
    """Returns whether the products of all phases are possible by remainders, and faster than in float64."""
    if data_type not in BITS or card.capability < LEAST_CAPABILITY or not products:
        return False
    return all(_suits(each, data_type) and _pays(each, card) for each in products)


def _pays(products: BatchedProduct, card: Card) -> bool:
    is_large = products.depth >= LEAST_DEPTH and _tiles(products, SMALL) >= LEAST_TILES * card.processors
    return card.float64_ratio >= LEAST_RATIO or (card.capability == GROUPED and is_large)


def _tiles(products: BatchedProduct, tile: Tile) -> int:
    return products.matrices * -(-products.rows // tile.rows) * -(-products.columns // tile.columns)


def _suits(products: BatchedProduct, data_type: DataType) -> bool:
    layout = Layout.of(products)
    count, depth = count_of(products.depth, data_type), layout.steps * STEP
    channels = products.matrices * layout.channels
    return (
        products.rows >= FEWEST
        and channels >= THINNEST * products.matrices
        and depth <= DEEPEST
        and count * products.matrices * products.rows * depth <= MOST_FILTER_BYTES
        and count * products.matrices * layout.pixels * layout.padded <= MOST_IMAGE_BYTES
        and products.matrices * products.rows * layout.places <= MOST_SUMS
    )


def count_of(depth: int, data_type: DataType) -> int:
    """Returns how many moduli a depth needs: so many that the integers have the wanted size, or all."""
    wanted = 4 * depth * 2 ** (2 * BITS[data_type])
    return next((count for count in range(1, len(MODULI)) if prod(MODULI[:count]) >= wanted), len(MODULI))


def fractions(count: int) -> str:
    """Returns further constants of the kernels for the first ``count`` moduli."""
    moduli = MODULI[:count]
    whole = 1 << 64
    parts = [round(Fraction(whole, modulus)) for modulus in moduli]
    # A remainder is below twice its modulus.
    error = sum(2 * modulus * abs(part - Fraction(whole, modulus)) for part, modulus in zip(parts, moduli, strict=True))
    lines = (
        array("u64 FRACTION[MODULI]", [f"{part}ull" for part in parts]),
        array("u32 QUOTIENT[MODULI]", [str((1 << 32) // modulus) for modulus in moduli]),
        array("i32 BIAS[MODULI]", [str(_up(DEEPEST << 14, modulus)) for modulus in moduli]),
        f"const double FRACTION_ERROR = {ceil(error)}, FRACTION_UNIT = {float.hex(prod(moduli) / whole)};",
    )
    return "\n".join(lines)


def _up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def tile_of(products: BatchedProduct, card: Card) -> Tile:
    """Returns the tile of a block."""
    if products.rows <= EDGE:
        return FLAT
    is_large = products.rows > SMALL.rows and _tiles(products, TALL) >= LEAST_TILES * card.processors
    return TALL if card.capability == GROUPED and is_large else SMALL


class WindowRemainderLaunching(Launching):
    """The launches of convolutions by remainders.

    Args:
        program: the program of convolutions in float64.
        item_bytes: see ``Launching``.
        card: the card.
        data_type: the type of the tensors.
        products: the products of all phases.
    """

    def __init__(
        self,
        program: Program,
        item_bytes: Mapping[str, int],
        card: Card,
        data_type: DataType,
        products: Sequence[BatchedProduct],
    ) -> None:
        deepest = max(products, key=lambda each: each.depth)
        self._count = count_of(deepest.depth, data_type)
        self._tile = tile_of(deepest, card)
        self._stages = GROUP_STAGES if card.capability == GROUPED else STAGES
        program = replace(
            program,
            macros=(
                *program.macros,
                ("ROW_WARPS", self._tile.row_warps),
                ("COLUMN_WARPS", self._tile.column_warps),
                ("STAGES", self._stages),
            ),
            generated=f"{program.generated}\n{source(self._count)}\n{fractions(self._count)}",
            kernels=("products/digits", *(f"products/{each}" for each in KERNELS)),
        )
        super().__init__(program, item_bytes, card.processors, has_window=True)

    def tiling(self, products: BatchedProduct) -> ProductTiling:
        """Returns the partition of products into tiles of whole images."""
        layout = Layout.of(products)
        image = self._count * products.matrices * layout.pixels * layout.padded
        results = products.matrices * products.rows * layout.places
        several = max(1, min(MOST_IMAGE_BYTES // image, MOST_SUMS // results))
        columns = min(products.columns, several * layout.places)
        return ProductTiling(products.matrices, products.rows, columns, products.depth)

    def scratch(self, products: BatchedProduct) -> Scratch:
        """Returns the layout of a tile's memory: copies are remainders, sums what is measured of images."""
        layout, tiling = Layout.of(products), self.tiling(products)
        filters, columns = tiling.matrices * tiling.rows, tiling.matrices * tiling.columns
        images = columns // layout.places
        sizes = {
            "left_copy": self._count * filters * layout.steps * STEP,
            "right_copy": self._count * images * layout.pixels * layout.padded,
            "undecided": 8 + 8 * tiling.rows * columns,
            "sums": 8 * images * (2 * layout.pixels + layout.groups + 1),
            "row_bounds": 4 * 8 * filters,
            "column_bounds": 8 * columns,
        }
        end, begins = 0, dict.fromkeys(Scratch._fields, 0)
        for name, size in sizes.items():
            begins[name] = end
            end += _up(size, ALIGNMENT)
        return Scratch(**{**begins, "size": end})

    def by_remainders(self, products: BatchedProduct) -> Iterator[Batch]:
        """Yields the launches of each tile of some products."""
        scratch, layout = self.scratch(products), Layout.of(products)
        for tile in self.tiling(products).tiles(products):
            record = Recording(self._task(products, tile, scratch))
            task = record.task
            task["error"], task["part"] = products.error(products.depth), products.part(products.depth)
            task["share"] = layout.groups
            images = tile.matrices * tile.columns // layout.places
            filters = tile.matrices * tile.rows
            record.launch("split_filters", (filters + images * layout.groups, 1), (SPLIT_THREADS, 1))
            record.launch("split_images", (images * -(-layout.pixels // PIXELS), 1), (SPLIT_THREADS, 1))
            self._convolve(record, layout, tile)
            yield from self._settled(record, products, tile, products.depth)

    def _convolve(self, record: Recording, layout: Layout, tile: ProductTile) -> None:
        block = self._tile
        grid = tile.matrices * -(-tile.columns // block.columns), -(-tile.rows // block.rows)
        kept = 8 * block.rows // KEPT_PASSES * (block.columns + KEPT_GAP)
        shared = max(self._stages * (block.rows + block.columns) * STEP, kept) + 4 * layout.steps * (STEP // CHUNK)
        record.launch("convolve_bytes", grid, (block.threads, 1), shared_bytes=shared)
