"""Logical and comparison operators, by Python's comparisons of exact numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from opwire.check import Plan
from tests.oracles import Oracle
from tests.oracles.elements import each, output_type

_PAIR = ("ATensor", "BTensor")


def _truth(function: Callable[..., Any], *names: str) -> Oracle:
    """Returns the oracle of a function of Python integers and floats, which compare exactly."""
    return each(lambda plan, *elements: output_type(plan).type(bool(function(*(x.item() for x in elements)))), *names)


def _is_infinity(plan: Plan, x: Any) -> Any:
    mode, value = plan.attributes.InfinityMode.name, float(x)
    found = math.isinf(value) and {"EITHER": True, "POSITIVE": value > 0, "NEGATIVE": value < 0}[mode]
    return output_type(plan).type(found)


EXPECTED = {
    "ELEMENT_WISE_LOGICAL_AND": _truth(lambda a, b: a and b, *_PAIR),
    "ELEMENT_WISE_LOGICAL_OR": _truth(lambda a, b: a or b, *_PAIR),
    "ELEMENT_WISE_LOGICAL_XOR": _truth(lambda a, b: bool(a) is not bool(b), *_PAIR),
    "ELEMENT_WISE_LOGICAL_NOT": _truth(lambda x: not x, "InputTensor"),
    "ELEMENT_WISE_LOGICAL_EQUALS": _truth(operator.eq, *_PAIR),
    "ELEMENT_WISE_LOGICAL_GREATER_THAN": _truth(operator.gt, *_PAIR),
    "ELEMENT_WISE_LOGICAL_LESS_THAN": _truth(operator.lt, *_PAIR),
    "ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL": _truth(operator.ge, *_PAIR),
    "ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL": _truth(operator.le, *_PAIR),
    "ELEMENT_WISE_IS_NAN": _truth(math.isnan, "InputTensor"),
    "ELEMENT_WISE_IS_INFINITY": each(_is_infinity, "InputTensor"),
    "ELEMENT_WISE_IF": each(lambda plan, chosen, a, b: a if chosen else b, "ConditionTensor", *_PAIR),
}
