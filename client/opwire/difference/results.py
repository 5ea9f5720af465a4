"""The results of a comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from ..tensor import Array


class Verdict(StrEnum):
    """How a tensor differs from the exact one, from the mildest to the worst."""

    EXACT = "exact"
    """Every element is the correctly rounded result."""
    FAITHFUL = "faithful"
    """Every element is at most one ULP from the correctly rounded result."""
    EXPLAINED = "within what floating point explains"
    """Every element is within the bound that the roundings of a float implementation have for these inputs."""
    REDUCED = "reduced precision"
    """Beyond that, but as a computation with operands, sums or functions of less precision gives it."""
    UNKNOWN = "not compared"
    """The side does not give the tensor, or opwire cannot compute it."""
    WRONG = "wrong"
    """Nothing above fits."""

    @property
    def severity(self) -> int:
        return list(Verdict).index(self)


@dataclass(frozen=True, slots=True, eq=False)
class Worst:
    """The element that is furthest from the exact one.

    Attributes:
        index: its coordinates.
        actual, exact: what the side has, and the exact result.
        ulp: the distance.
        bound: the largest error that floating point explains, absolute; None if it is not known.
        inputs: the elements of the inputs at the same coordinates, where the sizes are the same.
    """

    index: tuple[int, ...]
    actual: Any
    exact: Any
    ulp: float
    bound: float | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        found = {
            "index": list(self.index),
            "actual": number(self.actual),
            "exact": number(self.exact),
            "ulp": number(self.ulp),
            "inputs": {name: number(value) for name, value in self.inputs.items()},
        }
        return found if self.bound is None else {**found, "bound": number(self.bound)}


@dataclass(frozen=True, slots=True, eq=False)
class TensorDifference:
    """A tensor that a node produces, compared.

    Attributes:
        name: its name.
        verdict: how it differs.
        detail: what it is like: the class of precision, the known cause, or why it was not compared.
        dtype, sizes: its data type and sizes.
        correctly_rounded: the share of elements that are equal to the correctly rounded result.
        largest_ulp: the largest distance in ULP.
        different: the number of elements that differ.
        worst: the worst element; None if none differs.
        histogram: the number of elements by distance: 0, 1, up to 2, 4, 8, ... ULP; the last counts infinite ones.
    """

    name: str
    verdict: Verdict
    detail: str = ""
    dtype: str = ""
    sizes: tuple[int, ...] = ()
    correctly_rounded: float = math.nan
    largest_ulp: float = math.nan
    different: int = 0
    worst: Worst | None = None
    histogram: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "verdict": self.verdict.value,
            "detail": self.detail or None,
            "dtype": self.dtype,
            "sizes": list(self.sizes),
            "correctly_rounded": number(self.correctly_rounded),
            "largest_ulp": number(self.largest_ulp),
            "different": self.different,
            "worst": None if self.worst is None else self.worst.to_json(),
            "histogram": list(self.histogram),
        }


@dataclass(frozen=True, slots=True, eq=False)
class NodeDifference:
    """A node, compared.

    Attributes:
        name, operator: as in the model.
        directml: its DirectML operators.
        inputs: the tensors that it reads, with its members, and that are not constant.
        tensors: the tensors that it produces.
        members: the names of further nodes that were compared together with it, as the side lacks what is between.
    """

    name: str
    operator: str
    directml: tuple[str, ...]
    inputs: tuple[str, ...]
    tensors: tuple[TensorDifference, ...]
    members: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of its tensors."""
        return max((each.verdict for each in self.tensors), key=lambda each: each.severity, default=Verdict.UNKNOWN)

    @property
    def largest_ulp(self) -> float:
        known = [each.largest_ulp for each in self.tensors if not math.isnan(each.largest_ulp)]
        return max(known, default=math.nan)

    @property
    def worst_tensor(self) -> TensorDifference | None:
        """The tensor with the worst verdict and, among these, the largest error; None if it has no tensors."""
        return max(self.tensors, key=lambda each: (each.verdict.severity, _finite(each.largest_ulp)), default=None)

    @property
    def detail(self) -> str:
        return next((each.detail for each in self.tensors if each.verdict is self.verdict), "")

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "operator": self.operator,
            "directml": list(self.directml),
            "inputs": list(self.inputs),
            "members": list(self.members),
            "verdict": self.verdict.value,
            "detail": self.detail or None,
            "tensors": [each.to_json() for each in self.tensors],
        }


@dataclass(frozen=True, slots=True, eq=False)
class Differences:
    """A model compared with a side.

    Attributes:
        subject, side: what was compared with what.
        cumulative: whether whole runs were compared, rather than each node with the side's own inputs.
        nodes: the nodes, in the order of the model.
        unused: tensors that the side has and the model does not.
        repros: the folders that were written, each of which reproduces a wrong node alone.
        failure: how the side failed although it gave some tensors, or "".
    """

    subject: str
    side: str
    cumulative: bool
    nodes: Sequence[NodeDifference]
    unused: Sequence[str] = ()
    repros: Sequence[str] = ()
    failure: str = ""

    @property
    def wrong(self) -> list[NodeDifference]:
        """The nodes that are wrong."""
        return [node for node in self.nodes if node.verdict is Verdict.WRONG]

    @property
    def is_complete(self) -> bool:
        """Whether the side did not fail, and at least one node was compared, if there are any."""
        is_compared = any(node.verdict is not Verdict.UNKNOWN for node in self.nodes) or not self.nodes
        return is_compared and not self.failure

    @property
    def by_severity(self) -> list[NodeDifference]:
        """The nodes, the worst first."""
        return sorted(self.nodes, key=lambda node: (-node.verdict.severity, -_finite(node.largest_ulp)))

    def to_json(self) -> dict[str, Any]:
        counts = {verdict.value: 0 for verdict in Verdict}
        for node in self.nodes:
            counts[node.verdict.value] += 1
        return {
            "subject": self.subject,
            "side": self.side,
            "mode": "cumulative" if self.cumulative else "isolated",
            "verdicts": counts,
            "unused": list(self.unused),
            "repros": list(self.repros),
            "failure": self.failure or None,
            "nodes": [node.to_json() for node in self.nodes],
        }


def number(value: Any) -> Any:
    """Returns a number as JSON has it; NaN and infinities as strings."""
    if isinstance(value, np.generic):
        is_narrow = isinstance(value, np.floating) and value.itemsize < 8
        value = float(str(value)) if is_narrow else value.item()  # the shortest text that reads as the same number
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _finite(value: float) -> float:
    return -1 if math.isnan(value) else value


def histogram(distances: Array) -> tuple[int, ...]:
    """Returns the number of elements by distance: 0, up to 1, 2, 4, ... 2**30 ULP, beyond, and infinite."""
    finite = distances[np.isfinite(distances)]
    parts, exponents = np.frexp(finite.reshape(-1))
    places = np.clip(exponents + (parts > 0.5), 0, 32)  # a power of 2 is the end of its own
    counts = np.bincount(places, minlength=33)
    return (*(int(each) for each in counts), int(distances.size - finite.size))
