"""Fuses the steps of a graph: formulas that feed each other run as one, each other step by itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from opwire.formulas import Expression, InputElement, Operation
from opwire.graph import Bytes, Step, Steps
from opwire.tensor import BufferTensorDesc, DataType

from ....execution import Bound, Stop
from ...chains import ChainMember, StepGroup, grouped
from ...formulas.formula import PlanFormula
from ...graph import GraphTensors
from ..run.graph import GraphPart
from ..run.job import Job
from ..run.pool import Find, Pool
from .code import AS_STORED
from .compiled import LEAST_COMPILED
from .family import ElementsJob

MOST_FUSED = 16
"""Maximum number of formulas fused into one."""


class FusedParts(NamedTuple):
    """The parts that run a graph.

    Attributes:
        parts: the parts in order.
        groups: for each part, the indices of its steps.
        passing, shared: see ``Grouping``.
    """

    parts: tuple[GraphPart, ...]
    groups: tuple[range, ...]
    passing: frozenset[int]
    shared: Mapping[int, int]


def fused(steps: Steps, jobs: Sequence[Job]) -> FusedParts:
    """Fuses steps of a graph.

    Args:
        steps: the steps.
        jobs: the job of each step alone.
    """
    formulas = [job if isinstance(job, ElementsJob) and not job.channels else None for job in jobs]
    found = grouped(steps, formulas, MOST_FUSED, _fit, in_place=_may_be_in_place, only_last=True)
    parts = tuple(_part(group, steps, jobs) for group in found.groups)
    return FusedParts(parts, tuple(group.steps for group in found.groups), found.passing, found.shared)


def _fit(one: ElementsJob, other: ElementsJob) -> bool:
    is_alike = (one.target.sizes, one.target.data_type) == (other.target.sizes, other.target.data_type)
    return is_alike and one.is_composable and other.is_composable


def _may_be_in_place(job: ElementsJob) -> bool:
    return not job.target.data_type.is_packed and (job.target.element_count <= LEAST_COMPILED or job.is_in_place)


def _part(group: StepGroup[ElementsJob], steps: Steps, jobs: Sequence[Job]) -> GraphPart:
    if not group.members:
        return GraphPart(steps.steps[group.steps.start], jobs[group.steps.start])
    last = group.members[-1]
    step, job = (last.step, last.job) if len(group.members) == 1 else _composed(group.members)
    return InPlace(step, job) if last.in_place else GraphPart(step, job)


def _composed(members: Sequence[ChainMember[ElementsJob]]) -> tuple[Step, ElementsJob]:
    """Returns chained formulas as one step; its tensors are named by numbers."""
    numbers: dict[tuple[Bytes, tuple[int, ...]], str] = {}
    inputs: dict[str, BufferTensorDesc] = {}
    places: dict[str, Bytes] = {}
    expression: Expression | None = None
    for member in members:
        known: dict[str, Expression] = {}
        for name, at in member.step.inputs.items():
            desc = member.step.plan.inputs[name]
            if name in member.links:
                assert expression is not None  # the previous member's
                is_half = desc.data_type is DataType.FLOAT16
                known[name] = Operation(AS_STORED, (expression,)) if is_half else expression
                continue
            number = numbers.setdefault((at, desc.element_strides), str(len(numbers)))
            inputs[number], places[number], known[name] = desc, at, InputElement(number)
        expression = _replaced(member.job.formula.expression, known)
    last = members[-1]
    types = {name: desc.data_type for name, desc in inputs.items()}
    assert expression is not None
    formula = PlanFormula(expression, types, last.job.formula.output, last.job.output, {})
    plan = replace(last.step.plan, inputs=inputs, work=sum(member.step.plan.work for member in members))
    return Step(last.step.name, plan, places, last.step.outputs), ElementsJob(plan, formula)


def _replaced(expression: Expression, known: Mapping[str, Expression]) -> Expression:
    match expression:
        case InputElement(name):
            return known[name]
        case Operation(primitive, operands):
            return Operation(primitive, tuple(_replaced(operand, known) for operand in operands))
    return expression


@dataclass(frozen=True, slots=True)
class InPlace(GraphPart):
    """A formula whose output shares memory with an input; unless it can run in place, it uses a temporary array."""

    job: ElementsJob

    @property
    def _is_copied(self) -> bool:
        return self.job.target.element_count <= LEAST_COMPILED or not self.job.is_in_place

    def run(self, tensors: GraphTensors, find: Find, pool: Pool, stop: Stop) -> None:
        """See ``GraphPart``."""
        self.bind(tensors, (), find, pool)(stop)

    def bind(self, tensors: GraphTensors, fixed: Collection[Bytes], find: Find, pool: Pool) -> Bound:
        """See ``GraphPart``."""
        inputs, outputs = tensors.of(self.step)
        if not self._is_copied:
            return self.job.bind(inputs, outputs, find, pool)
        _, beside = self.job.target.allocate()
        compute, target = self.job.bind(inputs, {self.job.output: beside}, find, pool), outputs[self.job.output]

        def run(stop: Stop) -> None:
            compute(stop)
            target[...] = beside

        return run

    def scratch_bytes(self, threads: int) -> int:
        """See ``GraphPart``."""
        return self.job.scratch_bytes(threads) + (self.job.target.data_size_in_bytes if self._is_copied else 0)
