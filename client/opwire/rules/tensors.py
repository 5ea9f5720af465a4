"""Rules between tensors: their data types, ranks and sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..tensor import BufferTensorDesc
from ..violation import Code, Fault
from .expressions import Quantity
from .rule import Rule, Values, either, every_tensor, listed, tensors_of


@dataclass(frozen=True, slots=True)
class SameType(Rule):
    """All given tensors have the same data type as the first one."""

    code = Code.DATA_TYPES_DIFFER
    words = "{tensors} have the same data type"

    tensors: tuple[str, ...]

    def faults(self, values: Values) -> Iterator[Fault]:
        first: tuple[str, BufferTensorDesc] | None = None
        for path, name, desc in every_tensor(values, self.tensors):
            if first is None:
                first = name, desc
            elif desc.data_type is not first[1].data_type:
                wanted = first[1].data_type.name
                message = f"{name} has {desc.data_type.name} and {first[0]} {wanted}; they must be equal"
                yield Fault(self.code, (*path, "DataType"), message, [wanted])


@dataclass(frozen=True, slots=True)
class TypeNamed(Rule):
    """An attribute matches the data type of a tensor."""

    code = Code.DATA_TYPES_DIFFER
    words = "{attribute} is the data type of {tensor}"

    attribute: str
    tensor: str

    def faults(self, values: Values) -> Iterator[Fault]:
        named, tensor = values[self.attribute], values[self.tensor]
        if tensor is not None and named is not tensor.data_type:
            wanted = tensor.data_type.name
            message = f"{self.attribute} is {named.name} and {self.tensor} has {wanted}; they must be equal"
            yield Fault(self.code, (self.attribute,), message, [wanted])


@dataclass(frozen=True, slots=True)
class SameRank(Rule):
    """All given tensors have the same rank as the first one; with ``sizes``, another rule says that of their sizes."""

    code = Code.RANKS_DIFFER
    words = "{tensors} have the same rank"

    tensors: tuple[str, ...]
    sizes: bool = False

    def faults(self, values: Values) -> Iterator[Fault]:
        first: tuple[str, BufferTensorDesc] | None = None
        for path, name, desc in every_tensor(values, self.tensors):
            if first is None:
                first = name, desc
            elif desc.rank != first[1].rank:
                how = _broadcasting((name, desc), first) if self.sizes else ""
                message = f"{name} has rank {desc.rank} and {first[0]} {first[1].rank}; they must be equal{how}"
                yield Fault(self.code, (*path, "Sizes"), message, [first[1].rank])


@dataclass(frozen=True, slots=True)
class SameSizes(Rule):
    """All given tensors have the same sizes as the first one, except along an attribute's axis if one is named."""

    code = Code.SIZES_MISMATCH

    tensors: tuple[str, ...]
    but_along: str | None = None

    @property
    def text(self) -> str:
        return f"{listed(self.tensors)} have the same sizes" + (
            f", except along {self.but_along}" if self.but_along else ""
        )

    def faults(self, values: Values) -> Iterator[Fault]:
        axis = values[self.but_along] if self.but_along else None
        first: tuple[str, BufferTensorDesc] | None = None
        for path, name, desc in every_tensor(values, self.tensors):
            if first is None:
                first = name, desc
            elif desc.rank == first[1].rank and _differ(desc.sizes, first[1].sizes, axis):
                wanted = list(first[1].sizes)
                rule = "they must be equal" if axis is None else f"they must be equal except along axis {axis}"
                rule += _broadcasting((name, desc), first) if axis is None else ""
                message = f"sizes {list(desc.sizes)} given for {name}, and {first[0]} has {wanted}; {rule}"
                yield Fault(self.code, (*path, "Sizes"), message, [wanted] if axis is None else None)


@dataclass(frozen=True, slots=True)
class SameLeading(Rule):
    """The first sizes of all given tensors are equal to those of the first one."""

    code = Code.SIZES_MISMATCH

    count: int
    tensors: tuple[str, ...]

    def faults(self, values: Values) -> Iterator[Fault]:
        first: tuple[str, tuple[int, ...]] | None = None
        for path, name, desc in every_tensor(values, self.tensors):
            sizes = desc.sizes[: self.count]
            if first is None:
                first = name, sizes
            for i, (given, wanted) in enumerate(zip(sizes, first[1], strict=False)):
                if given != wanted:
                    message = f"size {given} given for dimension {i} of {name}, and {first[0]} has {wanted}"
                    yield Fault(self.code, (*path, "Sizes", i), f"{message}; they must be equal", [wanted])


def _broadcasting(one: tuple[str, BufferTensorDesc], other: tuple[str, BufferTensorDesc]) -> str:
    """Returns how to repeat one of two tensors that NumPy would broadcast, to append to a message; "" for others.

    DirectML does not broadcast by itself: the sizes are equal, and a stride of 0 repeats elements.
    """
    try:
        sizes = np.broadcast_shapes(one[1].sizes, other[1].sizes)
    except ValueError:
        return ""
    given = [f"{name} the strides {_repeating(desc, sizes)}" for name, desc in (one, other) if desc.sizes != sizes]
    return f". A stride of 0 repeats elements: give {' and '.join(given)} with the sizes {list(sizes)}"


def _repeating(desc: BufferTensorDesc, sizes: tuple[int, ...]) -> list[int]:
    """Returns the strides with which a tensor has other sizes, by which NumPy would broadcast it."""
    added = len(sizes) - desc.rank
    known = zip(desc.sizes, desc.element_strides, sizes[added:], strict=True)
    return [0] * added + [0 if size < whole else step for size, step, whole in known]


def _differ(given: tuple[int, ...], wanted: tuple[int, ...], axis: int | None) -> bool:
    return given != wanted and any(a != b and i != axis for i, (a, b) in enumerate(zip(given, wanted, strict=True)))


@dataclass(frozen=True, slots=True)
class Broadcast(Rule):
    """Each size of a tensor is 1 or equal to that of another tensor, to which it broadcasts."""

    code = Code.SIZES_MISMATCH
    words = "each size of {tensor} is 1 or that of {to}"

    tensor: str
    to: str

    def faults(self, values: Values) -> Iterator[Fault]:
        target = values[self.to]
        for path, name, desc in tensors_of(values, self.tensor):
            if target is None or desc.rank != target.rank:
                continue
            for i, (given, whole) in enumerate(zip(desc.sizes, target.sizes, strict=True)):
                if given not in (1, whole):
                    message = f"size {given} given for dimension {i} of {name}; allowed: {either((1, whole))}"
                    yield Fault(self.code, (*path, "Sizes", i), message, [1, whole])


@dataclass(frozen=True, slots=True)
class BlockSizes(Rule):
    """Each size of a tensor divides the corresponding size of another tensor."""

    code = Code.SIZES_MISMATCH
    words = "each size of {tensor} divides that of {of}"

    tensor: str
    of: str

    def faults(self, values: Values) -> Iterator[Fault]:
        whole = values[self.of]
        for path, name, desc in tensors_of(values, self.tensor):
            if whole is None or desc.rank != whole.rank:
                continue
            for i, (part, all_of_it) in enumerate(zip(desc.sizes, whole.sizes, strict=True)):
                if all_of_it % part:
                    message = f"size {part} given for dimension {i} of {name}; it must divide {self.of}'s {all_of_it}"
                    yield Fault(self.code, (*path, "Sizes", i), message)


@dataclass(frozen=True, slots=True)
class OneElement(Rule):
    """Each of the tensors has a single element."""

    code = Code.SIZES_MISMATCH

    tensors: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"{listed(self.tensors)} {'has' if len(self.tensors) == 1 else 'have'} a single element"

    def faults(self, values: Values) -> Iterator[Fault]:
        for path, name, desc in every_tensor(values, self.tensors):
            if desc.element_count != 1:
                message = f"{name} has {desc.element_count} elements; it must have 1"
                yield Fault(self.code, (*path, "Sizes"), message, [[1] * desc.rank])


@dataclass(frozen=True, slots=True)
class LeadingOnes(Rule):
    """All sizes of a tensor but the last ones are 1."""

    code = Code.SIZES_MISMATCH
    words = "all sizes of {tensor} but the last {last} are 1"

    tensor: str
    last: Quantity

    def faults(self, values: Values) -> Iterator[Fault]:
        kept = self.last.value(values)
        if kept is None:
            return
        for path, name, desc in tensors_of(values, self.tensor):
            for i, given in enumerate(desc.sizes[: max(desc.rank - kept, 0)]):
                if given != 1:
                    message = f"size {given} given for dimension {i} of {name}; only the last {kept} may differ from 1"
                    yield Fault(self.code, (*path, "Sizes", i), message, [1])


@dataclass(frozen=True, slots=True)
class SumAlong(Rule):
    """Along an axis, the sizes of an array's tensors add up to the size of another tensor."""

    code = Code.SIZES_MISMATCH
    words = "along {axis}, the sizes of {array} add up to that of {whole}"

    array: str
    whole: str
    axis: str

    def faults(self, values: Values) -> Iterator[Fault]:
        parts, whole, axis = values[self.array], values[self.whole], values[self.axis]
        if not parts or whole is None or axis >= whole.rank or any(part.rank != whole.rank for part in parts):
            return
        total = sum(part.sizes[axis] for part in parts)
        if total != whole.sizes[axis]:
            message = f"the sizes along axis {axis} add up to {total}; {self.whole} has {whole.sizes[axis]}"
            yield Fault(self.code, (self.array,), message)


@dataclass(frozen=True, slots=True)
class NotOwned(Rule):
    """None of the tensors has the flag OWNED_BY_DML."""

    code = Code.FLAGS_INVALID
    words = "{tensors} are not OWNED_BY_DML"

    tensors: tuple[str, ...]

    def faults(self, values: Values) -> Iterator[Fault]:
        for path, name, desc in every_tensor(values, self.tensors):
            if desc.flags:
                yield Fault(self.code, (*path, "Flags"), f"{name} may not be OWNED_BY_DML here", ["NONE"])


def same_type(*tensors: str) -> Rule:
    """``type(A) == type(B) == ...``"""
    return SameType(tensors)


def type_named(attribute: str, tensor: str) -> Rule:
    """``ValueDataType == type(OutputTensor)``"""
    return TypeNamed(attribute, tensor)


def same_rank(*tensors: str, sizes: bool = False) -> Rule:
    """``rank(A) == rank(B) == ...``; with ``sizes``, for tensors whose ``Sizes`` are equal too."""
    return SameRank(tensors, sizes)


def same_sizes(*tensors: str, but_along: str | None = None) -> Rule:
    """``A.Sizes == B.Sizes == ...``, or ``A.Sizes[d] == B.Sizes[d] for d != Axis``; ``same_rank`` checks the ranks."""
    return SameSizes(tensors, but_along)


def same_leading(count: int, *tensors: str) -> Rule:
    """``A.Sizes[d] == B.Sizes[d] == ... for d < count``"""
    return SameLeading(count, tensors)


def broadcast(tensor: str, *, to: str) -> Rule:
    """``A.Sizes[i] in {1, B.Sizes[i]}``"""
    return Broadcast(tensor, to)


def blocks(tensor: str, *, of: str) -> Rule:
    """``B.Sizes[d] % A.Sizes[d] == 0``"""
    return BlockSizes(tensor, of)


def one_element(*tensors: str) -> Rule:
    """``product(A.Sizes) == 1``"""
    return OneElement(tensors)


def leading_ones(tensor: str, last: Quantity) -> Rule:
    """``A.Sizes[d] == 1 for d < rank(A) - last``"""
    return LeadingOnes(tensor, last)


def sum_along(axis: str, array: str, whole: str) -> Rule:
    """``sum over k of As[k].Sizes[Axis] == B.Sizes[Axis]``"""
    return SumAlong(array, whole, axis)


def not_owned(*tensors: str) -> Rule:
    """``no input tensor has DML_TENSOR_FLAG_OWNED_BY_DML``"""
    return NotOwned(tensors)
