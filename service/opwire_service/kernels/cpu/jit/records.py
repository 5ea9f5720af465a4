"""Records: named numbers in memory, written by Python and read by kernels.

A class declares what both sides need to know::

    class Geometry(Record):
        count: int
        error: float
        across: Axis
        kept = rows(Loop, 8)

Python writes ``Geometry(count=3, kept=loops)``. A kernel whose parameter is annotated with the class reads
``geometry.kept[i].size``, one load from a fixed place. Each number takes eight bytes; those not written are 0.
"""

# All plain names are left to fields.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from inspect import get_annotations
from typing import Any, ClassVar, Generic, Self, TypeVar, get_type_hints

T = TypeVar("T")

BYTES = 8
"""Size of a number."""


class _Field:
    """A number, or a record within a record.

    Args:
        kind: ``int``, ``bool``, ``float`` or a class of records.
        place: numbers before it in its record.
    """

    def __init__(self, kind: Any, place: int) -> None:
        self.kind = kind
        self.place = place

    def __get__(self, record: Record | None, owner: object) -> Any:
        return self if record is None else _read(self.kind, record._numbers, record._first + self.place)

    def __set__(self, record: Record, value: Any) -> None:
        _write(self.kind, record._numbers, record._first + self.place, value)


class Row(Generic[T]):
    """Adjacent numbers or records of one kind, as Python and kernels see them."""

    def __init__(self, kind: type[T], count: int, numbers: array[int], first: int) -> None:
        self._kind = kind
        self._count = count
        self._numbers = numbers
        self._first = first

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, i: int) -> T:
        if not 0 <= i < self._count:
            raise IndexError(i)
        place = self._first + i * width_of(self._kind)
        return _read(self._kind, self._numbers, place)

    def __iter__(self) -> Iterator[T]:
        return (self[i] for i in range(self._count))


class rows(Generic[T]):  # declares a field, like a function
    """Declares a field of up to ``count`` numbers or records; see ``Record``."""

    place = 0

    def __init__(self, kind: type[T], count: int) -> None:
        self.kind = kind
        self.count = count

    def __get__(self, record: Record, owner: object) -> Row[T]:
        return self if record is None else Row(self.kind, self.count, record._numbers, record._first + self.place)  # type: ignore[redundant-expr] # of the class

    def __set__(self, record: Record, values: Iterable[Any]) -> None:
        width = width_of(self.kind)
        for i, value in enumerate(values):
            if i == self.count:
                raise ValueError(f"more than {self.count} values")
            _write(self.kind, record._numbers, record._first + self.place + i * width, value)


class Record:
    """Numbers with names; subclasses annotate them, see above. A subclass of a record has its fields, too."""

    _fields: ClassVar[dict[str, Any]] = {}
    _size: ClassVar[int] = 0

    def __init_subclass__(cls) -> None:
        cls._fields = dict(cls._fields)
        kinds = get_type_hints(cls)
        for name in get_annotations(cls):
            setattr(cls, name, cls._add(name, _Field(kinds[name], cls._size), width_of(kinds[name])))
        for name, field in list(vars(cls).items()):
            if isinstance(field, rows):
                field.place = cls._size
                cls._add(name, field, width_of(field.kind) * field.count)

    @classmethod
    def _add(cls, name: str, field: T, size: int) -> T:
        cls._fields[name] = field
        cls._size += size
        return field

    def __init__(self, **values: Any) -> None:
        self._numbers = array("q", bytes(BYTES * self._size))
        self._first = 0
        self._set(values)

    def _set(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            if name not in self._fields:
                raise TypeError(f"{type(self).__name__} has no {name}")
            setattr(self, name, value)

    @classmethod
    def within(cls, numbers: array[int], first: int) -> Self:
        """Returns the record that begins at one of some numbers, which it shares."""
        record = cls.__new__(cls)
        record._numbers, record._first = numbers, first
        return record

    def replaced(self, **values: Any) -> Self:
        """Returns a copy with other values."""
        record = self.within(self._own(), 0)
        record._set(values)
        return record

    def _own(self) -> array[int]:
        return self._numbers[self._first : self._first + self._size]

    def buffer_info(self) -> tuple[int, int]:
        """Returns its address and the count of its numbers, as an array does."""
        address, _ = self._numbers.buffer_info()
        return address + BYTES * self._first, self._size

    def __len__(self) -> int:
        return self._size


def packed(records: Sequence[Record]) -> array[int]:
    """Returns records of one class one after the other: a kernel's ``Row``."""
    numbers = array("q")
    for record in records:
        numbers += record._own()
    return numbers


def width_of(kind: Any) -> int:
    return kind._size if issubclass(kind, Record) else 1


def _read(kind: Any, numbers: array[int], place: int) -> Any:
    if issubclass(kind, Record):
        return kind.within(numbers, place)
    if kind is float:
        return struct.unpack("d", struct.pack("q", numbers[place]))[0]
    return kind(numbers[place])


def _write(kind: Any, numbers: array[int], place: int, value: Any) -> None:
    if not issubclass(kind, Record):
        numbers[place] = struct.unpack("q", struct.pack("d", value))[0] if kind is float else int(value)
        return
    given = (
        value._numbers[value._first : value._first + value._size] if isinstance(value, Record) else array("q", value)
    )
    if len(given) != kind._size:
        raise ValueError(f"{len(given)} numbers for a {kind.__name__}")
    numbers[place : place + len(given)] = given
