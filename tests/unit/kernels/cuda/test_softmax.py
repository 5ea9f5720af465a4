"""Softmax in pairs of floats for GPUs, compiled for the host: what it settles is right, and nearly all is settled."""

from __future__ import annotations

import ctypes
from pathlib import Path

import mpmath
import numpy as np
import pytest

from opwire.tensor import Array
from opwire_service.kernels.cuda.normalization.exponentials import OF_PAIRS, PER_UNIT, ROUGHLY, logarithms
from scripts.exponentials import bound
from tests.support.elements import answer, plan_of
from tests.support.gpu.on_host import COMPILER, compiled, kernel_text

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")

_LANES = 4
_HELD = (True, False)
_KINDS = [
    (name, dtype, held) for name in ("SOFTMAX", "LOG_SOFTMAX") for dtype in (np.float32, np.float16) for held in _HELD
]

_CALLS = """
extern "C" void exponentials(long count, const float *high, const float *low, float *values) {
    prepare();
    for (long i = 0; i < count; ++i) {
        Pair value = exponential_of(Pair{high[i], low[i]});
        values[2 * i] = value.hi, values[2 * i + 1] = value.lo;
    }
}
// A row of `items` packs, shared by THREADS threads.
extern "C" void normalize(long items, const Element *row, Element *results, unsigned *undecided) {
    const long THREADS = 3;
    prepare();
    State states[THREADS];
    float peak = Bounds<float>::lowest();
    for (long i = 0; i < items * LANES; ++i) peak = greater(peak, widen(row[i]));
    Kept *kept = new Kept[items * LANES];
    auto packed = [&](long item, float (&values)[LANES]) {
        for (int k = 0; k < LANES; ++k) values[k] = widen(row[item * LANES + k]);
    };
    for (auto &each : states) each.clear(HELD ? peak : Bounds<float>::lowest());
    for (long item = 0; item < items; ++item) {
        float values[LANES];
        packed(item, values);
        states[item % THREADS].add({}, values, item, (Kept(&)[LANES])kept[item * LANES]);
    }
    for (long i = 1; i < THREADS; ++i) states[0].merge(states[i]);
    Numbers numbers = {};
    numbers.count = items * LANES;
    Row result = Row::of(states[0], numbers);
    for (long item = 0; item < items; ++item) {
        float values[LANES];
        packed(item, values);
        undecided[item] = result.at_once<HELD && KEEPS>(
            {}, values, (Kept(&)[LANES])kept[item * LANES], {}, (Element(&)[LANES])results[item * LANES]);
    }
    delete[] kept;
}
"""


def _built(folder: Path, name: str, dtype: type, held: bool) -> ctypes.CDLL:
    macros = {
        **dict(OF_PAIRS),
        **{"PAIRS": 1, "ELEMENT": "f16" if dtype is np.float16 else "f32", "LANES": _LANES, "HELD": int(held)},
        "LOGARITHM": int(name == "LOG_SOFTMAX"),
    }
    parts = [f"#define {key} {value}\n" for key, value in macros.items()]
    parts += map(kernel_text, ("floats", "certified", "pairs", "normalization/numbers"))
    parts += ["typedef Pack<Element, LANES> Lanes;\nnamespace settling { static void prepare() {} }\n", logarithms()]
    parts += map(
        kernel_text, ("normalization/exponential_pairs", "normalization/totals", "normalization/softmax_pairs")
    )
    return compiled(folder, f"{name}_{np.dtype(dtype)}_{held}", "\n".join([*parts, _CALLS]))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, type, bool], ctypes.CDLL]:
    folder = tmp_path_factory.mktemp("softmax")
    return {kind: _built(folder, *kind) for kind in _KINDS}


def normalized(library: ctypes.CDLL, row: Array) -> tuple[Array, Array]:
    """Returns the results of a row, and which of them are settled."""
    results, undecided = np.empty_like(row), np.empty(row.size // _LANES, np.uint32)
    addresses = [ctypes.c_void_p(each.ctypes.data) for each in (row, results, undecided)]
    library.normalize(ctypes.c_long(row.size // _LANES), *addresses)
    settled = (undecided[:, None] >> np.arange(_LANES) & 1) == 0
    return results, settled.reshape(-1)


def rows(dtype: type) -> dict[str, Array]:
    draw = np.random.default_rng(6)
    far = draw.standard_normal(400) * 40
    masked = np.where(draw.random(400) < 0.5, -np.inf, draw.standard_normal(400))
    rising = np.sort(draw.standard_normal(400) * 5)
    found = {
        "usual": draw.standard_normal(40_000) * 3,
        "equal": np.full(400, 0.3),
        **{"far": far, "masked": masked, "rising": rising, "falling": rising[::-1]},
        "dominated": np.append(draw.standard_normal(199) * 40, 190),
        "vanishing": np.append(np.full(999, -300), 5),
        "large": 1000 + draw.standard_normal(4000),
        "one": np.array([5, -1e4, -1e4, -np.inf]),
        "nothing": np.full(8, -np.inf),
        "infinite": np.array([1, np.inf, 2, -np.inf]),
        "not a number": np.array([1, np.nan, 2, -np.inf]),
        "lowest": np.array([-65504, -65504, -np.inf, -np.inf]),
    }
    return {name: np.ascontiguousarray(each, dtype) for name, each in found.items()}


@pytest.mark.parametrize(("name", "dtype"), dict.fromkeys((name, dtype) for name, dtype, _ in _KINDS))
def test_settled_results_are_right(built, cpu, name, dtype):
    for kind, row in rows(dtype).items():
        inputs = {"InputTensor": row.reshape(1, -1)}
        right = answer(cpu, plan_of(f"ACTIVATION_{name}", inputs), inputs).reshape(-1)
        for held in _HELD:
            results, settled = normalized(built[name, dtype, held], row)
            same = results.view(f"u{row.itemsize}") == right.view(f"u{row.itemsize}")
            wrong = settled & ~same & ~(np.isnan(results) & np.isnan(right))
            assert not wrong.any(), (kind, held, row[wrong][:5], results[wrong][:5], right[wrong][:5])


@pytest.mark.parametrize(("name", "dtype", "held"), _KINDS)
def test_nearly_all_results_are_settled(built, name, dtype, held):
    found = rows(dtype)
    for kind in ("usual", "equal", "rising", "falling", "large", "masked", "not a number", "infinite", "nothing"):
        _, settled = normalized(built[name, dtype, held], found[kind])
        assert settled.mean() > 0.999, (kind, settled.mean())


def test_exponentials_stay_within_their_bound(built):
    draw = np.random.default_rng(7)
    high = -np.concatenate([draw.uniform(0, 80, 3000), np.exp2(draw.uniform(-30, 6, 3000))]).astype(np.float32)
    low = (high * draw.uniform(-(2.0**-24), 2.0**-24, high.size)).astype(np.float32)
    low[high + low != high] = 0
    values = np.empty((high.size, 2), np.float32)
    addresses = [ctypes.c_void_p(each.ctypes.data) for each in (high, low, values)]
    built["SOFTMAX", np.float32, True].exponentials(ctypes.c_long(high.size), *addresses)
    with mpmath.workprec(120):
        for a, b, (c, d) in zip(high.tolist(), low.tolist(), values.tolist(), strict=True):
            exact = mpmath.exp(mpmath.mpf(a) + mpmath.mpf(b))
            error = abs(mpmath.mpf(c) + mpmath.mpf(d) - exact)
            most = (ROUGHLY + PER_UNIT * -a) * exact + 2.0**-148
            assert error <= most, f"e**{a!r} is off by {mpmath.log(error / exact, 2)} bits"


def test_the_bound_of_exponentials_is_proven():
    roughly, per_unit = bound()
    assert ROUGHLY / 1.5 < roughly <= ROUGHLY
    assert PER_UNIT / 1.5 < per_unit <= PER_UNIT
