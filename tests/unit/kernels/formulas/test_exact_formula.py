"""Exact arithmetic on many elements matches one-by-one evaluation, whatever float64 holds exactly."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from opwire.check import Plan
from opwire.errors import ContractViolation
from opwire.formulas import Constant, InputElement, Operation
from opwire.operators import OPERATORS
from opwire.tensor import Array
from opwire_service.kernels.formulas import bounded
from opwire_service.kernels.formulas.exact_formula import ExactFormula
from opwire_service.kernels.formulas.formula import formula_of
from tests.support.elements import FORMULAS, plan_of

X = np.array([0.0, -0.0, 1.0, -1.0, 2.5, 1e-40, 3e38, np.inf, -np.inf, np.nan, 0.25], np.float32)
Y = np.roll(X, 3)


def tensors(name: str) -> dict[str, Array]:
    wanted = [member.name for member in OPERATORS[name].members.inputs if not member.optional]
    return dict(zip(wanted, (X, Y, X), strict=False))


def formula_plans() -> dict[str, Plan]:
    """Returns plans of all operators with a formula that take FLOAT32, by name."""
    found = {}
    for name in FORMULAS:
        with suppress(ContractViolation):
            found[name] = plan_of(name, tensors(name))
    return found


@pytest.mark.parametrize(("name", "plan"), formula_plans().items())
def test_many_elements_match_one_by_one(name, plan):
    formula = formula_of(plan)
    exact = ExactFormula(formula.expression, formula.inputs, formula.output)
    taken = {each: tensors(name)[each] for each in formula.inputs}
    at_once = exact.of_all(taken, lambda: False)
    one_by_one = [exact.of({each: array[k] for each, array in taken.items()}) for k in range(X.size)]
    np.testing.assert_array_equal(at_once, np.array(one_by_one, at_once.dtype))
    assert (np.signbit(at_once) == np.signbit(one_by_one))[~np.isnan(at_once)].all()


@pytest.mark.parametrize("outer", [None, "absolute", "negate", "maximum"])
@pytest.mark.parametrize("shift", [2.0**-100, -(2.0**-100)])
def test_sums_next_to_a_tie_need_no_exact_arithmetic(shift, outer):
    """Half an ULP above a float, a tiny summand decides whether to round up or down."""
    below = np.linspace(1, 2, 50, endpoint=False, dtype=np.float32)
    expression = Operation("add", (InputElement("X"), Constant(shift)))
    if outer is not None:
        expression = Operation(outer, (expression, Constant(-9.0)) if outer == "maximum" else (expression,))
    ties = {"X": below.astype(np.float64) + 2.0**-24}
    found, is_undecided = bounded.settle(expression, ties, lambda values: values.astype(np.float32))
    right = np.nextafter(below, np.float32(9)) if shift > 0 else below
    assert not is_undecided.any()
    assert np.array_equal(found, -right if outer == "negate" else right)
