"""Judges a tensor of a side against the exact one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..tensor import Array
from .results import TensorDifference, Verdict, Worst, histogram
from .subjects import Runner, Subject, SubjectNode
from .ulps import ulp


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


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """Judges the tensors of one node.

    Attributes:
        subject: the model.
        node: the node.
        before: the nodes that were computed with it, as the side lacks what is between.
        tensors: the tensors that it was computed from.
        runner: what computes exact results.
        tolerance: what to allow in place of the verdicts, if anything.
    """

    subject: Subject
    node: SubjectNode
    before: Sequence[SubjectNode]
    tensors: Mapping[str, Array]
    runner: Runner
    tolerance: Tolerance | None

    def tensor(self, name: str, actual: Array, exact: Array) -> TensorDifference:
        """Judges a tensor of the type and sizes of the exact one."""
        distances = ulp(actual, exact)
        verdict, detail, bound = self._verdict(name, actual, exact, distances)
        different = int(np.count_nonzero(distances))
        return TensorDifference(
            name,
            verdict,
            detail,
            str(exact.dtype),
            exact.shape,
            1 - different / max(distances.size, 1),
            float(distances.max(initial=0)),
            different,
            self._worst(actual, exact, distances, bound) if different else None,
            histogram(distances),
        )

    def _verdict(self, name: str, actual: Array, exact: Array, distances: Array) -> tuple[Verdict, str, Array | None]:
        largest = distances.max(initial=0)
        if largest == 0:
            return Verdict.EXACT, "", None
        if self.tolerance is not None:
            return (Verdict.EXPLAINED if self.tolerance.allows(actual, exact, distances) else Verdict.WRONG), "", None
        if largest <= 1 and exact.dtype.kind == "f":
            return Verdict.FAITHFUL, "", None
        return Verdict.WRONG, "", None

    def _worst(self, actual: Array, exact: Array, distances: Array, bound: Array | None) -> Worst:
        excess = distances if bound is None else np.where(np.isfinite(bound), distances / np.maximum(bound, 1e-300), 0)
        at = tuple(int(each) for each in np.unravel_index(int(np.argmax(excess)), distances.shape))
        inputs = {
            name: array[at]
            for name, array in self.tensors.items()
            if array.shape == exact.shape and name in self.node.inputs
        }
        limit = None if bound is None else float(bound[at])
        return Worst(at, actual[at], exact[at], float(distances[at]), limit, inputs)
