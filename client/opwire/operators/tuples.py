"""Shared by the operators that address elements by tuples of indices: GATHER_ND, GATHER_ND1 and SCATTER_ND.

Only the last ``InputDimensionCount`` dimensions of the input and the last ``IndicesDimensionCount`` of the indices
count; the last of the latter is the length of the tuples. Where the formula on the pages contradicts their example of
sizes and DirectMLX.h, shapes follow these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..rules import Rule, Sizes, Values, between, leading_ones, number, rank
from ..violation import Code, Fault

_COUNTS = ("InputDimensionCount", "IndicesDimensionCount")


@dataclass(frozen=True, slots=True)
class Tuples:
    """The shapes of an operator with index tuples; ``batch`` is the attribute that counts batch dimensions."""

    batch: str | None = None

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(("InputTensor", "IndicesTensor", *_COUNTS, *((self.batch,) if self.batch else ())))

    def batches(self, values: Values) -> int:
        """Returns the number of batch dimensions."""
        return 0 if self.batch is None else int(values[self.batch])

    def holds(self, values: Values) -> bool:
        """Returns whether the ranks and counts are consistent; other rules report it if they are not."""
        source, indices = values["InputTensor"], values["IndicesTensor"]
        counts = [values[name] for name in _COUNTS]
        fit = source.rank >= counts[0] and indices.rank >= counts[1]
        return bool(fit) and self.batches(values) < min(counts)

    def addressed(self, values: Values) -> list[int]:
        """Returns the sizes of what the tuples address, of any rank."""
        source, indices = values["InputTensor"].sizes, values["IndicesTensor"].sizes
        of_source, of_indices = (values[name] for name in _COUNTS)
        rest = len(source) - of_source + self.batches(values) + indices[-1]
        return [*indices[len(indices) - of_indices : -1], *source[rest:]]

    def sizes(self, values: Values, of: str = "InputTensor") -> Sizes:
        """Returns the addressed sizes at the rank of a tensor, with leading ones."""
        sizes = self.addressed(values)
        return tuple((size,) for size in [*[1] * (values[of].rank - len(sizes)), *sizes])


@dataclass(frozen=True, slots=True)
class TupleLength(Rule):
    """The tuples are no longer than the number of dimensions that they can address."""

    code = Code.OUT_OF_RANGE

    tuples: Tuples

    def faults(self, values: Values) -> Iterator[Fault]:
        if not self.tuples.holds(values):
            return
        length = values["IndicesTensor"].sizes[-1]
        most = values["InputDimensionCount"] - self.tuples.batches(values)
        if length > most:
            at = ("IndicesTensor", "Sizes", values["IndicesTensor"].rank - 1)
            message = f"tuples of {length} indices given; only {most} dimensions of InputTensor can be addressed"
            yield Fault(self.code, at, message, list(range(1, most + 1)))


@dataclass(frozen=True, slots=True)
class TuplesFitRank(Rule):
    """What the tuples address has no more dimensions than a tensor."""

    code = Code.RANKS_DIFFER

    tuples: Tuples
    tensor: str

    def faults(self, values: Values) -> Iterator[Fault]:
        if not self.tuples.holds(values):
            return
        most = values[self.tensor].rank
        sizes = self.tuples.addressed(values)
        if len(sizes) > most:
            message = f"the tuples address sizes {sizes}, more than the rank of {self.tensor}, {most}"
            yield Fault(self.code, ("IndicesDimensionCount",), message)


@dataclass(frozen=True, slots=True)
class BatchesAgree(Rule):
    """The batch dimensions of the input and the indices have equal sizes."""

    code = Code.SIZES_MISMATCH

    tuples: Tuples

    def faults(self, values: Values) -> Iterator[Fault]:
        if not self.tuples.holds(values):
            return
        source, indices = values["InputTensor"].sizes, values["IndicesTensor"].sizes
        of_source, of_indices = (len(source) - values[name] for name in _COUNTS)
        for i in range(self.tuples.batches(values)):
            given, wanted = indices[of_indices + i], source[of_source + i]
            if given != wanted:
                message = f"size {given} given for batch dimension {i} of IndicesTensor; InputTensor has {wanted}"
                yield Fault(self.code, ("IndicesTensor", "Sizes", of_indices + i), message, [wanted])


@dataclass(frozen=True, slots=True)
class UpdatesFit(Rule):
    """The updates have the sizes of what the tuples address."""

    code = Code.SIZES_MISMATCH
    members = ("UpdatesTensor",)

    tuples: Tuples

    def faults(self, values: Values) -> Iterator[Fault]:
        updates = values["UpdatesTensor"]
        if not self.tuples.holds(values) or any(TupleLength(self.tuples).faults(values)):
            return
        wanted = [sizes[0] for sizes in self.tuples.sizes(values, "UpdatesTensor")]
        if updates.rank == len(wanted) and list(updates.sizes) != wanted:
            message = f"sizes {list(updates.sizes)} given for UpdatesTensor; the tuples address {wanted}"
            yield Fault(self.code, ("UpdatesTensor", "Sizes"), message, [wanted])


@dataclass(frozen=True, slots=True)
class EachWritten(Rule):
    """No index is repeated by a stride of 0: each tuple has its own elements."""

    code = Code.VALUE_NOT_ALLOWED
    members = ("IndicesTensor",)

    def faults(self, values: Values) -> Iterator[Fault]:
        indices = values["IndicesTensor"]
        for i, (size, stride) in enumerate(zip(indices.sizes, indices.strides or (), strict=False)):
            if size > 1 and stride == 0:
                message = f"stride 0 given for dimension {i} of IndicesTensor; indices may not be broadcast"
                yield Fault(self.code, ("IndicesTensor", "Strides", i), message)


def counted(tuples: Tuples) -> tuple[Rule, ...]:
    """Returns the rules common to operators with tuples: ``InputDimensionCount <= R``, uncounted sizes are 1, ..."""
    source, indices = map(number, _COUNTS)
    return (
        between(source, None, rank("InputTensor")),
        between(indices, None, rank("IndicesTensor")),
        leading_ones("InputTensor", source),
        leading_ones("IndicesTensor", indices),
        TupleLength(tuples),
    )
