"""REDUCE, group by group."""

from __future__ import annotations

from collections.abc import Mapping

from opwire.check import Plan
from opwire.tensor import Array
from tests.oracles import oracle


def _reduce(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Array]:
    return oracle.of_groups(plan, inputs, plan.attributes.Function.name)


EXPECTED = {"REDUCE": _reduce}
