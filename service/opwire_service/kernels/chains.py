"""Groups the steps of a graph into chains: consecutive elementwise formulas on tensors of equal sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from opwire.graph import Bytes, Place, Step, Steps
from opwire.tensor import BufferTensorDesc


class FormulaJob(Protocol):
    """The job of a step whose output is an elementwise formula of its inputs.

    Attributes:
        output: name of the step's output.
        target: desc of that output.
    """

    @property
    def output(self) -> str: ...

    @property
    def target(self) -> BufferTensorDesc: ...


F = TypeVar("F", bound=FormulaJob)


@dataclass(frozen=True, slots=True)
class ChainMember(Generic[F]):
    """One formula of a chain.

    Attributes:
        step: the step of the graph.
        job: the job of that step on its own.
        links: maps the name of each input produced within the chain to the index of the member that produces it.
        is_kept: whether the output is written to memory because something outside the chain reads it.
        in_place: whether the output overwrites one of the inputs.
    """

    step: Step
    job: F
    links: Mapping[str, int]
    is_kept: bool
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class StepGroup(Generic[F]):
    """Steps that run together, as one chain or as a single step.

    Attributes:
        steps: indices of the steps.
        members: the members of the chain; empty for a step that runs by itself.
    """

    steps: range
    members: tuple[ChainMember[F], ...] = ()


@dataclass(frozen=True, slots=True)
class Grouping(Generic[F]):
    """The steps of a graph, partitioned into groups.

    Attributes:
        groups: the groups, in execution order.
        passing: numbers of the intermediates that stay within a group and are never written to memory.
        shared: maps the number of an intermediate to that of the one it overwrites, which is dead by then.
    """

    groups: tuple[StepGroup[F], ...]
    passing: frozenset[int]
    shared: Mapping[int, int]


def grouped(
    steps: Steps,
    formulas: Sequence[F | None],
    most: int,
    fits: Callable[[F, F], bool],
    *,
    in_place: Callable[[F], bool] = lambda formula: False,
    only_last: bool = False,
) -> Grouping[F]:
    """Partitions the steps of a graph into groups.

    Args:
        steps: the steps of the graph.
        formulas: the formula of each step, or None if the step cannot be part of a chain.
        most: maximum number of members in a chain.
        fits: whether two formulas may be in the same chain.
        in_place: whether the output of a formula may overwrite an input, provided its operator allows it.
        only_last: whether the output of every member but the last must be read exactly once, by the next member.
    """
    return _Grouping(steps, formulas, most, fits, in_place, only_last).all()


@dataclass(slots=True)
class _Grouping(Generic[F]):
    graph: Steps
    formulas: Sequence[F | None]
    most: int
    fits: Callable[[F, F], bool]
    in_place: Callable[[F], bool]
    only_last: bool
    readers: dict[Bytes, list[int]] = field(default_factory=dict)
    passing: set[int] = field(default_factory=set)
    shared: dict[int, int] = field(default_factory=dict)
    given_up: set[int] = field(default_factory=set)

    @property
    def steps(self) -> Sequence[Step]:
        return self.graph.steps

    def all(self) -> Grouping[F]:
        for i, step in enumerate(self.steps):
            for at in step.inputs.values():
                self.readers.setdefault(at, []).append(i)
        for at in self.graph.copies.values():  # after all steps
            self.readers.setdefault(at, []).append(len(self.steps))
        groups = tuple(self._group(steps) for steps in self._runs())
        return Grouping(groups, frozenset(self.passing), self.shared)

    def _runs(self) -> Iterator[range]:
        """Yields maximal runs of consecutive steps whose formulas fit together."""
        begin, written = 0, dict[Bytes, BufferTensorDesc]()
        for i, step in enumerate(self.steps):
            if i > begin and (i - begin == self.most or not self._continues(begin, i, written)):
                yield range(begin, i)
                begin, written = i, {}
            for name, at in step.outputs.items():
                written[at] = step.plan.outputs[name]
        yield range(begin, len(self.steps))

    def _continues(self, begin: int, number: int, written: Mapping[Bytes, BufferTensorDesc]) -> bool:
        """Returns whether a step can extend the chain that starts at ``begin`` and has written ``written``."""
        first, formula, step = self.formulas[begin], self.formulas[number], self.steps[number]
        if first is None or formula is None or not self.fits(first, formula):
            return False
        if self.only_last and any(
            at.place is Place.OUTPUT or self.readers.get(at) != [number]
            for at in self.steps[number - 1].outputs.values()
        ):
            return False
        inputs = step.plan.inputs
        return all(at not in written or are_alike(inputs[name], written[at]) for name, at in step.inputs.items())

    def _group(self, steps: range) -> StepGroup[F]:
        members = tuple(self._members(steps))
        if not members or (len(members) == 1 and not members[0].in_place):
            return StepGroup(steps)
        self.passing |= {
            int(at.name) for member in members if not member.is_kept for at in member.step.outputs.values()
        }
        return StepGroup(steps, members)

    def _members(self, steps: range) -> Iterator[ChainMember[F]]:
        """Yields the members of a chain; nothing for a step that is not a formula."""
        writers: dict[Bytes, int] = {}
        for count, i in enumerate(steps):
            step, job = self.steps[i], self.formulas[i]
            if job is None:
                return
            at = step.outputs[job.output]
            links = {name: writers[source] for name, source in step.inputs.items() if source in writers}
            is_kept = at.place is Place.OUTPUT or any(reader not in steps for reader in self.readers.get(at, ()))
            may_share = is_kept and at.place is Place.BETWEEN and self.in_place(job)
            in_place = may_share and self._shares(steps, i, job, at)
            writers[at] = count
            yield ChainMember(step, job, links, is_kept, in_place)

    def _shares(self, group: range, number: int, job: F, at: Bytes) -> bool:
        """Lets an output overwrite an input that is dead after this step, if the operator allows it."""
        step = self.steps[number]
        for output, name in step.plan.operator.schema.in_place:
            source = step.inputs.get(name)
            if output != job.output or source is None or source.place is not Place.BETWEEN:
                continue
            if source.name in self.given_up or not self._ends(source, group, number, job.target):
                continue
            self.shared[int(at.name)] = int(source.name)
            self.given_up.add(int(source.name))
            return True
        return False

    def _ends(self, source: Bytes, group: range, number: int, target: BufferTensorDesc) -> bool:
        """Returns whether ``source`` precedes the group, is last read here, and only with descs like ``target``."""
        readers = self.readers[source]
        if readers[-1] > number or any(source in self.steps[i].outputs.values() for i in group):
            return False
        seen = [
            step.plan.inputs[name]
            for step in (self.steps[i] for i in dict.fromkeys(readers) if i in group)
            for name, at in step.inputs.items()
            if at == source
        ]
        same_size = self.graph.between[int(source.name)] == target.total_size_in_bytes
        return same_size and all(are_alike(desc, target) for desc in seen)


def are_alike(one: BufferTensorDesc, other: BufferTensorDesc) -> bool:
    """Returns whether two descs describe the same bytes in the same way."""
    mine, theirs = ((desc.data_type, desc.sizes, desc.element_strides) for desc in (one, other))
    return mine == theirs
