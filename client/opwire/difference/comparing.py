"""Compares a model with a side, node by node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from ..client import local
from ..errors import OpwireError
from ..tensor import Array
from .judging import Judge, Tolerance
from .received import Received
from .results import Differences, NodeDifference, TensorDifference, Verdict
from .shapes import sizes_cause
from .sides import Side
from .subjects import Runner, Subject, SubjectNode


def compare(
    subject: Subject,
    side: Side,
    inputs: Mapping[str, Array],
    *,
    cumulative: bool = False,
    tolerance: Tolerance | None = None,
    runner: Runner | None = None,
    keep: Keep | None = None,
) -> Differences:
    """Compares a model with a side.

    Args:
        subject: the model.
        side: what to compare it with.
        inputs: the inputs of the model by name.
        cumulative: whether the errors are those of whole runs, which grow from node to node; otherwise each node is
            computed from the side's own inputs, and only its own error counts. Unless there is a tolerance, verdicts
            are those of each node by itself in both cases.
        tolerance: what to allow in place of the verdicts; None for none.
        runner: what computes the exact results; by default ``opwire.local()``.
        keep: what to pass the tensors of each node to.

    Raises:
        SideError: the side failed.
    """
    with nullcontext(runner) if runner is not None else local() as used, side.tensors(subject, inputs) as tensors:
        received = Received(subject, tensors)
        alone = _Comparison(subject, received, dict(inputs), used, False, tolerance, keep)
        if cumulative:
            whole = _Comparison(subject, received, dict(inputs), used, True, tolerance or _ANYTHING, None)
            # One after the other for each node, as the tensors of the side are dropped after it.
            pairs = zip(alone.run(), whole.run(), strict=False)
            nodes = [error if tolerance else _judged(error, verdict) for verdict, error in pairs]
        else:
            nodes = list(alone.run())
        unused, failure = received.unused(), tensors.failure
    return Differences(subject.name, side.name, cumulative, nodes, unused, failure=failure)


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """A node that was compared, with its tensors, which are dropped afterwards.

    Attributes:
        difference: what was found.
        nodes: the node, after those that were computed with it.
        inputs: the tensors that they were computed from.
        actual, exact: the tensors that it produces, of the side and exactly.
    """

    difference: NodeDifference
    nodes: Sequence[SubjectNode]
    inputs: Mapping[str, Array]
    actual: Mapping[str, Array]
    exact: Mapping[str, Array]


Keep = Callable[[Compared], None]


@dataclass(slots=True, eq=False)
class _Comparison:
    subject: Subject
    side: Received
    known: dict[str, Array]
    """The tensors that nodes are computed from: the side's own, or exact ones where it has none or errors propagate."""
    runner: Runner
    cumulative: bool
    tolerance: Tolerance | None
    keep: Keep | None

    def run(self) -> Iterator[NodeDifference]:
        last = {name: i for i, node in enumerate(self.subject.nodes) for name in node.inputs}
        pending: dict[str, list[SubjectNode]] = {}
        for i, node in enumerate(self.subject.nodes):
            found = self._node(node, pending)
            if found is not None:
                yield found
            read = {name for nodes in pending.values() for each in nodes for name in each.inputs}
            for name in [name for name in self.known if last.get(name, -1) <= i and name not in read]:
                del self.known[name]
            pending = {name: nodes for name, nodes in pending.items() if last.get(name, -1) > i}

    def _node(self, node: SubjectNode, pending: dict[str, list[SubjectNode]]) -> NodeDifference | None:
        """Compares a node; None if the side has none of its tensors, so that it counts as part of later ones."""
        before = list(dict.fromkeys(each for name in node.inputs for each in pending.get(name, ())))
        missing = [name for name in node.inputs if name not in self.known]
        if missing:
            return self._unknown(node, f"{missing[0]} is not known")
        try:
            exact = self.subject.run(node, self.known, self.runner)
        except OpwireError as error:
            return self._unknown(node, str(error))
        actual = {name: self.side.get(name) for name in node.outputs}
        if not any(array is not None for array in actual.values()) and self._is_read(node):
            self.known |= exact
            for name, stand_in in exact.items():
                self.side.offer(name, stand_in)
            pending |= {name: [*before, node] for name in node.outputs}
            return None
        judge = Judge(self.subject, node, before, self.known, exact, self.runner, self.tolerance, not self.cumulative)
        tensors = tuple(self._tensor(judge, name, actual[name], exact.get(name)) for name in node.outputs)
        found = self._difference(node, tensors, before)
        self._keep(found, [*before, node], actual, exact)
        for name, array in actual.items():
            is_usable = array is not None and name in exact and _alike(array, exact[name])
            if name in exact and not is_usable:
                self.side.offer(name, exact[name])
            if self.cumulative or not is_usable:
                self.known |= {name: exact[name]} if name in exact else {}
            elif array is not None:
                self.known[name] = np.asarray(array)
        return found

    def _keep(
        self,
        found: NodeDifference,
        nodes: Sequence[SubjectNode],
        actual: Mapping[str, Array | None],
        exact: Mapping[str, Array],
    ) -> None:
        if self.keep is None:
            return
        inputs = {name: self.known[name] for name in _read(nodes) if name in self.known}
        self.keep(Compared(found, nodes, inputs, {k: v for k, v in actual.items() if v is not None}, exact))

    def _is_read(self, node: SubjectNode) -> bool:
        return not any(name in self.subject.outputs for name in node.outputs)

    def _tensor(self, judge: Judge, name: str, actual: Array | None, exact: Array | None) -> TensorDifference:
        if actual is None or exact is None:
            return TensorDifference(name, Verdict.UNKNOWN, self.side.missing(name) if actual is None else "")
        if not _alike(actual, exact):
            said = f"it is {actual.dtype}{list(actual.shape)} instead of {exact.dtype}{list(exact.shape)}"
            alone = judge.subject.isolated(judge.node)
            cause = sizes_cause(actual.shape, exact.shape, None if alone is None else alone.graph)
            said = f"{said}: {cause}" if cause else said
            return TensorDifference(name, Verdict.WRONG, said, str(exact.dtype), exact.shape)
        return judge.tensor(name, np.asarray(actual))

    def _unknown(self, node: SubjectNode, reason: str) -> NodeDifference:
        """Reports a node that cannot be computed; later ones go on with the side's own tensors."""
        for name in node.outputs:
            array = self.side.get(name)
            if array is not None:
                self.known[name] = np.asarray(array)
        tensors = tuple(TensorDifference(name, Verdict.UNKNOWN, reason) for name in node.outputs)
        return self._difference(node, tensors, ())

    def _difference(
        self, node: SubjectNode, tensors: tuple[TensorDifference, ...], before: Sequence[SubjectNode]
    ) -> NodeDifference:
        alone = self.subject.isolated(node)
        types = (
            ()
            if alone is None
            else tuple(
                str(each["type"]).removeprefix("DML_OPERATOR_")
                for each in alone.graph["nodes"].values()
                if "type" in each
            )
        )
        return NodeDifference(
            node.name, node.operator, types, tuple(_read([*before, node])), tensors, tuple(each.name for each in before)
        )


_ANYTHING = Tolerance(ulp=inf)


def _judged(error: NodeDifference, verdict: NodeDifference) -> NodeDifference:
    """Returns the errors of a node with the verdict on it by itself."""
    pairs = zip(error.tensors, verdict.tensors, strict=True)
    tensors = tuple(replace(each, verdict=alone.verdict, detail=alone.detail) for each, alone in pairs)
    return replace(error, tensors=tensors)


def _read(nodes: Sequence[SubjectNode]) -> list[str]:
    """Returns the tensors that nodes read and do not produce themselves."""
    produced = {name for node in nodes for name in node.outputs}
    return list(dict.fromkeys(name for node in nodes for name in node.inputs if name not in produced))


def _alike(one: Array, other: Array) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape
