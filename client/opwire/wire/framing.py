"""What requests and answers share: a JSON head, perhaps followed by the raw bytes of tensors (the *tail*)."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic_core import from_json

from ..desc import show
from ..errors import ProblemCode, RequestError

JSON = "application/json"
BINARY = "application/octet-stream"
HEAD_LENGTH = "Inference-Header-Content-Length"
"""The header that gives the length of the JSON head of a body with a tail."""

Buffer = bytes | bytearray | memoryview


def split_body(body: Buffer, head_length: str | None) -> tuple[memoryview, memoryview | None]:
    """The JSON head and the tail of a body; without a head length all of it is JSON and there is no tail.

    Raises:
        RequestError: the length is not that of a part of the body.
    """
    view = memoryview(body)
    if head_length is None:
        return view, None
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


@dataclass(slots=True)
class Tail:
    """The raw tensors behind a JSON head, taken one after another."""

    data: memoryview | None
    taken: int = 0

    def take(self, size: int, pointer: str) -> memoryview:
        if self.data is None:
            detail = f"{pointer} refers to the tail of the body, and without {HEAD_LENGTH} there is none"
            raise RequestError(ProblemCode.INVALID_FRAMING, detail)
        rest = len(self.data) - self.taken
        if size > rest:
            detail = f"{pointer} takes {size} bytes of the tail, and {rest} are left of its {len(self.data)}"
            raise RequestError(ProblemCode.INVALID_FRAMING, detail)
        piece = self.data[self.taken : self.taken + size]
        self.taken += size
        return piece

    def finish(self) -> None:
        if self.data is not None and self.taken < len(self.data):
            detail = f"{len(self.data) - self.taken} bytes of the tail belong to no tensor"
            raise RequestError(ProblemCode.INVALID_FRAMING, detail)
