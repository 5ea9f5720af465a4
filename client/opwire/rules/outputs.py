"""The sizes and data types of outputs, as determined by the inputs and attributes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..tensor import BufferTensorDesc, DataType
from ..violation import Basis, Code, Fault
from .rule import Values, either, tensors_of

Sizes = tuple[Sequence[int], ...]
"""The allowed sizes of each dimension; the first is the one that opwire derives."""

SizesOf = Callable[[Values], Sizes | None]
"""Derives sizes from the inputs and attributes; None if they do not determine them."""


class OutputRule(NamedTuple):
    """The requirements on an output of a desc.

    Attributes:
        sizes: the allowed sizes of each dimension.
        data_type: the derived data type.
        same_as: the input whose data type it must share, or None if only the support row restricts it.
        leading_ones: whether it may have any number of leading ones, and thus another rank.
        enforced: the number of dimensions, from the first, whose sizes DirectML enforces; None for all. The others are
            as documented.
    """

    sizes: Sizes
    data_type: DataType
    same_as: str | None = None
    leading_ones: bool = False
    enforced: int | None = None

    @property
    def is_derivable(self) -> bool:
        """Whether there is such a tensor: no derived size is less than 1."""
        return all(sizes[0] > 0 for sizes in self.sizes)

    def derived(self) -> BufferTensorDesc:
        """Returns the desc of an omitted output: contiguous."""
        return BufferTensorDesc(self.data_type, tuple([sizes[0] for sizes in self.sizes]))

    def faults(self, name: str, output: BufferTensorDesc) -> Iterator[Fault]:
        """Yields what is wrong with a given output."""
        if self.same_as is not None and output.data_type is not self.data_type:
            wanted = self.data_type.name
            message = f"{name} has {output.data_type.name} and {self.same_as} {wanted}; they must be equal"
            yield Fault(Code.DATA_TYPES_DIFFER, (name, "DataType"), message, [wanted])
        sizes = self._aligned(output.rank) if self.leading_ones else self.sizes
        if output.rank != len(sizes):
            kept = "only leading ones can be omitted" if self.leading_ones else "the operator preserves the rank"
            message = f"{name} has rank {output.rank}; it must have rank {len(sizes)}: {kept}"
            yield Fault(Code.RANKS_DIFFER, (name, "Sizes"), message, [len(sizes)])
            return
        for i, (given, allowed) in enumerate(zip(output.sizes, sizes, strict=True)):
            is_enforced = self.enforced is None or i < self.enforced
            if given not in allowed and (is_enforced or allowed[0] > 0):
                message = f"size {given} given for dimension {i} of {name}; allowed: {_listed(allowed)}"
                basis = Basis.BOTH if is_enforced else Basis.PAGE
                yield Fault(Code.SIZES_MISMATCH, (name, "Sizes", i), message, list(allowed[:_MAX_LISTED]), basis=basis)

    def _aligned(self, rank: int) -> Sizes:
        """Returns the sizes with leading ones added or removed to match a rank; longer if the other sizes exceed it."""
        ones = next((i for i, sizes in enumerate(self.sizes) if tuple(sizes[:2]) != (1,)), len(self.sizes))
        kept = self.sizes[min(ones, max(len(self.sizes) - rank, 0)) :]
        return ((1,),) * (rank - len(kept)) + kept


_MAX_LISTED = 8


def _listed(allowed: Sequence[int]) -> str:
    if len(allowed) > _MAX_LISTED:
        return f"{min(allowed[0], allowed[-1])} to {max(allowed[0], allowed[-1])}"
    return either(allowed)


class Output(ABC):
    """How the requirements on an output follow from a desc."""

    __slots__ = ()

    @abstractmethod
    def rule(self, values: Values) -> OutputRule | None:
        """Returns the requirements on the output, or None if the inputs and attributes do not determine it."""


@dataclass(frozen=True, slots=True)
class Derived(Output):
    """An output with derived sizes, and the data type of an input, of an attribute, or a default.

    Attributes:
        sizes: derives the sizes.
        like: the input, or array of inputs, whose data type it must have; None if there is none.
        named: the attribute that gives its data type.
        default: the default data type, or an input that has it, for an omitted output that only the support row
            restricts; with ``like``, if that input is omitted.
        leading_ones: whether it may have any number of leading ones.
        enforced: the number of dimensions whose sizes DirectML enforces; see ``OutputRule``.
    """

    sizes: SizesOf
    like: str | None = None
    named: str | None = None
    default: DataType | str | None = None
    leading_ones: bool = False
    enforced: int | None = None

    def rule(self, values: Values) -> OutputRule | None:
        sizes = self.sizes(values)
        if sizes is None:
            return None
        if self.like is not None:
            first = next(tensors_of(values, self.like), None)
            if first is not None:
                return OutputRule(sizes, first[2].data_type, first[1], self.leading_ones, self.enforced)
        data_type = values[self.named] if self.named is not None else self.default
        if isinstance(data_type, str):
            data_type = values[data_type].data_type
        return None if data_type is None else OutputRule(sizes, data_type, None, self.leading_ones, self.enforced)


@dataclass(frozen=True, slots=True)
class Chosen(Output):
    """One output for some values of an attribute, and another for the rest."""

    attribute: str
    among: frozenset[int]
    these: Output
    others: Output

    def rule(self, values: Values) -> OutputRule | None:
        return (self.these if values[self.attribute] in self.among else self.others).rule(values)


@dataclass(frozen=True, slots=True)
class Undecided(Output):
    """An output that the inputs and attributes do not determine: it must always be given, and rules check it."""

    def rule(self, values: Values) -> OutputRule | None:
        return None


def sizes_of(tensor: str) -> SizesOf:
    """Derives the sizes of another tensor; None if that is omitted."""

    def derive(values: Values) -> Sizes | None:
        source = values[tensor]
        return None if source is None else tuple([(size,) for size in source.sizes])

    return derive


def reduced(tensor: str, axes: str) -> SizesOf:
    """Derives the sizes of a tensor, with 1 along the axes."""

    def derive(values: Values) -> Sizes:
        along = values[axes]
        return tuple([(1,) if i in along else (size,) for i, size in enumerate(values[tensor].sizes)])

    return derive


def like(tensor: str) -> Output:
    """The output has the ``type``, ``rank`` and ``Sizes`` of an input."""
    return Derived(sizes_of(tensor), like=tensor)
