"""Exact products by remainders: FLOAT32 and FLOAT16 matrices as integers, multiplied modulo several small numbers.

Each line is scaled by a power of two and rounded to integers so large that a sum of their products, which Cauchy and
Schwarz bound by the norms of the lines, stays below a quarter of the product of the moduli. Products modulo each of
them fit the library's byte products, whose sums are exact; the Chinese remainder theorem gives the sum of the
integers. What rounding leaves is measured, and bounds the error of the sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import isqrt, prod

from opwire.tensor import DataType

from ..job import Card, Matrices, MatrixProduct, Program
from ..structures import constant
from .batches import Batch, Recording
from .launching import STRIPE, WARP, Launching
from .tiles import ALIGNMENT, MOST_ITEM_BYTES, BatchedProduct, ProductTiling, Scratch

MODULI = (256, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211)
"""Pairwise coprime. A remainder of at most 127 in magnitude fits a byte; modulo 256, any byte does."""

COUNTS = {DataType.FLOAT32: 12, DataType.FLOAT16: 8}
"""How many moduli leave hardly any result undecided."""

LIMB_BITS, LIMBS = 30, 3
"""The weights of the remainders are split so that sums of their products fit 64 bits."""

SIDE, DEEP = 4096, 1 << 14
"""Maximum rows and columns of a tile, half as many beyond a depth: some 2.5 GiB of remainders and of their products."""

DEEPEST = 1 << 15
"""Maximum depth: the sum of so many products of bytes is below 2**29, and that of all remainders' below 2**62."""

PER_FLOAT64, PER_PRODUCT, PER_SUM, PER_ELEMENT, AT_LEAST = 16, 17, 15_000, 4_000, 10**11
"""Costs in femtoseconds, measured on an NVIDIA H100: of a product in float64, for each unit of a card's ratio of
FLOAT32 to float64, and by remainders; and what remainders cost more per sum, per element of an operand, and in all."""

DEPTH_UNIT = 128
"""Planes of remainders are padded to multiples of this depth."""

SPLIT_LINES, SPECIAL_SIDE = (constant(name, "products/remainders") for name in ("SPLIT_LINES", "SPECIAL_SIDE"))
SPLIT_THREADS = SPLIT_LINES * WARP


def suits(products: BatchedProduct, data_type: DataType, card: Card) -> bool:
    """Returns whether products are possible by remainders, and faster than in float64."""
    rows, columns, depth = products.rows, products.columns, products.depth
    saved = (PER_FLOAT64 * card.float64_ratio - PER_PRODUCT) * rows * columns * depth
    costs = PER_SUM * rows * columns + PER_ELEMENT * (rows + columns) * depth + AT_LEAST
    return data_type in COUNTS and products.window is None and depth <= DEEPEST and saved > costs


def source(count: int) -> str:
    """Returns the constants of the kernels for the first ``count`` moduli."""
    moduli = MODULI[:count]
    product = prod(moduli)
    weights = [product // modulus for modulus in moduli]
    inverses = [pow(weight, -1, modulus) for weight, modulus in zip(weights, moduli, strict=True)]
    # The norms of two lines multiply to at most a quarter of the product; rounding adds less than a thousandth.
    largest = isqrt(product // 4) * 0.999
    left = [[_near_zero(1 << 16 * i, modulus) for i in range(3)] for modulus in moduli]
    # The factor that the theorem wants for each remainder is part of the right operand.
    right = [
        [_near_zero(inverse << 16 * i, modulus) for i in range(3)]
        for inverse, modulus in zip(inverses, moduli, strict=True)
    ]
    lines = (
        f"const u32 MODULI = {count}, LIMBS = {LIMBS}, LIMB_BITS = {LIMB_BITS};",
        array("float MODULUS[MODULI]", [float(modulus) for modulus in moduli]),
        array("float INVERSE[MODULI]", [1 / modulus for modulus in moduli]),
        array("float LEFT_BY[MODULI][3]", [_braced(map(float, row)) for row in left]),
        array("float RIGHT_BY[MODULI][3]", [_braced(map(float, row)) for row in right]),
        array("i32 WEIGHT[MODULI][LIMBS]", [_braced(_limbs(weight)) for weight in weights]),
        f"const double INVERSE_PRODUCT = {float.hex(1 / product)}, LARGEST_NORM = {float.hex(largest)};",
        f"const u64 PRODUCT_HIGH = {product >> 64}ull, PRODUCT_LOW = {product & (1 << 64) - 1}ull;",
    )
    return "\n".join(lines)


def _near_zero(number: int, modulus: int) -> int:
    """Returns the remainder of least magnitude."""
    remainder = number % modulus
    return remainder - modulus if 2 * remainder > modulus else remainder


def _limbs(number: int) -> list[int]:
    """Returns signed limbs of a number, the lowest first."""
    limbs = []
    for _ in range(LIMBS - 1):
        limbs.append(_near_zero(number, 1 << LIMB_BITS))
        number = (number - limbs[-1]) >> LIMB_BITS
    return [*limbs, number]


def _braced(items: Iterator[float] | list[int]) -> str:
    return f"{{{', '.join(map(str, items))}}}"


def array(declared: str, items: list[float] | list[str]) -> str:
    """Returns the definition of an array of constants."""
    return f"static __constant__ const {declared} = {{{', '.join(map(str, items))}}};"


def tiling_of(products: BatchedProduct) -> ProductTiling:
    """Returns the partition of products into tiles; the depth stays whole."""
    side = SIDE if products.depth <= DEEP else SIDE // 2
    return ProductTiling(1, min(side, products.rows), min(side, products.columns), products.depth)


def _padded(depth: int) -> int:
    return -(-depth // DEPTH_UNIT) * DEPTH_UNIT


def _even(columns: int) -> int:
    return -(-columns // 4) * 4


class RemainderLaunching(Launching):
    """The launches of products by remainders.

    Args:
        program: the program of products in float64.
        item_bytes, processors: see ``Launching``.
        data_type: the type of the tensors.
    """

    def __init__(self, program: Program, item_bytes: Mapping[str, int], processors: int, data_type: DataType) -> None:
        self._count = COUNTS[data_type]
        generated = f"{program.generated}\n{source(self._count)}"
        program = replace(program, generated=generated, kernels=("products/digits", "products/remainders"))
        super().__init__(program, item_bytes, processors, has_window=False)

    def scratch(self, products: BatchedProduct, tiling: ProductTiling) -> Scratch:
        """Returns the layout of a tile's memory: copies are the planes of remainders, sums those of their products."""
        pitch, sums = _padded(products.depth), tiling.rows * tiling.columns
        sizes = {
            "left_copy": self._count * tiling.rows * pitch,
            "right_copy": self._count * tiling.columns * pitch,
            "undecided": 8 + 8 * sums,
            "sums": 4 * self._count * tiling.rows * _even(tiling.columns),
            "row_bounds": 4 * 8 * tiling.rows,
            "column_bounds": 4 * 8 * tiling.columns,
        }
        for name, steps, lines in (("left", products.left, tiling.rows), ("right", products.right, tiling.columns)):
            sizes[f"{name}_turned"] = 0 if steps.is_along else MOST_ITEM_BYTES * lines * products.depth
        end, begins = 0, dict.fromkeys(Scratch._fields, 0)
        for name, size in sizes.items():
            begins[name] = end if size else 0
            end += -(-size // ALIGNMENT) * ALIGNMENT
        return Scratch(**{**begins, "size": end})

    def by_remainders(self, products: BatchedProduct, tiling: ProductTiling) -> Iterator[Batch]:
        """Yields the launches of each tile of some products; tiles side by side share the left operand's remainders."""
        scratch, held = self.scratch(products, tiling), None
        pitch = _padded(products.depth)
        for tile in tiling.tiles(products):
            record = Recording(self._task(products, tile, scratch))
            task = record.task
            task["error"], task["part"] = products.error(products.depth), products.part(products.depth)
            task["left_pitch"] = task["right_pitch"] = pitch
            width = _even(tile.columns)
            if held != (tile.matrix, tile.row):
                record.launch("split_left", (-(-tile.rows // SPLIT_LINES), 1), (SPLIT_THREADS, 1))
                held = tile.matrix, tile.row
            record.launch("split_right", (-(-tile.columns // SPLIT_LINES), 1), (SPLIT_THREADS, 1))
            left = Matrices(int(task["left_copy"]), tile.rows * pitch, pitch)
            right = Matrices(int(task["right_copy"]), tile.columns * pitch, pitch, is_transposed=True)
            sums = Matrices(int(task["sums"]), tile.rows * width, width)
            sizes = self._count, tile.rows, tile.columns, pitch
            record.multiply(MatrixProduct(*sizes, left, right, sums, adds=False, is_of_bytes=True))
            self._certify("combine", record, tile, min(STRIPE, max(1, tile.sums >> 16)))
            blocks = -(-tile.rows // SPECIAL_SIDE), -(-tile.columns // SPECIAL_SIDE)
            record.launch("sum_special", blocks, (SPLIT_THREADS, 1))
            self._read_turned(task, products, tile)
            yield from self._settled(record, products, tile, products.depth)
