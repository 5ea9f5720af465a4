"""What outputs must be: their sizes and data types, as inputs and attributes decide them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..tensor import BufferTensorDesc, DataType
from ..violation import Code, Fault
from .rule import Values, tensors_of

Sizes = tuple[Sequence[int], ...]
"""For each dimension the sizes that it may have; the first is the one that opwire derives."""

SizesOf = Callable[[Values], Sizes | None]
"""What derives sizes from the inputs and attributes; None where they do not decide them."""


class OutputRule(NamedTuple):
    """What an output of a desc must be.

    Attributes:
        sizes: as above.
        data_type: the derived one.
        same_as: the input whose data type it must share, or None where the support row alone decides.
        leading_ones: whether it may have any number of leading ones: other ranks are allowed then.
    """

    sizes: Sizes
    data_type: DataType
    same_as: str | None = None
    leading_ones: bool = False

    def derived(self) -> BufferTensorDesc:
        """The desc of an output that was left out: packed."""
        return BufferTensorDesc(self.data_type, tuple([sizes[0] for sizes in self.sizes]))

    def faults(self, name: str, output: BufferTensorDesc) -> Iterator[Fault]:
        """What is wrong with an output that was given."""
        if self.same_as is not None and output.data_type is not self.data_type:
            wanted = self.data_type.name
            message = f"{name} has {output.data_type.name} and {self.same_as} {wanted}; they must be equal"
            yield Fault(Code.DATA_TYPES_DIFFER, (name, "DataType"), message, [wanted])
        sizes = self._aligned(output.rank) if self.leading_ones else self.sizes
        if output.rank != len(sizes):
            kept = "leading ones left out" if self.leading_ones else "the rank is kept"
            message = f"{name} has rank {output.rank} where {len(sizes)} is required: {kept}"
            yield Fault(Code.RANKS_DIFFER, (name, "Sizes"), message, [len(sizes)])
            return
        for i, (given, allowed) in enumerate(zip(output.sizes, sizes, strict=True)):
            if given not in allowed:
                message = f"size {given} given for dimension {i} of {name}; allowed: {_listed(allowed)}"
                yield Fault(Code.SIZES_MISMATCH, (name, "Sizes", i), message, list(allowed[:_MOST_LISTED]))

    def _aligned(self, rank: int) -> Sizes:
        """The sizes with as many leading ones as a rank has room for; longer ones if those alone exceed it."""
        ones = next((i for i, sizes in enumerate(self.sizes) if tuple(sizes[:2]) != (1,)), len(self.sizes))
        kept = self.sizes[min(ones, max(len(self.sizes) - rank, 0)) :]
        return ((1,),) * (rank - len(kept)) + kept


_MOST_LISTED = 8


def _listed(allowed: Sequence[int]) -> str:
    if len(allowed) > _MOST_LISTED:
        return f"{min(allowed[0], allowed[-1])} to {max(allowed[0], allowed[-1])}"
    return " or ".join(map(str, allowed))


class Output(ABC):
    """How what an output must be follows from a desc."""

    __slots__ = ()

    @abstractmethod
    def rule(self, values: Values) -> OutputRule | None:
        """What the output must be; None where the inputs and attributes do not decide it."""


@dataclass(frozen=True, slots=True)
class Derived(Output):
    """An output whose sizes are derived, of the data type of an input, of one that is named, or of a usual one.

    Attributes:
        sizes: derives them.
        like: the input, or the array of inputs, that has its data type, None if none must have it.
        named: the attribute that names its data type.
        usual: the data type, or the input that has it, where the support row alone decides, and the output is left
            out: with ``like`` where that input is left out.
        leading_ones: whether it may have any number of leading ones.
    """

    sizes: SizesOf
    like: str | None = None
    named: str | None = None
    usual: DataType | str | None = None
    leading_ones: bool = False

    def rule(self, values: Values) -> OutputRule | None:
        sizes = self.sizes(values)
        if sizes is None:
            return None
        if self.like is not None:
            first = next(tensors_of(values, self.like), None)
            if first is not None:
                return OutputRule(sizes, first[2].data_type, first[1], self.leading_ones)
        data_type = values[self.named] if self.named is not None else self.usual
        if isinstance(data_type, str):
            data_type = values[data_type].data_type
        return None if data_type is None else OutputRule(sizes, data_type, None, self.leading_ones)


@dataclass(frozen=True, slots=True)
class Chosen(Output):
    """One output for some values of an attribute, another one for the others."""

    attribute: str
    among: frozenset[int]
    these: Output
    others: Output

    def rule(self, values: Values) -> OutputRule | None:
        return (self.these if values[self.attribute] in self.among else self.others).rule(values)


@dataclass(frozen=True, slots=True)
class Undecided(Output):
    """An output that inputs and attributes do not decide: it is always to be given, and rules check it."""

    def rule(self, values: Values) -> OutputRule | None:
        return None


def sizes_of(tensor: str) -> SizesOf:
    """The sizes of another tensor; none where that was left out."""

    def derive(values: Values) -> Sizes | None:
        source = values[tensor]
        return None if source is None else tuple([(size,) for size in source.sizes])

    return derive


def reduced(tensor: str, axes: str) -> SizesOf:
    """The sizes of a tensor, 1 along the axes."""

    def derive(values: Values) -> Sizes:
        along = values[axes]
        return tuple([(1,) if i in along else (size,) for i, size in enumerate(values[tensor].sizes)])

    return derive


def like(tensor: str) -> Output:
    """``type``, ``rank`` and ``Sizes`` of the output are those of an input."""
    return Derived(sizes_of(tensor), like=tensor)
