"""What requests and answers share: a JSON head, perhaps followed by the raw bytes of tensors (the *tail*)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic_core import from_json

from ..desc import show
from ..errors import ProblemCode, RequestError

JSON = "application/json"
BINARY = "application/octet-stream"
HEAD_LENGTH = "Inference-Header-Content-Length"
"""The header that gives the length of the JSON head of a body with a tail."""

Buffer = bytes | bytearray | memoryview


def split_body(body: Buffer, head_length: str | None) -> tuple[Buffer, memoryview | None]:
    """The JSON head and the tail of a body; without a head length all of it is JSON and there is no tail.

    Raises:
        RequestError: the length is not that of a part of the body.
    """
    if head_length is None:
        return body, None
    view = memoryview(body)
    length = int(head_length) if head_length.isascii() and head_length.isdigit() and len(head_length) < 20 else -1
    if not 0 <= length <= len(view):
        raise RequestError(
            ProblemCode.INVALID_FRAMING,
            f"{HEAD_LENGTH} is {show(head_length)}; it must be a number from 0 to the body's {len(view)} bytes",
        )
    return view[:length], view[length:]


def parse_json(text: Buffer) -> object:
    """Any JSON text; NaN and Infinity are taken too.

    Raises:
        RequestError: it is not JSON.
    """
    try:
        return from_json(bytes(text) if isinstance(text, memoryview) else text)
    except ValueError as error:
        raise RequestError(ProblemCode.INVALID_JSON, f"not JSON: {error}") from None


@dataclass(frozen=True, slots=True)
class Base64:
    """Base64 text where it stands in the body."""

    text: memoryview


_LONG_STRING = 4096
_MOST_STRINGS = 10_000
_LEAST_PIECE, _MOST_PIECE = 64, 64 * 1024
_MARK = f"opwire-{os.urandom(16).hex()}-"
"""Stands in for a long string while the JSON around it is parsed; nobody can know it."""


def parse_json_around(text: Buffer) -> tuple[object, dict[str, Base64]]:
    """JSON with its long strings left where they are: in the result each is a mark, which the dictionary resolves.

    A tensor of many megabytes is never made a Python string this way.

    Raises:
        RequestError: it is not JSON.
    """
    if len(text) <= _LONG_STRING:
        return parse_json(text), {}
    pieces: list[Buffer] = []
    marks: dict[str, Base64] = {}
    view = memoryview(text)
    copied = position = 0
    for _ in range(_MOST_STRINGS):
        start, escapes = _find_quote(view, position)
        end = -1
        if start >= 0 and not escapes:
            end, escapes = _find_quote(view, start + 1)
        if escapes:
            break
        if end < 0:
            pieces.append(view[copied:])
            return parse_json(b"".join(pieces)), marks
        if end - start > _LONG_STRING:
            mark = f"{_MARK}{len(marks)}"
            marks[mark] = Base64(view[start + 1 : end])
            pieces += (view[copied : start + 1], mark.encode())
            copied = end
        position = end + 1
    # Strings with escapes, or very many: such a body is not worth the search.
    return parse_json(text), {}


def _find_quote(text: memoryview, start: int) -> tuple[int, bool]:
    """Where the next quotation mark stands, -1 if there is none, and whether a backslash stands before it.

    A view cannot be searched, so pieces of it are copied: small ones first, since most strings are short.
    """
    size = _LEAST_PIECE
    while start < len(text):
        piece = bytes(text[start : start + size])
        found = piece.find(b'"')
        if b"\\" in (piece if found < 0 else piece[:found]):
            return start + max(found, 0), True
        if found >= 0:
            return start + found, False
        start += size
        size = min(4 * size, _MOST_PIECE)
    return -1, False


@dataclass(slots=True)
class Parts:
    """The tensors of a body that are not in its parsed JSON: those in the tail, taken in order, and long strings."""

    tail: memoryview | None
    strings: Mapping[str, Base64] = field(default_factory=dict)
    taken: int = 0
    resolved: int = 0

    def take(self, size: int, pointer: str) -> memoryview:
        """The next bytes of the tail; ``pointer`` says whose they are."""
        if self.tail is None:
            detail = f"{pointer} refers to the tail of the body, and without {HEAD_LENGTH} there is none"
            raise RequestError(ProblemCode.INVALID_FRAMING, detail)
        rest = len(self.tail) - self.taken
        if size > rest:
            detail = f"{pointer} takes {size} bytes of the tail, and {rest} are left of its {len(self.tail)}"
            raise RequestError(ProblemCode.INVALID_FRAMING, detail)
        piece = self.tail[self.taken : self.taken + size]
        self.taken += size
        return piece

    def text(self, given: str) -> str | Base64:
        """A string of the JSON, or the long string that it is the mark of."""
        found = self.strings.get(given)
        if found is None:
            return given
        self.resolved += 1
        return found

    def finish(self) -> None:
        """All of the tail must have been taken."""
        if self.tail is not None and self.taken < len(self.tail):
            detail = f"{len(self.tail) - self.taken} bytes of the tail belong to no tensor"
            raise RequestError(ProblemCode.INVALID_FRAMING, detail)
