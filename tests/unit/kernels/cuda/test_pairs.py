"""Functions in pairs of FLOAT32 as generated for GPUs, compiled for the host: what they settle is right."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from opwire.tensor import Array, DataType
from opwire_service.devices.base import Device
from opwire_service.kernels.cuda.formula_source import FormulaSource
from opwire_service.kernels.cuda.job import Card
from opwire_service.kernels.cuda.pair_source import pair_lines
from opwire_service.kernels.formulas import pairs
from opwire_service.kernels.formulas.formula import PlanFormula, formula_of
from tests.support.elements import answer, drawn_floats, plan_of, unary
from tests.support.gpu.on_host import COMPILER, Computed, OnHost

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")

TYPES = np.float32, np.float16

NARROW = ("ASIN", "ACOS", "ATANH")
"""Functions defined from -1 to 1."""


def formula(name: str, dtype: type) -> PlanFormula:
    return formula_of(plan_of(name, {"InputTensor": np.zeros(1, dtype)}))


def has_pairs(name: str) -> bool:
    found = formula(name, np.float32)
    source = FormulaSource.of(found)
    return not source.is_always_settled and bool(pair_lines(found, source.names))


NAMES = [name for name in unary(DataType.FLOAT32) if has_pairs(name)]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> OnHost:
    found = {f"{name}_{dtype.__name__}": formula(name, dtype) for name in NAMES for dtype in TYPES}
    return OnHost(tmp_path_factory.mktemp("pairs"), found)


def usual(name: str, count: int) -> Array:
    drawn = np.random.default_rng(3).standard_normal(count) * 3
    if name.removeprefix("ELEMENT_WISE_") in NARROW:
        drawn = np.random.default_rng(4).uniform(-1, 1, count)
    if name.endswith(("_LOG", "ACOSH", "POW")):
        drawn = np.abs(drawn) + name.endswith("ACOSH")
    return drawn.astype(np.float32)


def check_settled(computed: Computed, device: Device, name: str, elements: Array) -> None:
    """Compares all bits of settled results with those of a device."""
    right = answer(device, plan_of(name, {"InputTensor": elements}), {"InputTensor": elements})
    kind = f"u{right.itemsize}"
    wrong = computed.settled & (computed.results.view(kind) != right.view(kind))
    wrong &= ~(np.isnan(computed.results) & np.isnan(right))
    assert not wrong.any(), (elements[wrong][:5], computed.results[wrong][:5], right[wrong][:5])


@pytest.mark.parametrize("name", NAMES)
def test_settled_results_are_right(host, cpu, name):
    for elements in (drawn_floats(50_000, seed=4), usual(name, 50_000)):
        check_settled(host.run(f"{name}_float32", elements), cpu, name, elements)


@pytest.mark.parametrize("name", NAMES)
def test_settled_halves_are_right(host, cpu, name):
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    check_settled(host.run(f"{name}_float16", halves), cpu, name, halves)


@pytest.mark.parametrize("name", NAMES)
def test_nearly_all_usual_results_are_settled(host, name):
    assert host.run(f"{name}_float32", usual(name, 100_000)).settled.mean() > 0.998
    halves = usual(name, 100_000).astype(np.float16)
    if name.removeprefix("ELEMENT_WISE_") in NARROW:
        halves = halves[np.abs(halves) < 1]
    assert host.run(f"{name}_float16", halves).settled.mean() > 0.995


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("POW")])
def test_zeros_infinities_and_nan_are_settled(host, cpu, name, dtype):
    elements = np.array([0, -0.0, np.inf, -np.inf, np.nan], dtype)
    identifier = f"{name}_{np.dtype(dtype)}"
    assert host.run(identifier, elements).settled.all()
    check_settled(host.run(identifier, elements), cpu, name, elements)


def test_vanishing_exponentials_are_settled(host):
    computed = host.run("ELEMENT_WISE_EXP_float32", np.array([-110, -1e4, -1e30, -np.inf], np.float32))
    assert computed.settled.all()
    np.testing.assert_array_equal(computed.results, 0)


REAL = {
    "gelu": ("ACTIVATION_GELU", lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2, 11),
    **{
        name: (f"ELEMENT_WISE_{name.upper()}", getattr(mpmath, name), most)
        for name, most in {"exp": 60, "log": 1e9, "tanh": 30, "sinh": 80, "cosh": 80, "erf": 4, "atan": 1e9}.items()
    },
    **{name: (f"ELEMENT_WISE_{name.upper()}", getattr(mpmath, name), pairs.TURNS) for name in ("sin", "cos", "tan")},
    **{name: (f"ELEMENT_WISE_{name.upper()}", getattr(mpmath, name), 1) for name in ("asin", "acos", "atanh")},
    **{name: (f"ELEMENT_WISE_{name.upper()}", getattr(mpmath, name), 1e9) for name in ("asinh", "acosh")},
    "power": ("ELEMENT_WISE_CONSTANT_POW", lambda x: x ** mpmath.mpf(float(np.float32(0.7))), 1e9),
}
"""The operator of a function, the function, and the range of its operand."""


def _assert_bound(host: OnHost, name: str, count: int) -> None:
    operator, function, most = REAL[name]
    draw = np.random.default_rng(5)
    sizes = np.exp2(draw.uniform(-27, np.log2(most), count)) * draw.choice([-1, 1], count)
    points = np.concatenate([sizes, draw.uniform(-1, 1, count) * min(most, 12)]).astype(np.float32)
    points = np.abs(points) if name in ("log", "power") else np.abs(points) + 1 if name == "acosh" else points
    computed = host.run(f"{operator}_float32", points)
    finite = np.isfinite(computed.low) & (np.abs(computed.high) > 0)
    assert finite.mean() > 0.9
    with mpmath.workprec(120):
        for x, high, low in zip(
            *(each[finite].tolist() for each in (points, computed.high, computed.low)), strict=True
        ):
            exact = function(mpmath.mpf(x))
            error = abs(mpmath.mpf(high) + mpmath.mpf(low) - exact) / abs(exact)
            assert error <= pairs.PAIRS.own[name], f"{name} of {x!r} is off by {mpmath.log(error, 2)} bits"


@pytest.mark.parametrize("name", REAL)
def test_functions_stay_within_their_bounds(host, name):
    _assert_bound(host, name, 300)


TURNING = "sin", "cos", "tan"


def _near_quarters(count: int) -> Array:
    """Returns the floats nearest to multiples of pi/2, and those next to them."""
    drawn = np.random.default_rng(6).integers(1, int(pairs.TURNS * 2 / np.pi), count)
    quarters = np.concatenate([np.arange(1, 500), drawn])
    nearest = (quarters * (np.pi / 2)).astype(np.float32)
    found: Array = np.concatenate([nearest, np.nextafter(nearest, 0), np.nextafter(nearest, np.float32(np.inf))])
    return np.concatenate([found, -found])


@pytest.mark.parametrize("name", TURNING)
def test_angles_near_quarter_turns_keep_the_bound_where_they_are_settled(host, name):
    angles = _near_quarters(1000)
    computed = host.run(f"ELEMENT_WISE_{name.upper()}_float32", angles)
    assert computed.settled.mean() > 0.5
    with mpmath.workprec(120):
        for x, high, low in zip(
            *(each[computed.settled].tolist() for each in (angles, computed.high, computed.low)), strict=True
        ):
            exact = getattr(mpmath, name)(mpmath.mpf(x))
            assert abs(mpmath.mpf(high) + mpmath.mpf(low) - exact) <= pairs.PAIRS.own[name] * abs(exact), x


@pytest.mark.parametrize("name", TURNING)
def test_turns_are_decided_up_to_their_limit_only(host, name):
    draw = np.random.default_rng(7)
    near, far = draw.uniform(-pairs.TURNS, pairs.TURNS, 10_000), pairs.TURNS * np.exp2(draw.uniform(1e-6, 100, 1000))
    assert host.run(f"ELEMENT_WISE_{name.upper()}_float32", near.astype(np.float32)).settled.mean() > 0.998
    assert not host.run(f"ELEMENT_WISE_{name.upper()}_float32", far.astype(np.float32)).settled.any()


@pytest.mark.thorough
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", REAL)
def test_functions_stay_within_their_bounds_at_many_points(host, name):
    _assert_bound(host, name, 50_000)


@pytest.mark.parametrize(("ratio", "in_pairs"), [(2, False), (32, True), (64, True)])
def test_cards_with_few_float64_units_compute_in_pairs(ratio, in_pairs):
    assert Card(40, ratio).prefers_pairs == in_pairs
