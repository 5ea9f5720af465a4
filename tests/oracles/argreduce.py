"""ARGMIN and ARGMAX, group by group."""

from __future__ import annotations

from collections.abc import Mapping

from opwire.check import Plan
from opwire.tensor import Array
from tests.oracles import oracle


def _argreduce(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Array]:
    is_last = plan.attributes.AxisDirection.name == "DECREASING"
    return oracle.of_groups(plan, inputs, plan.operator.name, last=is_last)


EXPECTED = dict.fromkeys(("ARGMIN", "ARGMAX"), _argreduce)
