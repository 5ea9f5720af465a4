"""The documented accuracy of every operator, against the bounds that its oracle enforces."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from opwire.check import check
from opwire.describe import describe, whole_schema
from opwire.schema import CATALOG, Promise, schema_of
from tests.oracles import Reals, oracle_of
from tests.oracles.oracle import LOGARITHMS
from tests.support.examples import ROWS, Row, by_tensor
from tests.support.rows import for_each

HALF = Fraction(1, 2)


def bounds(row: Row) -> list[Fraction]:
    """Returns the allowed error in ULPs of each real output of an example."""
    oracle = oracle_of(row.operator.name)
    assert oracle is not None
    plan = check(row.request, row.example.level)
    function = getattr(plan.attributes, "Function", None)
    if function is not None and function.name in LOGARITHMS:
        return [Fraction(1)]
    inputs = {
        name: np.array(values, str).astype(plan.inputs[name].data_type.dtype).reshape(plan.inputs[name].sizes)
        for name, values in by_tensor(row.operator, row.example.inputs).items()
    }
    return [each.ulps for each in oracle(plan, inputs).values() if isinstance(each, Reals)]


def by_operator() -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in ROWS:
        found.setdefault(row.operator.name, []).append(row)
    return found


BY_OPERATOR = by_operator()


@for_each(BY_OPERATOR)
def test_oracles_enforce_the_documented_accuracy(name: str) -> None:
    promised = {each.promise for each in schema_of(name).accuracy}
    found = {bound for row in BY_OPERATOR[name] for bound in bounds(row)}
    assert found <= {HALF, Fraction(1)}
    if Fraction(1) in found:
        assert Promise.WITHIN_1_ULP in promised
    if found:
        assert promised != {Promise.EXACT}


def test_every_operator_documents_its_accuracy() -> None:
    whole: dict[str, Any] = whole_schema()["operators"]
    for name, kind in CATALOG.items():
        first, *others = schema_of(name).accuracy
        assert not first.where
        assert all(each.where for each in others)
        told = describe(kind)["accuracy"]
        assert told == [{"promise": each.promise, "where": each.where or None} for each in (first, *others)]
        assert json.loads(json.dumps(told))[0]["promise"] == whole[name]["accuracy"][0]["promise"]


@pytest.mark.parametrize(
    ("name", "promises"),
    [
        ("ARGMAX", ["exact"]),
        ("GATHER", ["exact"]),
        ("ELEMENT_WISE_EXP", ["correctly_rounded"]),
        ("GEMM", ["correctly_rounded", "within_1_ulp"]),
        ("REDUCE", ["correctly_rounded", "exact", "within_1_ulp"]),
        ("ADAM_OPTIMIZER", ["within_1_ulp"]),
    ],
)
def test_accuracies_match_the_documentation(name: str, promises: list[str]) -> None:
    assert [each.promise.value for each in schema_of(name).accuracy] == promises
