"""Plans of checked graphs: the operators in topological order, and the buffers between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from ..check import Plan
from ..fields import Members
from ..level import FeatureLevel
from ..operator import Operator, RuleSet, Tensors
from ..schema import OperatorSchema
from ..support import Support
from ..tensor import BufferTensorDesc


class Place(Enum):
    """The kinds of buffers that hold the tensors of nodes."""

    __hash__ = object.__hash__  # that of an Enum is a function in Python

    INPUT = "input"
    OUTPUT = "output"
    BETWEEN = "between"


class Bytes(NamedTuple):
    """A buffer that holds tensors of a graph.

    Attributes:
        place: whether it is an input of the graph's plan, an output, or between nodes.
        name: the name of the input or output; a number for a buffer between nodes.
    """

    place: Place
    name: str | int


class Step(NamedTuple):
    """An operator of a graph.

    Attributes:
        name: the name of its node.
        plan: the plan of its operator.
        inputs, outputs: the buffers of the plan's tensors, by name.
    """

    name: str
    plan: Plan
    inputs: Mapping[str, Bytes]
    outputs: Mapping[str, Bytes]


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The attributes of a graph's plan.

    Attributes:
        steps: the steps, in the order in which they run.
        between: the sizes in bytes of the buffers between nodes, by number; multiples of 4.
        copies: the buffers from which outputs that no step writes are copied, by name of the output.
    """

    steps: tuple[Step, ...]
    between: tuple[int, ...]
    copies: Mapping[str, Bytes]


def _work(attributes: Steps, tensors: Tensors) -> int:
    return sum(step.plan.work for step in attributes.steps)


_SCHEMA = OperatorSchema(
    "GRAPH",
    "DML_GRAPH_DESC",
    "Runs operators that feed each other.",
    "https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_graph_desc",
    (),
    Members.of([]),
    {},
    Support(None, ()),
    (),
)

GRAPH: Operator[Steps] = Operator(
    name=_SCHEMA.name,
    schema=_SCHEMA,
    members=_SCHEMA.members,
    support=_SCHEMA.support,
    attributes=Steps,
    rules=(),
    on_attributes=RuleSet(()),
    on_inputs=RuleSet(()),
    on_outputs=RuleSet(()),
    outputs={},
    work=_work,
    formula=None,
    examples=(),
    bad_examples=(),
)
"""The pseudo-operator of a graph's plan; DirectML has no such operator type."""


def graph_plan(
    steps: Steps, level: FeatureLevel, inputs: Mapping[str, BufferTensorDesc], outputs: Mapping[str, BufferTensorDesc]
) -> Plan:
    """Returns the plan of a graph, which devices run like any other."""
    return Plan(GRAPH, level, steps, inputs, outputs, _work(steps, {}))


def operator_plans(plan: Plan) -> tuple[Plan, ...]:
    """Returns the plans of the operators that a plan runs: those of a graph's steps, or the plan itself."""
    return tuple(step.plan for step in plan.attributes.steps) if plan.operator is GRAPH else (plan,)
