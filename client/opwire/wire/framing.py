"""The framing of requests and answers: a JSON head, optionally followed by the raw bytes of tensors (the *tail*)."""

from __future__ import annotations

from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic_core import from_json

from ..desc import show
from ..errors import ProblemCode, RequestError

JSON = "application/json"
BINARY = "application/octet-stream"
HEAD_LENGTH = "Inference-Header-Content-Length"
"""The HTTP header with the length of the JSON head of a body that has a tail."""

Buffer = bytes | bytearray | memoryview

_MARKS = (BOM_UTF8, BOM_UTF16_LE, BOM_UTF16_BE)


def split_body(body: Buffer, head_length: str | None) -> tuple[Buffer, memoryview | None]:
    """Splits a body into its JSON head and its tail. Without a head length, all of it is JSON and there is no tail.

    Raises:
        RequestError: the length is not a number, or exceeds the body.
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
    """Parses JSON text; NaN and Infinity are accepted.

    Raises:
        RequestError: it is not JSON.
    """
    try:
        return from_json(bytes(text) if isinstance(text, memoryview) else text)
    except ValueError as error:
        marked = bytes(text[:3]).startswith(_MARKS)
        why = "it begins with a byte order mark; JSON must be UTF-8 without one" if marked else str(error)
        raise RequestError(ProblemCode.INVALID_JSON, f"not JSON: {why}") from None


@dataclass(frozen=True, slots=True)
class Base64:
    """Base64 text, as a view of the body."""

    text: memoryview


@dataclass(slots=True)
class Parts:
    """The tensors of a body outside its parsed JSON: those in the tail, taken in order, and long strings."""

    tail: memoryview | None
    strings: Mapping[str, Base64] = field(default_factory=dict)
    taken: int = 0
    resolved: dict[str, Base64] = field(default_factory=dict)

    def take(self, size: int, pointer: str) -> memoryview:
        """Takes the next bytes of the tail; ``pointer`` names the tensor in messages."""
        if self.tail is None:
            detail = f"{pointer} refers to the tail of the body, but without {HEAD_LENGTH} there is none"
            raise RequestError(ProblemCode.INVALID_FRAMING, detail)
        rest = len(self.tail) - self.taken
        if size > rest:
            detail = f"{pointer} takes {size} bytes of the tail, but only {rest} of its {len(self.tail)} are left"
            raise RequestError(ProblemCode.INVALID_FRAMING, detail)
        piece = self.tail[self.taken : self.taken + size]
        self.taken += size
        return piece

    def text(self, given: str) -> str | Base64:
        """Returns a string of the JSON, or the long string that it is a placeholder for."""
        found = self.strings.get(given)
        if found is None:
            return given
        self.resolved[given] = found
        return found

    def finish(self) -> None:
        """Checks that the whole tail has been taken."""
        if self.tail is not None and self.taken < len(self.tail):
            detail = f"{len(self.tail) - self.taken} bytes of the tail belong to no tensor"
            raise RequestError(ProblemCode.INVALID_FRAMING, detail)
