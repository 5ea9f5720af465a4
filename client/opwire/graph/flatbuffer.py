"""Reading FlatBuffers that nobody vouches for: every offset is checked, and what is read in all is bounded.

The package ``flatbuffers`` has no verifier for Python. It cuts off a text that is longer than the buffer, believes the
length of a vector, and follows any number of references to the same bytes, so that each of its reads would need the
checks that stand here; what it would save is looking up the place of a field. Source: https://flatbuffers.dev/internals/.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

MOST_READS = 1 << 20
"""Fields and elements of vectors that are read of one buffer: a small one may refer to the same bytes over and over."""


MOST_TIMES = 8
"""How often the bytes of a buffer are copied on the average, for the same reason; names are often referred to twice."""

_SMALL = 1 << 20
"""Bytes that may be copied of any buffer."""


class Malformed(ValueError):
    """The buffer is not what it should be; the message says where, in bytes."""


class FlatBuffer:
    """The bytes of a buffer, and how much may still be read of it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._reads = MOST_READS
        self._copied = MOST_TIMES * len(data) + _SMALL

    def root(self) -> Table:
        """The table that the buffer holds."""
        return Table(self, self.offset(0))

    def unpack(self, form: str, at: int) -> int | float:
        """A number in ``struct``'s form, at a byte."""
        self._reads -= 1
        if self._reads < 0:
            raise Malformed(f"more than {MOST_READS} values are referred to")
        try:
            (value,) = struct.unpack_from(f"<{form}", self.data, at)
        except struct.error:
            raise Malformed(f"byte {at} lies beyond the {len(self.data)} bytes of the file") from None
        return value  # type: ignore[no-any-return]

    def offset(self, at: int) -> int:
        """Where an offset that stands at a byte leads to."""
        return at + int(self.unpack("I", at))

    def piece(self, at: int, size: int) -> bytes:
        """So many bytes from one on."""
        if at < 0 or at + size > len(self.data):
            raise Malformed(f"{size} bytes at byte {at} lie beyond the {len(self.data)} bytes of the file")
        self._copied -= size
        if self._copied < 0:
            raise Malformed(f"more than {MOST_TIMES} times the {len(self.data)} bytes of the file are referred to")
        return self.data[at : at + size]

    def string(self, at: int) -> str:
        """The text whose length stands at a byte."""
        size = int(self.unpack("I", at))
        try:
            return self.piece(at + 4, size).decode()
        except UnicodeDecodeError:
            raise Malformed(f"the text at byte {at} is not UTF-8") from None


class Table:
    """A table: fields by their numbers, each of which may be absent."""

    def __init__(self, buffer: FlatBuffer, at: int) -> None:
        self.buffer = buffer
        self.at = at
        self._fields = at - int(buffer.unpack("i", at))
        if self._fields < 0:
            raise Malformed(f"the table at byte {at} has no fields in the file")
        self._size = int(buffer.unpack("H", self._fields))

    def place(self, field: int) -> int | None:
        """Where a field stands; None if it is absent."""
        entry = 4 + 2 * field
        offset = int(self.buffer.unpack("H", self._fields + entry)) if entry + 2 <= self._size else 0
        return self.at + offset if offset else None

    def number(self, field: int, form: str) -> int:
        """An integer; 0 if it is absent."""
        at = self.place(field)
        return 0 if at is None else int(self.buffer.unpack(form, at))

    def target(self, field: int) -> int | None:
        """Where a field's offset leads to; None if it is absent."""
        at = self.place(field)
        return None if at is None else self.buffer.offset(at)

    def table(self, field: int) -> Table | None:
        at = self.target(field)
        return None if at is None else Table(self.buffer, at)

    def text(self, field: int) -> str:
        """A text; empty if it is absent."""
        at = self.target(field)
        return "" if at is None else self.buffer.string(at)

    def raw(self, field: int) -> bytes:
        """The elements of a vector of bytes."""
        at = self.target(field)
        return b"" if at is None else self.buffer.piece(at + 4, int(self.buffer.unpack("I", at)))

    def vector(self, field: int, width: int, read: Callable[[int], T]) -> list[T]:
        """The elements of a vector, so many bytes wide each; none if it is absent."""
        at = self.target(field)
        if at is None:
            return []
        count = int(self.buffer.unpack("I", at))
        self.buffer.piece(at + 4, count * width)
        return [read(at + 4 + i * width) for i in range(count)]

    def tables(self, field: int) -> list[Table]:
        return self.vector(field, 4, lambda at: Table(self.buffer, self.buffer.offset(at)))

    def texts(self, field: int) -> list[str]:
        return self.vector(field, 4, lambda at: self.buffer.string(self.buffer.offset(at)))

    def numbers(self, field: int, form: str) -> list[int | float]:
        return self.vector(field, struct.calcsize(form), lambda at: self.buffer.unpack(form, at))
