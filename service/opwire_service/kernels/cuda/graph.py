"""Runs a graph as a sequence of GPU jobs: chains of formulas are fused, and intermediates stay on the GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from opwire.check import Plan
from opwire.errors import NotExecutableError, ProblemCode
from opwire.graph import GRAPH, Bytes, Place, Step, Steps
from opwire.operators import OPERATORS
from opwire.tensor import BufferTensorDesc, DataType

from ..chains import ChainMember, StepGroup, are_alike, grouped
from ..graph import GraphMemory
from .element_source import Formula
from .elementwise import MOST, CudaElementsJob, OperandSource, is_chainable
from .job import CudaJob, device_desc
from .spreading import Spread


class PlacedTensor(NamedTuple):
    """A tensor of a graph part: the bytes it occupies and its layout."""

    at: Bytes
    desc: BufferTensorDesc


@dataclass(frozen=True, slots=True)
class CudaGraphPart:
    """The job for one step of a graph, or for several.

    Attributes:
        job: the GPU job.
        inputs, outputs: its tensors, by the job's own names for them.
    """

    job: CudaJob
    inputs: Mapping[str, PlacedTensor]
    outputs: Mapping[str, PlacedTensor]


@dataclass(frozen=True, slots=True)
class CudaGraph:
    """The parts of a graph in order, and the placement of its intermediates."""

    memory: GraphMemory
    parts: tuple[CudaGraphPart, ...]


def graph_of(plan: Plan, job_of: Callable[[Plan], CudaJob]) -> CudaGraph:
    """Splits a graph into parts.

    Args:
        plan: the plan of the graph.
        job_of: returns the job of a step.
    """
    plan = without_gaps(plan)
    graph: Steps = plan.attributes
    jobs = [_job(step.plan, job_of) for step in graph.steps]
    formulas = [each if is_chainable(each) else None for each in jobs]
    found = grouped(graph, formulas, MOST, _fit)
    parts = tuple(_part(group, graph, jobs) for group in found.groups)
    return CudaGraph(GraphMemory(plan, tuple(group.steps for group in found.groups), found.passing), parts)


def _job(plan: Plan, job_of: Callable[[Plan], CudaJob]) -> CudaJob:
    return Spread(plan) if any(map(has_gaps, plan.outputs.values())) else job_of(plan)


def _fit(one: CudaElementsJob, other: CudaElementsJob) -> bool:
    """Returns whether two formulas write in the same order."""
    mine, theirs = one.target, other.target
    return (mine.sizes, mine.element_strides) == (theirs.sizes, theirs.element_strides)


def _part(group: StepGroup[CudaElementsJob], graph: Steps, jobs: list[CudaJob]) -> CudaGraphPart:
    if not group.members:
        step = graph.steps[group.steps.start]
        return CudaGraphPart(
            jobs[group.steps.start],
            {name: PlacedTensor(step.inputs[name], desc) for name, desc in step.plan.inputs.items()},
            {name: PlacedTensor(step.outputs[name], desc) for name, desc in step.plan.outputs.items()},
        )
    return _chain(group.members)


def _chain(members: Sequence[ChainMember[CudaElementsJob]]) -> CudaGraphPart:
    """Fuses the formulas of a chain into one job; its tensors are named by their index among its inputs and outputs."""
    sources: dict[tuple[Bytes, DataType, tuple[int, ...]], OperandSource] = {}
    inputs: dict[str, PlacedTensor] = {}
    outputs: dict[str, PlacedTensor] = {}
    formulas: list[Formula] = []
    for member in members:
        (formula,) = member.job.formulas
        operands = []
        for source in member.job.sources:
            if source.name in member.links:
                operands.append(~member.links[source.name])
                continue
            at = member.step.inputs[source.name]
            found = sources.setdefault((at, source.data_type, source.strides), source._replace(name=str(len(sources))))
            inputs[found.name] = PlacedTensor(at, member.step.plan.inputs[source.name])
            operands.append(int(found.name))
        target = len(outputs) if member.is_kept else None
        if target is not None:
            outputs[str(target)] = PlacedTensor(member.step.outputs[member.job.output], member.job.target)
        formulas.append(Formula(formula.source, tuple(operands), target))
    return CudaGraphPart(
        CudaElementsJob(members[0].job.target, list(sources.values()), formulas, list(outputs)), inputs, outputs
    )


def without_gaps(plan: Plan) -> Plan:
    """Rewrites a graph so that no step leaves gaps in its output, except for steps that only spread elements out.

    An output with gaps is stored densely, and stays dense on the GPU if all its readers agree on its layout. Outputs of
    the graph that are copies become outputs of steps.
    """
    graph: Steps = plan.attributes
    readers: dict[Bytes, list[BufferTensorDesc]] = {}
    for step in graph.steps:
        for name, at in step.inputs.items():
            readers.setdefault(at, []).append(step.plan.inputs[name])
    for name, at in graph.copies.items():
        readers.setdefault(at, []).append(plan.outputs[name])
    packed: set[Bytes] = set()
    between = list(graph.between)
    steps: list[Step] = []
    for step in graph.steps:
        step, later = _packed(step, packed, readers, between)
        steps += [step, *later]
    for name, at in graph.copies.items():
        desc = plan.outputs[name]
        source, target = device_desc(desc) if at in packed else desc, Bytes(Place.OUTPUT, name)
        steps.append(_copy(f"copy {name}", source, at, device_desc(desc), target, plan))
    outputs = {name: device_desc(desc) for name, desc in plan.outputs.items()}
    return replace(plan, attributes=Steps(tuple(steps), tuple(between), {}), outputs=outputs)


def _packed(
    step: Step, packed: set[Bytes], readers: Mapping[Bytes, list[BufferTensorDesc]], between: list[int]
) -> tuple[Step, list[Step]]:
    """Returns a step with dense outputs, and the steps that restore the layout where readers need a different one.

    Args:
        packed: the bytes stored densely; those of this step are added.
        readers: the descs with which bytes are read.
        between: the sizes of the intermediates, to which new ones are appended.
    """
    inputs = {
        name: device_desc(desc) if step.inputs[name] in packed else desc for name, desc in step.plan.inputs.items()
    }
    outputs, places, later = dict(step.plan.outputs), dict(step.outputs), list[Step]()
    for name, desc in step.plan.outputs.items():
        if not has_gaps(desc):
            continue
        dense, at = device_desc(desc), places[name]
        outputs[name] = dense
        if all(are_alike(desc, reader) for reader in readers.get(at, ())):
            packed.add(at)
            continue
        if desc.data_type.is_packed:
            detail = f"a graph that reads the gaps of {name} of {step.name}, elements of 4 bits, runs on no CUDA device"
            raise NotExecutableError(ProblemCode.OPERATOR_NOT_EXECUTABLE, detail, operator=GRAPH.name, devices=[])
        places[name] = Bytes(Place.BETWEEN, len(between))
        between.append(dense.total_size_in_bytes)
        later.append(_copy(f"layout of {name} of {step.name}", dense, places[name], desc, at, step.plan))
    if inputs == step.plan.inputs and outputs == step.plan.outputs:
        return step, later
    return step._replace(plan=replace(step.plan, inputs=inputs, outputs=outputs), outputs=places), later


def has_gaps(desc: BufferTensorDesc) -> bool:
    """Returns whether there are gaps between the elements of a tensor."""
    return desc.extent != desc.element_count


def _copy(name: str, source: BufferTensorDesc, at: Bytes, target: BufferTensorDesc, to: Bytes, like: Plan) -> Step:
    """Returns a step that copies elements."""
    identity = OPERATORS["ELEMENT_WISE_IDENTITY"]
    (given,), (found,) = identity.members.inputs, identity.members.outputs
    source, target = _as_bytes(source), _as_bytes(target)
    plan = Plan(
        identity,
        like.level,
        identity.attributes(ScaleBias=None),
        {given.name: source},
        {found.name: target},
        source.element_count,
    )
    return Step(name, plan, {given.name: at}, {found.name: to})


def _as_bytes(desc: BufferTensorDesc) -> BufferTensorDesc:
    """Views 4-bit elements as the bytes that hold them."""
    return BufferTensorDesc(DataType.UINT8, (desc.data_size_in_bytes,)) if desc.data_type.is_packed else desc
