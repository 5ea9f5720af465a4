"""Splits the body of a request into its JSON, its long strings and its tail before parsing.

This way a large tensor never becomes a Python string, and the memory needed by the rest of the JSON can be estimated
first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple, TypeVar

from ..errors import RequestError
from .framing import Base64, Buffer, Parts, parse_json, split_body

T = TypeVar("T")

NODE_BYTES = 128
"""Memory that a JSON value takes as Python objects, in bytes, until its array is created.

Measured: 31 (small integers) to 67 (other numbers) in a flat list, 95 to 119 if each is in a list of its own.
"""

_LONG_STRING = 4096
_MAX_QUOTES = 20_000
_QUOTED = 128
_MIN_PIECE, _MAX_PIECE = 64, 64 * 1024
_PLACEHOLDER = f"opwire-{os.urandom(16).hex()}-"
"""Prefix of the placeholders that replace long strings while the JSON is parsed; it cannot be guessed."""


class RequestBody(NamedTuple):
    """A body split into parts.

    Attributes:
        text: its JSON, with a placeholder for each long string.
        strings: the long strings, by placeholder.
        tail: the bytes after the JSON, or None if it has no tail.
    """

    text: bytes
    strings: Mapping[str, Base64]
    tail: memoryview | None

    @classmethod
    def split(cls, body: Buffer, head_length: str | None = None) -> RequestBody:
        """Splits a body.

        Args:
            body: the body as received.
            head_length: the length of its JSON, if a tail follows.

        Raises:
            RequestError: the length is not a number, or exceeds the body.
        """
        head, tail = split_body(body, head_length)
        if len(head) <= _LONG_STRING:
            return cls(head if isinstance(head, bytes) else bytes(head), {}, tail)
        text, strings = _extract_long_strings(memoryview(head))
        return cls(text, strings, tail)

    @property
    def nodes(self) -> int:
        """An upper bound of the number of values in the JSON."""
        return 1 + sum(self.text.count(sign) for sign in (b",", b":", b"[", b"{"))

    @property
    def containers(self) -> int:
        """An upper bound of the number of lists and objects in the JSON."""
        return self.text.count(b"[") + self.text.count(b"{")

    @property
    def objects_bytes(self) -> int:
        """An upper bound of the memory that the JSON takes as Python objects."""
        wide = not self.text.isascii() or b"\\" in self.text
        return NODE_BYTES * self.nodes + (4 if wide else 1) * len(self.text)

    def read(self, read: Callable[[object, Parts], T]) -> T:
        """Parses the JSON and passes it, with the other parts, to a function.

        Raises:
            RequestError: the body is not JSON, part of its tail is unused, or ``read`` raises it.
        """
        parts = Parts(self.tail, self.strings)
        document = parse_json(self.text)
        if not self.strings:
            return _finish(read(document, parts), parts)
        with suppress(RequestError):
            found = read(document, parts)
            if parts.resolved.keys() == self.strings.keys():
                return _finish(found, parts)
        # Some long string is not a tensor: messages must quote it rather than its placeholder.
        parts, quoted = Parts(self.tail, parts.resolved), self.text
        for placeholder in self.strings.keys() - parts.strings.keys():
            quoted = quoted.replace(placeholder.encode(), _prefix(self.strings[placeholder].text))
        return _finish(read(parse_json(quoted), parts), parts)


def _finish(found: T, parts: Parts) -> T:
    parts.finish()
    return found


def _prefix(text: memoryview) -> bytes:
    """Returns the beginning of a string, without splitting a character."""
    return bytes(text[:_QUOTED]).decode(errors="ignore").encode()


def _extract_long_strings(text: memoryview) -> tuple[bytes, dict[str, Base64]]:
    """Replaces the long strings in JSON by placeholders; strings with escapes are left in place."""
    pieces: list[Buffer] = []
    placeholders: dict[str, Base64] = {}
    copied = 0
    for start, end in _plain_strings(text):
        if end - start > _LONG_STRING:
            placeholder = f"{_PLACEHOLDER}{len(placeholders)}."
            placeholders[placeholder] = Base64(text[start:end])
            pieces += (text[copied:start], placeholder.encode())
            copied = end
    return b"".join((*pieces, text[copied:])), placeholders


def _plain_strings(text: memoryview) -> Iterator[tuple[int, int]]:
    """Yields the start and end of the strings without escapes, up to a limit."""
    start = -1
    is_plain = True
    position = 0
    for _ in range(_MAX_QUOTES):
        quote, has_backslash = _find_quote(text, position)
        if quote < 0:
            return
        is_plain = is_plain and not has_backslash
        position = quote + 1
        if start < 0:
            start, is_plain = position, True
        elif not _is_escaped(text, quote):
            if is_plain:
                yield start, quote
            start = -1


def _is_escaped(text: memoryview, quote: int) -> bool:
    """Returns whether a quotation mark is preceded by an odd number of backslashes."""
    first = quote
    while first:
        piece = bytes(text[max(0, first - _MAX_PIECE) : first])
        others = len(piece.rstrip(b"\\"))
        first -= len(piece) - others
        if others:
            break
    return bool((quote - first) % 2)


def _find_quote(text: memoryview, start: int) -> tuple[int, bool]:
    """Returns the position of the next quotation mark, -1 if there is none, and whether there is a backslash before it.

    A memoryview cannot be searched, so pieces of it are copied: small ones first, since most strings are short.
    """
    size = _MIN_PIECE
    has_backslash = False
    while start < len(text):
        piece = bytes(text[start : start + size])
        found = piece.find(b'"')
        has_backslash = has_backslash or b"\\" in (piece if found < 0 else piece[:found])
        if found >= 0:
            return start + found, has_backslash
        start += size
        size = min(4 * size, _MAX_PIECE)
    return -1, has_backslash
