"""The heads of attention: the sizes of queries, keys and values, and rules about these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..rules import Quantity, Rule, Values
from ..tensor import BufferTensorDesc
from ..violation import Code, Fault

QUERIES = ("QueryTensor", "StackedQueryKeyTensor", "StackedQueryKeyValueTensor")
KEYS = ("KeyTensor", "StackedQueryKeyTensor", "StackedKeyValueTensor", "StackedQueryKeyValueTensor")
VALUES = ("ValueTensor", "StackedKeyValueTensor", "StackedQueryKeyValueTensor")
PAST = ("PastKeyTensor", "PastValueTensor")


class Heads(NamedTuple):
    """The attributes that count heads; MULTIHEAD_ATTENTION has a single one."""

    query: str
    key_value: str

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self)


class Source(NamedTuple):
    """A tensor with queries, keys or values: its name, batch, sequence length, the size of a head and of all heads."""

    tensor: str
    batch: int
    length: int
    head: int
    hidden: int


def _source(values: Values, names: Sequence[str], heads: str) -> Source | None:
    """Returns the first given tensor of several; a stacked one has rank 5 and a dimension for the heads."""
    for name in names:
        desc: BufferTensorDesc | None = values[name]
        if desc is None:
            continue
        if name.startswith("Stacked"):
            if desc.rank < 5:
                return None
            batch, length, _, _, head = desc.sizes
            return Source(name, batch, length, head, head * values[heads])
        if desc.rank < 3 or not values[heads]:
            return None
        batch, length, hidden = desc.sizes[-3:]
        return Source(name, batch, length, max(hidden // values[heads], 1), hidden)
    return None


class Extents(NamedTuple):
    """The sizes named on the page."""

    query: Source
    key: Source
    value: Source
    past: int

    @property
    def total(self) -> int:
        return self.past + self.key.length


def extents_of(values: Values, heads: Heads) -> Extents | None:
    """Returns the named sizes, or None if a tensor is missing or has the wrong rank."""
    query = _source(values, QUERIES, heads.query)
    past, past_value = values["PastKeyTensor"], values["PastValueTensor"]
    if query is None or any(each is not None and each.rank < 4 for each in (past, past_value)):
        return None
    key = _source(values, KEYS, heads.key_value)
    value = _source(values, VALUES, heads.key_value)
    if past is not None and past_value is not None:  # these may be all there are
        key = key or Source("PastKeyTensor", query.batch, 0, query.head, 0)
        value = value or Source("PastValueTensor", query.batch, 0, past_value.sizes[-1], 0)
    if key is None or value is None:
        return None
    return Extents(query, key, value, 0 if past is None else past.sizes[-2])


@dataclass(frozen=True, slots=True)
class Extent(Quantity):
    """A size named on the page, taken from the given tensors.

    Attributes:
        name: its name on the page.
        heads: the attributes that count heads.
        of: returns it, given the named sizes.
    """

    name: str
    heads: Heads
    of: Callable[[Extents], int]

    @property
    def reads(self) -> frozenset[str]:
        return self.heads.names.union(QUERIES, KEYS, VALUES, PAST)

    def value(self, values: Values) -> int | None:
        extents = extents_of(values, self.heads)
        return None if extents is None else self.of(extents)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class KeysGiven(Rule):
    """Keys and values are given, unless there are past ones. Without either there is no bias."""

    code = Code.MISSING_TENSOR
    members = (*KEYS, *VALUES, *PAST, "BiasTensor")

    def faults(self, values: Values) -> Iterator[Fault]:
        keys, new_values = (any(values[name] is not None for name in names) for names in (KEYS, VALUES))
        past = all(values[name] is not None for name in PAST)
        for names, given in ((KEYS, keys or (past and not new_values)), (VALUES, new_values or past)):
            if not given:
                yield Fault(self.code, (names[0],), f"none of {', '.join(names)} is given; one is required")
        if values["BiasTensor"] is not None and not (keys and new_values):
            yield Fault(
                Code.UNEXPECTED_TENSOR, ("BiasTensor",), "BiasTensor is given without keys and values to add it to"
            )


@dataclass(frozen=True, slots=True)
class LengthsFit(Rule):
    """There is one past length per batch entry: sizes ``{batchSize}`` or ``{batchSize, 1}``, after any leading ones."""

    code = Code.SIZES_MISMATCH

    tensor: str
    batch: Quantity

    def faults(self, values: Values) -> Iterator[Fault]:
        desc, batch = values[self.tensor], self.batch.value(values)
        if desc is None or batch is None:
            return
        ones = [1] * desc.rank
        allowed = [[*ones[1:], batch], *([[*ones[2:], batch, 1]] if desc.rank > 1 else [])]
        if list(desc.sizes) not in allowed:
            message = (
                f"sizes {list(desc.sizes)} given for {self.tensor}; it must have {batch} elements, the {self.batch}"
            )
            yield Fault(self.code, (self.tensor, "Sizes"), message, allowed)
