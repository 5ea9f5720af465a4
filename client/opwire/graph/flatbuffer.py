"""Reads untrusted FlatBuffers: every offset is checked, and the total amount read is bounded.

The ``flatbuffers`` package has no verifier for Python: it truncates strings that exceed the buffer, trusts the length
of a vector, and follows any number of references to the same bytes. Each of its reads would need the checks made here.
Source: https://flatbuffers.dev/internals/.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

MAX_READS = 1 << 20
"""Maximum number of fields and vector elements read from a buffer, which may refer to the same bytes many times."""


MAX_COPIES = 8
"""Maximum number of times that the bytes of a buffer are copied on average, for the same reason. Names are often
referenced twice."""

_SMALL = 1 << 20
"""Bytes that may be copied from any buffer, in addition."""


class Malformed(ValueError):
    """The buffer is malformed; the message says where, as a byte offset."""


class FlatBuffer:
    """The bytes of a buffer, with a budget of how much may still be read from it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._reads = MAX_READS
        self._copied = MAX_COPIES * len(data) + _SMALL

    def root(self) -> Table:
        """Returns the root table."""
        return Table(self, self.offset(0))

    def unpack(self, form: str, at: int) -> int | float:
        """Reads a number in a ``struct`` format at a byte offset."""
        self._reads -= 1
        if self._reads < 0:
            raise Malformed(f"the file refers to more than {MAX_READS} values")
        try:
            (value,) = struct.unpack_from(f"<{form}", self.data, at)
        except struct.error:
            raise Malformed(f"byte {at} is beyond the {len(self.data)} bytes of the file") from None
        return value  # type: ignore[no-any-return]

    def offset(self, at: int) -> int:
        """Returns the target of the offset stored at a byte."""
        return at + int(self.unpack("I", at))

    def piece(self, at: int, size: int) -> bytes:
        """Returns ``size`` bytes from an offset."""
        if at < 0 or at + size > len(self.data):
            raise Malformed(f"{size} bytes at byte {at} exceed the {len(self.data)} bytes of the file")
        self._copied -= size
        if self._copied < 0:
            most = MAX_COPIES * len(self.data) + _SMALL
            raise Malformed(f"the references of the file add up to more than {most} bytes")
        return self.data[at : at + size]

    def string(self, at: int) -> str:
        """Returns the string whose length is stored at a byte."""
        size = int(self.unpack("I", at))
        try:
            return self.piece(at + 4, size).decode()
        except UnicodeDecodeError:
            raise Malformed(f"the text at byte {at} is not UTF-8") from None


class Table:
    """A table: optional fields by number."""

    def __init__(self, buffer: FlatBuffer, at: int) -> None:
        self.buffer = buffer
        self.at = at
        self._fields = at - int(buffer.unpack("i", at))
        if self._fields < 0:
            raise Malformed(f"the fields of the table at byte {at} are outside the file")
        self._size = int(buffer.unpack("H", self._fields))

    def place(self, field: int) -> int | None:
        """Returns the position of a field, or None if it is absent."""
        entry = 4 + 2 * field
        offset = int(self.buffer.unpack("H", self._fields + entry)) if entry + 2 <= self._size else 0
        return self.at + offset if offset else None

    def number(self, field: int, form: str) -> int:
        """Returns an integer, or 0 if it is absent."""
        at = self.place(field)
        return 0 if at is None else int(self.buffer.unpack(form, at))

    def target(self, field: int) -> int | None:
        """Returns the target of a field's offset, or None if it is absent."""
        at = self.place(field)
        return None if at is None else self.buffer.offset(at)

    def table(self, field: int) -> Table | None:
        at = self.target(field)
        return None if at is None else Table(self.buffer, at)

    def text(self, field: int) -> str:
        """Returns a string, or an empty one if it is absent."""
        at = self.target(field)
        return "" if at is None else self.buffer.string(at)

    def raw(self, field: int) -> bytes:
        """Returns a vector of bytes, or an empty one if it is absent."""
        at = self.target(field)
        return b"" if at is None else self.buffer.piece(at + 4, int(self.buffer.unpack("I", at)))

    def vector(self, field: int, width: int, read: Callable[[int], T]) -> list[T]:
        """Returns the elements, each ``width`` bytes wide, of a vector; none if it is absent."""
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
