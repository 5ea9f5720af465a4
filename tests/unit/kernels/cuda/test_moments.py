"""Mean and variance in pairs of floats, compiled for the host: bounds hold, and what is settled is right."""

from __future__ import annotations

import ctypes
from fractions import Fraction
from math import isqrt
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from opwire.tensor import Array
from opwire_service.kernels.cuda.normalization.shape import RowShape
from tests.support.gpu.on_host import COMPILER, compiled, kernel_text

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")

_THREADS = 3
_EPSILON = 2.0**-16

_CALLS = """
// A row of `items` packs, shared by THREADS threads. `bounds`: mean less first, factor, both as pairs; share, drift.
extern "C" void normalize(
    long items, long count, const Element *row, const Element *scale, const Element *bias,
    double epsilon, float grain, float grain_of_squares,
    Element *results, unsigned *undecided, Element *settled, unsigned *left, float *bounds
) {
    double depth = items * LANES + 100;
    Numbers numbers = {epsilon, depth, 1.0 / count, (u32)count, (float)epsilon, grain, grain_of_squares};
    State states[THREADS];
    auto packed = [&](const Element *from, long item, float (&values)[LANES]) {
        for (int k = 0; k < LANES; ++k) values[k] = widen(from[item * LANES + k]);
    };
    for (auto &each : states) each.clear(State::SHIFTED ? widen(row[0]) : 0);
    Kept kept[LANES] = {};
    for (long item = 0; item < items; ++item) {
        float values[LANES];
        packed(row, item, values);
        states[item % THREADS].add({}, values, item, kept);
    }
    for (long i = 1; i < THREADS; ++i) states[0].merge(states[i]);
    Row result = Row::of(states[0], numbers);
    float told[] = {result.mean.hi, result.mean.lo, result.factor.hi, result.factor.lo, result.share, result.drift};
    memcpy(bounds, told, sizeof told);
    for (long item = 0; item < items; ++item) {
        float values[LANES], scales[LANES], biases[LANES];
        packed(row, item, values), packed(scale, item, scales), packed(bias, item, biases);
        Beside beside[LANES];
        for (int k = 0; k < LANES; ++k) beside[k] = {scales[k], biases[k], 0};
        undecided[item] = result.at_once<false>({}, values, kept, beside, (Element(&)[LANES])results[item * LANES]);
        for (int k = 0; k < LANES; ++k)
            left[item * LANES + k] =
                !result.value<false>(values[k], 0, kept[k], beside[k], numbers, settled[item * LANES + k]);
    }
}
"""


class Kind(NamedTuple):
    dtype: type
    mean: bool
    variance: bool
    adds: bool
    divides: bool = True

    @property
    def lanes(self) -> int:
        return 4 if self.dtype is np.float32 else 8


_PARTS = (True, True, True), (True, True, False), (False, True, True), (True, False, True), (False, True, False, False)
KINDS = [Kind(dtype, *each) for dtype in (np.float32, np.float16) for each in _PARTS]


def _built(folder: Path, kind: Kind) -> ctypes.CDLL:
    macros = {
        **{"PAIRS": 1, "ELEMENT": "f16" if kind.dtype is np.float16 else "f32", "LANES": kind.lanes, "HELD": 0},
        **{
            "MEAN": int(kind.mean),
            "VARIANCE": int(kind.variance),
            "LENGTHS": int(not kind.divides),
            "ACTIVATED": 0,
            "STATISTICS": 0,
            "GIVEN": 0,
            "THREADS": _THREADS,
        },
        **{"SCALE": 2, "BIAS": 2 if kind.adds else 0, "ADDED": 0},
    }
    parts = [f"#define {key} {value}\n" for key, value in macros.items()]
    parts += map(kernel_text, ("floats", "certified", "pairs", "normalization/numbers"))
    parts += ["typedef Pack<Element, LANES> Lanes;\nstatic double activated(double x) { return x; }\n"]
    parts += map(kernel_text, (f"normalization/{each}" for each in ("moments", "totals", "moments_pairs")))
    return compiled(folder, "_".join(map(str, (np.dtype(kind.dtype), *kind[1:]))), "\n".join([*parts, _CALLS]))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[Kind, ctypes.CDLL]:
    folder = tmp_path_factory.mktemp("moments")
    return {kind: _built(folder, kind) for kind in KINDS}


class Normalized:
    """What a row gives.

    Attributes:
        results, settled: results, and which of them the pairs settle.
        again, left: those in double from the same sums, and which of them the host computes.
        mean, factor: as the sum of their parts; the mean is less the first element.
        share, drift: the bounds of the row.
    """

    def __init__(self, library: ctypes.CDLL, kind: Kind, row: Array, scale: Array, bias: Array) -> None:
        items = row.size // kind.lanes
        shape = RowShape(True, kind.lanes, 0, (_THREADS, 1), items, 1, items)
        self.results, self.again = np.empty_like(row), np.empty_like(row)
        undecided, left, told = np.empty(items, np.uint32), np.empty(row.size, np.uint32), np.empty(6, np.float32)
        arrays = row, scale, bias
        outputs = self.results, undecided, self.again, left, told
        addresses, more = ([ctypes.c_void_p(each.ctypes.data) for each in part] for part in (arrays, outputs))
        grains = map(ctypes.c_float, shape.grains(is_half=kind.dtype is np.float16))
        count = row.size if kind.divides else 1
        library.normalize(
            ctypes.c_long(items), ctypes.c_long(count), *addresses, ctypes.c_double(_EPSILON), *grains, *more
        )
        self.settled = (undecided[:, None] >> np.arange(kind.lanes) & 1).reshape(-1) == 0
        self.left = left != 0
        self.told = told

    @property
    def parts(self) -> list[Fraction]:
        mean, rest, factor, of_factor, share, drift = map(Fraction, self.told.tolist())
        return [mean + rest, factor + of_factor, share, drift]


def rows(dtype: type) -> dict[str, Array]:
    draw = np.random.default_rng(6)
    usual = draw.standard_normal(4000)
    outlier = usual.copy()
    outlier[0] = 3e4
    found = {
        "usual": usual,
        "far": 100 + usual,
        "very far": 30000 + 16 * (np.arange(4000) == 17),
        "outlier": outlier,
        "rectified": np.maximum(usual, 0),
        "spread": usual * np.exp2(draw.integers(-12, 4, 4000)),
        "signs": np.sign(usual),
        "equal": np.full(400, 0.3),
        "zeros": np.zeros(400),
        "small": usual * 2.0**-11,
        "integers": draw.integers(-20, 20, 4000),
    }
    return {name: np.ascontiguousarray(each, dtype) for name, each in found.items()}


def beside(dtype: type, size: int) -> tuple[Array, Array]:
    draw = np.random.default_rng(7)
    scale, bias = draw.standard_normal((2, size)).astype(dtype)
    bias[::5] = 0
    return scale, bias


def root_of(number: Fraction) -> Fraction:
    """Returns a square root within 2^-200."""
    return Fraction(isqrt(int(number * 2**600)), 2**300)


def exact_of(row: Array, kind: Kind) -> tuple[Fraction, Fraction]:
    """Returns the mean and the factor, if they count."""
    numbers = [Fraction(each) for each in row.tolist()]
    center = sum(numbers, Fraction()) / len(numbers) if kind.mean else Fraction()
    if not kind.variance:
        return center, Fraction(1)
    squares = sum(((each - center) ** 2 for each in numbers), Fraction())
    variance = squares / len(numbers) if kind.divides else squares
    return center, 1 / root_of(variance + Fraction(_EPSILON))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_bounds_hold(built, kind):
    for name, row in rows(kind.dtype).items():
        found = Normalized(built[kind], kind, row, *beside(kind.dtype, row.size))
        if not np.isfinite(found.told).all() or found.told[5] > 1e30:
            assert name in ("very far", "outlier"), name
            continue
        mean, factor, share, drift = found.parts
        center, right = exact_of(row, kind)
        first = Fraction(float(row[0])) if kind.mean else 0
        assert abs(mean + first - center) * right <= drift, name
        assert abs(factor / right - 1) <= share, name


def units_off(result: Array, right: Fraction) -> Fraction:
    """Returns the distance of a result from the exact number, in units of its last place."""
    return abs(Fraction(float(result)) - right) / Fraction(float(np.spacing(np.abs(result))))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_settled_results_are_rounded_correctly(built, kind):
    """A unit in the last place below a power of two is half as large."""
    for name, row in rows(kind.dtype).items():
        scale, bias = beside(kind.dtype, row.size)
        found = Normalized(built[kind], kind, row, scale, bias)
        center, factor = exact_of(row, kind)
        for i in range(0, row.size, 7):
            exact = (Fraction(float(row[i])) - center) * factor * Fraction(float(scale[i]))
            exact += Fraction(float(bias[i])) if kind.adds else 0
            if found.settled[i]:
                assert units_off(found.results[i], exact) <= Fraction(1, 2), (name, i)
            if not found.left[i]:
                assert units_off(found.again[i], exact) <= Fraction(3, 4), (name, i)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_nearly_all_results_are_settled(built, kind):
    for name, row in rows(kind.dtype).items():
        found = Normalized(built[kind], kind, row, *beside(kind.dtype, row.size))
        assert not found.left[~found.settled].any(), name
        assert found.settled.mean() > (0.9 if name in ("outlier", "very far") else 0.998), (name, found.settled.mean())


def test_what_is_no_number_spreads_to_all_results(built):
    for kind in KINDS:
        for special in (np.inf, -np.inf, np.nan):
            row: Array = np.ones(40, kind.dtype)
            row[5] = special
            found = Normalized(built[kind], kind, row, *beside(kind.dtype, row.size))
            if (kind.mean and kind.variance) or np.isnan(special):
                assert np.isnan(found.again).all()
                assert np.isnan(found.results[found.settled]).all()
            assert not found.left.any()


def test_sums_beyond_the_range_of_floats_are_left_to_the_host(built):
    for kind in KINDS:
        if kind.dtype is np.float32:
            row = np.tile(np.array([3e38, -3e38], np.float32), 20)
            found = Normalized(built[kind], kind, row, *beside(kind.dtype, row.size))
            assert not found.settled.any()
            assert found.left.all()


def test_no_quotient_by_a_length_is_a_negative_zero(built):
    for kind in KINDS:
        if not kind.divides:
            row: Array = np.full(400, -np.finfo(kind.dtype).smallest_subnormal, kind.dtype)
            row[0] = 1000
            found = Normalized(built[kind], kind, row, np.full(400, 0.25, kind.dtype), row)
            assert (found.results[1:][found.settled[1:]] == 0).all()
            assert not np.signbit(found.results[1:][found.settled[1:]]).any()
            assert not np.signbit(found.again[1:]).any()
