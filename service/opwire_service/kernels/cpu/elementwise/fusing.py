"""Which steps of a graph become chains: formulas one after the other on tensors of the same sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from opwire.graph import Bytes, Place, Step, Steps
from opwire.tensor import BufferTensorDesc

from ..run.graph import Part, Single
from ..run.job import Job
from .chain import Chain, Member
from .family import ElementsJob

MOST = 64
"""Formulas of a chain."""


@dataclass(frozen=True, slots=True)
class Fused:
    """What runs the steps of a graph.

    Attributes:
        parts: in their order.
        groups: for each part the numbers of its steps.
        passing: numbers of those bytes between steps that a part hands on without putting them into memory.
        shared: numbers of bytes that take the place of others, which are not needed any more when they are written.
    """

    parts: tuple[Part, ...]
    groups: tuple[range, ...]
    passing: frozenset[int]
    shared: Mapping[int, int]


def fused(steps: Steps, jobs: Sequence[Job]) -> Fused:
    """Puts steps together.

    Args:
        steps: of a graph.
        jobs: of each step alone.
    """
    return _Fusing(steps, jobs).all()


@dataclass(slots=True)
class _Fusing:
    graph: Steps
    jobs: Sequence[Job]
    readers: dict[Bytes, set[int]] = field(default_factory=dict)
    passing: set[int] = field(default_factory=set)
    shared: dict[int, int] = field(default_factory=dict)

    @property
    def steps(self) -> Sequence[Step]:
        return self.graph.steps

    def all(self) -> Fused:
        for i, step in enumerate(self.steps):
            for at in step.inputs.values():
                self.readers.setdefault(at, set()).add(i)
        for at in self.graph.copies.values():  # after all steps
            self.readers.setdefault(at, set()).add(len(self.steps))
        groups = tuple(self._groups())
        parts = tuple(self._part(group) for group in groups)
        return Fused(parts, groups, frozenset(self.passing), self.shared)

    def _groups(self) -> Iterator[range]:
        begin = 0
        for i in range(1, len(self.steps) + 1):
            if i == len(self.steps) or i - begin == MOST or not self._continues(range(begin, i)):
                yield range(begin, i)
                begin = i

    def _continues(self, group: range) -> bool:
        """Whether the step behind a group can be part of it."""
        first, job, step = self.jobs[group.start], self.jobs[group.stop], self.steps[group.stop]
        if not isinstance(first, ElementsJob) or not isinstance(job, ElementsJob):
            return False
        if job.target.sizes != first.target.sizes or _is_packed(self.steps[group.start]) or _is_packed(step):
            return False
        written = {at: self.steps[i].plan.outputs[name] for i in group for name, at in self.steps[i].outputs.items()}
        inputs = step.plan.inputs
        return all(at not in written or _are_alike(inputs[name], written[at]) for name, at in step.inputs.items())

    def _part(self, group: range) -> Part:
        members = self._members(group)
        if not members or (len(members) == 1 and not members[0].in_place):
            return Single(self.steps[group.start], self.jobs[group.start])
        self.passing |= {
            int(at.name) for member in members if not member.is_kept for at in member.step.outputs.values()
        }
        return Chain(members)

    def _members(self, group: range) -> list[Member]:
        """The members of a group of formulas; none of another one."""
        writers: dict[Bytes, int] = {}
        members: list[Member] = []
        for i in group:
            step, job = self.steps[i], self.jobs[i]
            if not isinstance(job, ElementsJob) or _is_packed(step):
                return []
            at = step.outputs[job.output]
            links = {name: writers[source] for name, source in step.inputs.items() if source in writers}
            is_kept = at.place is Place.OUTPUT or not self.readers.get(at, set()) <= set(group)
            member = Member(step, job, links, is_kept)
            if is_kept and at.place is Place.BETWEEN:
                member = replace(member, in_place=self._shares(group, i, job, at))
            writers[at] = len(members)
            members.append(member)
        return members

    def _shares(self, group: range, number: int, job: ElementsJob, at: Bytes) -> bool:
        """Lets an output take the place of an input that nothing reads after it, if its operator allows that."""
        step = self.steps[number]
        for output, name in step.plan.operator.schema.in_place:
            source = step.inputs.get(name)
            if output != job.output or source is None or source.place is not Place.BETWEEN:
                continue
            if source.name in self.shared.values() or not self._ends(source, group, number, job.target):
                continue
            self.shared[int(at.name)] = int(source.name)
            return True
        return False

    def _ends(self, source: Bytes, group: range, number: int, target: BufferTensorDesc) -> bool:
        """Whether bytes come from before a group, and its steps up to this one are the last to read them: all alike."""
        readers = self.readers[source]
        if max(readers) > number or any(source in self.steps[i].outputs.values() for i in group):
            return False
        seen = [
            step.plan.inputs[name]
            for step in (self.steps[i] for i in readers if i in group)
            for name, at in step.inputs.items()
            if at == source
        ]
        same_size = self.graph.between[int(source.name)] == target.total_size_in_bytes
        return same_size and all(_are_alike(desc, target) for desc in seen)


def _are_alike(one: BufferTensorDesc, other: BufferTensorDesc) -> bool:
    mine, theirs = ((desc.data_type, desc.sizes, desc.element_strides) for desc in (one, other))
    return mine == theirs


def _is_packed(step: Step) -> bool:
    plan = step.plan
    return any(desc.data_type.is_packed for desc in (*plan.inputs.values(), *plan.outputs.values()))
