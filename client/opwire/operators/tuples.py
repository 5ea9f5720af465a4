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
        return bool(source.rank == indices.rank >= max(counts)) and self.batches(values) < min(counts)

    def addressed(self, values: Values) -> list[int]:
        """Returns the sizes of what the tuples address, of any rank."""
        source, indices = values["InputTensor"].sizes, values["IndicesTensor"].sizes
        of_source, of_indices = (values[name] for name in _COUNTS)
        rest = len(source) - of_source + self.batches(values) + indices[-1]
        return [*indices[len(indices) - of_indices : -1], *source[rest:]]

    def sizes(self, values: Values) -> Sizes:
        """Returns the addressed sizes at the rank of the input, with leading ones added or removed."""
        wanted = values["InputTensor"].rank
        sizes = [1] * wanted + self.addressed(values)
        return tuple((size,) for size in sizes[len(sizes) - wanted :])


@dataclass(frozen=True, slots=True)
class TupleLength(Rule):
    """The tuples are no longer than the number of dimensions that they can address."""

    code = Code.OUT_OF_RANGE

    tuples: Tuples

    @property
    def reads(self) -> frozenset[str]:
        return self.tuples.reads

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
    """What the tuples address fits the rank of the input, with only leading ones removed."""

    code = Code.RANKS_DIFFER

    tuples: Tuples

    @property
    def reads(self) -> frozenset[str]:
        return self.tuples.reads

    def faults(self, values: Values) -> Iterator[Fault]:
        if not self.tuples.holds(values):
            return
        wanted = values["InputTensor"].rank
        sizes = self.tuples.addressed(values)
        if any(size != 1 for size in sizes[: max(len(sizes) - wanted, 0)]):
            message = f"the tuples address sizes {sizes}, which do not fit the rank of the tensors, {wanted}"
            yield Fault(self.code, ("IndicesDimensionCount",), message)


@dataclass(frozen=True, slots=True)
class BatchesAgree(Rule):
    """The batch dimensions of the input and the indices have equal sizes."""

    code = Code.SIZES_MISMATCH

    tuples: Tuples

    @property
    def reads(self) -> frozenset[str]:
        return self.tuples.reads

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

    tuples: Tuples

    @property
    def reads(self) -> frozenset[str]:
        return self.tuples.reads | {"UpdatesTensor"}

    def faults(self, values: Values) -> Iterator[Fault]:
        updates = values["UpdatesTensor"]
        others = (TupleLength(self.tuples), TuplesFitRank(self.tuples))
        if not self.tuples.holds(values) or any(list(rule.faults(values)) for rule in others):
            return
        wanted = [sizes[0] for sizes in self.tuples.sizes(values)]
        if updates.rank == len(wanted) and list(updates.sizes) != wanted:
            message = f"sizes {list(updates.sizes)} given for UpdatesTensor; the tuples address {wanted}"
            yield Fault(self.code, ("UpdatesTensor", "Sizes"), message, [wanted])


def counted(tuples: Tuples) -> tuple[Rule, ...]:
    """Returns the rules common to operators with tuples: ``InputDimensionCount <= R``, uncounted sizes are 1, ..."""
    source, indices = map(number, _COUNTS)
    return (
        between(source, None, rank("InputTensor")),
        between(indices, None, rank("IndicesTensor")),
        leading_ones("InputTensor", source),
        leading_ones("IndicesTensor", indices),
        TupleLength(tuples),
        TuplesFitRank(tuples),
    )
