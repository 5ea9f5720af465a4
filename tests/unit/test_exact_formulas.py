"""Exact arithmetic on many elements matches one-by-one evaluation, whatever float64 holds exactly."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from opwire.check import Plan
from opwire.errors import ContractViolation
from opwire.operators import OPERATORS
from opwire.tensor import Array
from opwire_service.kernels.formulas.exactly import ExactFormula
from opwire_service.kernels.formulas.formula import formula_of
from tests.elements import FORMULAS, plan_of

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
