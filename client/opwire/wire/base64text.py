"""Base64 text (RFC 4648, section 4, with padding): what is small at once, what is large into memory piece by piece.

A piece is small enough for the processor's cache, so decoding costs a fifth of what it does by way of a buffer as large
as the tensor, whose memory the system has to clear first.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64

import numpy as np
import pybase64

from ..tensor import Array

_PIECE = 256 * 1024
"""Letters; a multiple of 4."""

_SMALL = 1024
"""Letters or bytes up to which the standard library is better: pybase64 gives up the GIL, and where many threads wait
for that, to wake one of them takes longer than the work.
"""


def encode(data: bytes | memoryview) -> str:
    """The text for some bytes."""
    if len(data) <= _SMALL:
        return b2a_base64(data, newline=False).decode("ascii")
    return pybase64.b64encode_as_string(data)


def from_text(text: str | memoryview) -> bytes:
    """The bytes that text stands for.

    Raises:
        ValueError: the text is not base64.
    """
    if len(text) <= _SMALL and not len(text) % 4:  # else the standard library would take a "=" too many
        return a2b_base64(text, strict_mode=True)
    return pybase64.b64decode(text, validate=True)


def decoded_size(text: str | memoryview) -> int:
    """The bytes that base64 text stands for; where it is not base64, some number near."""
    end = text[-2:]
    end = end if isinstance(end, str) else end.tobytes().decode("latin-1")
    return len(text) * 3 // 4 - len(end) + len(end.rstrip("="))


def decode(text: str | memoryview, into: Array) -> None:
    """Fills an array of bytes, whose size is that of the text, decoded.

    Raises:
        ValueError: the text is not base64, or of another size.
    """
    done = 0
    for at in range(0, len(text), _PIECE):
        piece = _decode(text[at : at + _PIECE], min(_PIECE // 4 * 3, into.size - done))
        into[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
        done += len(piece)


def decoded(text: str | memoryview, size: int) -> bytes | Array:
    """The bytes that text stands for, ``decoded_size`` of them.

    Raises:
        ValueError: the text is not base64, or of another size.
    """
    if len(text) <= _PIECE:
        return _decode(text, size)
    into = np.empty(size, np.uint8)
    decode(text, into)
    return into


def _decode(text: str | memoryview, size: int) -> bytes:
    piece = from_text(text)
    if len(piece) != size:
        raise ValueError("padding inside")
    return piece
