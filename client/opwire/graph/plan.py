"""A checked graph: its operators in an order in which each comes after those that it takes its inputs from."""

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
    """What bytes a tensor of a node lies in."""

    INPUT = "input"
    OUTPUT = "output"
    BETWEEN = "between"


class Bytes(NamedTuple):
    """Bytes that tensors of a graph lie in.

    Attributes:
        place: those of an input of the graph's plan, of an output, or between nodes.
        name: of the input or output; of others a number.
    """

    place: Place
    name: str | int


class Step(NamedTuple):
    """An operator of a graph.

    Attributes:
        name: of its node.
        plan: of its operator.
        inputs, outputs: for each tensor of the plan, by name, the bytes that it lies in.
    """

    name: str
    plan: Plan
    inputs: Mapping[str, Bytes]
    outputs: Mapping[str, Bytes]


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The attributes of a graph's plan.

    Attributes:
        steps: in the order in which they run.
        between: for the bytes between nodes, by number, how many there are: multiples of 4.
        copies: outputs of the graph that no step writes: by name, the bytes that they are copied from.
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
"""What the plan of a graph has in the place of an operator type; it is none of DirectML's."""


def graph_plan(
    steps: Steps,
    level: FeatureLevel,
    inputs: Mapping[str, BufferTensorDesc],
    outputs: Mapping[str, BufferTensorDesc],
) -> Plan:
    """A graph as a plan, which devices run as any other."""
    return Plan(GRAPH, level, steps, inputs, outputs, _work(steps, {}))


def operator_plans(plan: Plan) -> tuple[Plan, ...]:
    """The plans of the operators that a plan runs: of a graph's steps, or itself."""
    return tuple(step.plan for step in plan.attributes.steps) if plan.operator is GRAPH else (plan,)
