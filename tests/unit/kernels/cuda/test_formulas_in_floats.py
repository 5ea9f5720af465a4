"""Activations, powers and sums without float64, run on the host: the CPU's results, nearly all of them settled."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from opwire.check import Plan
from opwire.tensor import Array
from opwire_service.kernels.cuda.formula_source import FormulaSource
from opwire_service.kernels.formulas.formula import formula_of
from tests.support.elements import answer, drawn_floats, plan_of
from tests.support.gpu.on_host import COMPILER, OnHost

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")

TYPES = np.float32, np.float16
COUNT = 4096


class Case(NamedTuple):
    """An operator and its attributes; whether it takes two tensors."""

    operator: str
    attributes: dict[str, Any]
    has_two: bool = False

    def plan(self, elements: dict[str, Array]) -> Plan:
        return plan_of(self.operator, elements, **self.attributes)


def _fused(activation: str, **desc: float) -> Case:
    fused = {"Type": f"ACTIVATION_{activation}", "Desc": desc}
    return Case("ELEMENT_WISE_ADD1", {"FusedActivation": fused}, has_two=True)


EXPONENTS = -2.5, -2, -1, -0.5, 0.5, 1, 1.5, 2, 2.5, 3, 4

CASES = {
    "hard swish": Case("ACTIVATION_HARD_SWISH", {"Alpha": 1 / 6, "Beta": 0.5}),
    "exact hard swish": Case("ACTIVATION_HARD_SWISH", {"Alpha": 0.25, "Beta": 0.5}),
    "falling hard swish": Case("ACTIVATION_HARD_SWISH", {"Alpha": -0.7, "Beta": -0.1}),
    "hard sigmoid": Case("ACTIVATION_HARD_SIGMOID", {"Alpha": 0.2, "Beta": 0.5}),
    "linear": Case("ACTIVATION_LINEAR", {"Alpha": 1.7, "Beta": 1}),
    "scaled": Case("ELEMENT_WISE_IDENTITY", {"ScaleBias": {"Scale": 0.7, "Bias": 0.1}}),
    "scaled magnitude": Case("ELEMENT_WISE_ABS", {"ScaleBias": {"Scale": 1, "Bias": 1}}),
    **{f"power {exponent}": Case("ELEMENT_WISE_CONSTANT_POW", {"Exponent": exponent}) for exponent in EXPONENTS},
    "sum and relu": _fused("RELU"),
    "sum and leaky relu": _fused("LEAKY_RELU", Alpha=0.01),
    "sum and elu": _fused("ELU", Alpha=1),
    "sum and gelu": _fused("GELU"),
    "sum and sigmoid": _fused("SIGMOID"),
    "sum and tanh": _fused("TANH"),
    "sum and softsign": _fused("SOFTSIGN"),
    "softsign": Case("ACTIVATION_SOFTSIGN", {}),
    "difference": Case("ELEMENT_WISE_DIFFERENCE_SQUARE", {}, has_two=True),
    "sum and hard sigmoid": _fused("HARD_SIGMOID", Alpha=0.2, Beta=0.5),
}


def usual(dtype: type, *, has_two: bool) -> dict[str, Array]:
    draw = np.random.default_rng(9)
    names = ("ATensor", "BTensor") if has_two else ("InputTensor",)
    return {name: (draw.standard_normal(COUNT) * (1 if has_two else 3)).astype(dtype) for name in names}


def narrowed(elements: Array, dtype: type) -> Array:
    with np.errstate(over="ignore"):
        return elements.astype(dtype)


def special(dtype: type, *, has_two: bool) -> dict[str, Array]:
    """Returns elements of all magnitudes, both zeros, infinities, NaN, and whole and equal ones."""
    found = usual(dtype, has_two=has_two)
    draw = np.random.default_rng(10)
    for number, (name, each) in enumerate(found.items()):
        ends: Array = np.array([0, -0.0, np.inf, -np.inf, np.nan, np.finfo(dtype).max, -np.finfo(dtype).max], dtype)
        each[:1000] = narrowed(drawn_floats(1000, seed=number), dtype)
        each[1000:2000] = draw.choice(ends, 1000)
        each[2000:3000] = draw.integers(-8, 8, 1000)
        each[3000:] = next(iter(found.values()))[3000:] * draw.choice([1, -1], COUNT - 3000).astype(dtype)
        found[name] = each
    return found


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> OnHost:
    formulas = {
        identifier(name, dtype): formula_of(case.plan(usual(dtype, has_two=case.has_two)))
        for name, case in CASES.items()
        for dtype in TYPES
    }
    found = {
        each: formula for each, formula in formulas.items() if FormulaSource.of(formula, in_pairs=True).in_floats()
    }
    assert formulas.keys() - found.keys() == IN_FLOAT64
    return OnHost(tmp_path_factory.mktemp("formulas"), found)


def identifier(name: str, dtype: type) -> str:
    return f"{name.translate(str.maketrans(' -.', '_mp'))}_{np.dtype(dtype)}"


IN_FLOAT64 = {f"{name}_float16" for name in ("linear", "scaled", "scaled_magnitude", "hard_sigmoid")} | {
    *("difference_float16", "sum_and_hard_sigmoid_float32", "sum_and_hard_sigmoid_float16"),
}
SETTLED = [(name, dtype) for name in CASES for dtype in TYPES if identifier(name, dtype) not in IN_FLOAT64]


@pytest.mark.parametrize(("name", "dtype"), SETTLED)
def test_settled_results_are_those_of_the_cpu(host, cpu, name, dtype):
    case = CASES[name]
    for draw in (usual, special):
        elements = draw(dtype, has_two=case.has_two)
        right = answer(cpu, case.plan(elements), elements)
        computed = host.run(identifier(name, dtype), *elements.values())
        bits = f"u{right.itemsize}"
        wrong = computed.settled & (computed.results.view(bits) != right.view(bits))
        wrong &= ~(np.isnan(computed.results) & np.isnan(right))
        assert not wrong.any(), (*(each[wrong][:5] for each in elements.values()), computed.results[wrong][:5])
        assert draw is special or computed.settled[~np.isnan(right)].mean() > (0.997 if dtype is np.float32 else 0.99)


@pytest.mark.parametrize(
    "name", ["linear", "scaled", "scaled magnitude", "hard sigmoid", "power -1", "power 1", "power 2"]
)
def test_what_rounds_once_is_always_settled(name):
    elements = usual(np.float32, has_two=False)
    assert FormulaSource.of(formula_of(CASES[name].plan(elements))).is_always_settled
