"""Judges a tensor of a side against the exact one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..errors import OpwireError
from ..tensor import Array
from .bounds import SLICE, Limit, apart, limits
from .chain import Chain, Key, chain_of
from .error_table import rule_of
from .evidence import Evidence, sampled
from .results import TensorDifference, Verdict, Worst, histogram
from .subjects import Runner, Subject, SubjectNode
from .ulps import ulp
from .verdicts import verdict_of


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What to allow in place of the verdicts: a number of ULP, or relative and absolute errors as in NumPy.

    An element is right if it is within any of those given.
    """

    ulp: float | None = None
    rtol: float | None = None
    atol: float | None = None

    def allows(self, actual: Array, exact: Array, distances: Array) -> bool:
        """Returns whether it allows all elements."""
        allowed = distances == 0
        if self.ulp is not None:
            allowed |= distances <= self.ulp
        if self.rtol is not None or self.atol is not None:
            with np.errstate(invalid="ignore", over="ignore"):
                allowed |= np.isclose(actual, exact, rtol=self.rtol or 0, atol=self.atol or 0, equal_nan=True)
        return bool(allowed.all())


@dataclass(slots=True, eq=False)
class Judge:
    """Judges the tensors of one node.

    Attributes:
        subject: the model.
        node: the node.
        before: the nodes that were computed with it, as the side lacks what is between.
        tensors: the tensors that it was computed from.
        exact: the exact tensors that it produces.
        runner: what computes exact results.
        tolerance: what to allow in place of the verdicts, if anything.
        is_alone: whether it was computed from the side's own tensors, so that the errors are its own.
    """

    subject: Subject
    node: SubjectNode
    before: Sequence[SubjectNode]
    tensors: Mapping[str, Array]
    exact: Mapping[str, Array]
    runner: Runner
    tolerance: Tolerance | None
    is_alone: bool = True
    _chain: Chain | None = None
    _limits: Mapping[Key, Limit] | None = None

    def tensor(self, name: str, actual: Array) -> TensorDifference:
        """Judges a tensor of the type and sizes of the exact one."""
        with np.errstate(all="ignore"):  # tensors of a side may hold anything
            return self._tensor(name, actual)

    def _tensor(self, name: str, actual: Array) -> TensorDifference:
        exact = self.exact[name]
        one, other = actual.reshape(-1), np.ascontiguousarray(exact).reshape(-1)
        found = _Distances.of(one, other)
        verdict, detail, limit = self._verdict(name, actual, exact, found)
        return TensorDifference(
            name,
            verdict,
            detail,
            str(exact.dtype),
            exact.shape,
            1 - found.different / max(exact.size, 1),
            found.largest,
            found.different,
            self._worst(actual, exact, found, limit) if found.different else None,
            found.histogram,
        )

    def _verdict(self, name: str, actual: Array, exact: Array, found: _Distances) -> tuple[Verdict, str, Limit | None]:
        if found.largest == 0:
            return Verdict.EXACT, "", None
        if self.tolerance is not None:
            is_allowed = all(self.tolerance.allows(*each) for each in _slices(actual, exact))
            return (Verdict.EXPLAINED if is_allowed else Verdict.WRONG), "", None
        if found.largest <= 1 and exact.dtype.kind == "f":
            return Verdict.FAITHFUL, "", None
        evidence = self._evidence(name, actual, exact)
        return (*verdict_of(evidence), evidence.limit)

    def _evidence(self, name: str, actual: Array, exact: Array) -> Evidence:
        """Returns the tensor with the errors that it may have."""
        limit = None
        try:
            limit = self._limit(name)
        except OpwireError:
            self._chain = None  # its operators cannot be varied
        if limit is None:
            limit = sampled(self.subject, self.node, self.before, self.tensors, self.runner, name, exact)
        chain = self._chain
        key = None if chain is None else chain.results[name]
        elements = np.ascontiguousarray(exact).reshape(-1)
        return Evidence(
            actual.reshape(-1), elements, exact.shape, limit, chain, key, partial(self._others, name), self.is_alone
        )

    def _others(self, name: str) -> Iterator[tuple[str, Chain, Key]]:
        for said, alone in self.subject.variants(self.node):
            chain = chain_of(self.subject, [*self.before, self.node], self.tensors, self.runner, alone)
            if chain is not None:
                yield said, chain, chain.results[name]

    def _limit(self, name: str) -> Limit | None:
        if self._limits is None:
            self._chain = chain_of(self.subject, [*self.before, self.node], self.tensors, self.runner)
            if self._chain is None:
                return None
            for each, array in self.exact.items():
                self._chain.give(each, array)
            self._chain.run()
            self._limits = limits(self._chain, rule_of)
        return None if self._chain is None else self._limits.get(self._chain.results[name])

    def _worst(self, actual: Array, exact: Array, found: _Distances, limit: Limit | None) -> Worst:
        flat, bound = found.worst, None
        if limit is not None:
            flat, bound = _furthest(actual.reshape(-1), exact.reshape(-1), limit)
        at = tuple(int(each) for each in np.unravel_index(flat, exact.shape))
        inputs = {
            name: array[at]
            for name, array in self.tensors.items()
            if array.shape == exact.shape and name in self.node.inputs
        }
        return Worst(at, actual[at], exact[at], float(ulp(actual[at], exact[at]).reshape(-1)[0]), bound, inputs)


@dataclass(frozen=True, slots=True)
class _Distances:
    """The distances of the elements of a tensor in ULP, counted a slice at a time."""

    largest: float
    different: int
    worst: int
    histogram: tuple[int, ...]

    @classmethod
    def of(cls, actual: Array, exact: Array) -> _Distances:
        largest, different, worst = 0.0, 0, 0
        counts = np.zeros(len(histogram(np.zeros(0))), np.int64)
        for start in range(0, exact.size, SLICE):
            distances = ulp(actual[start : start + SLICE], exact[start : start + SLICE])
            counts += histogram(distances)
            different += int(np.count_nonzero(distances))
            at = int(np.argmax(distances))
            if distances[at] > largest:
                largest, worst = float(distances[at]), start + at
        return cls(largest, different, worst, tuple(int(each) for each in counts))


def _slices(actual: Array, exact: Array) -> Iterator[tuple[Array, Array, Array]]:
    one, other = actual.reshape(-1), exact.reshape(-1)
    for start in range(0, exact.size, SLICE):
        part = slice(start, start + SLICE)
        yield one[part], other[part], ulp(one[part], other[part])


def _furthest(actual: Array, exact: Array, limit: Limit) -> tuple[int, float]:
    """Returns the element whose error is the largest multiple of what is likely, and what is possible for it."""
    most, at, bound = -1.0, 0, 0.0
    for start in range(0, exact.size, SLICE):
        part = slice(start, start + SLICE)
        errors = limit(part)
        error = apart(actual[part], exact[part])
        excess = np.where(error > 0, error / np.maximum(errors.likely, 1e-300), -1)
        i = int(np.argmax(excess))
        if excess[i] > most:
            most, at, bound = float(excess[i]), start + i, float(errors.possible[i])
    return at, bound
