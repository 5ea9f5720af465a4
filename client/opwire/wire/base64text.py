"""Decodes base64 text (RFC 4648, section 4, with padding) into a buffer, piece by piece.

Each piece fits in the CPU cache, which makes decoding five times as fast as through a temporary buffer of the size of
the tensor, whose pages the system must clear first.
"""

from __future__ import annotations

import numpy as np
import pybase64

from ..tensor import Array

_PIECE = 256 * 1024
"""Characters per piece; a multiple of 4."""


def decoded_size(text: str | memoryview) -> int:
    """Returns the size in bytes of decoded base64 text; an approximation if it is not base64."""
    end = text[-2:] if isinstance(text, str) else text[-2:].tobytes().decode("latin-1")
    return len(text) * 3 // 4 - end.count("=")


def decode(text: str | memoryview, into: Array) -> None:
    """Decodes text into an array of bytes of exactly the decoded size.

    Raises:
        ValueError: the text is not base64, or has a different size.
    """
    done = 0
    for at in range(0, len(text), _PIECE):
        piece = _decode(text[at : at + _PIECE], min(_PIECE // 4 * 3, into.size - done))
        into[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
        done += len(piece)


def decoded(text: str | memoryview, size: int) -> bytes | Array:
    """Decodes text to bytes.

    Args:
        text: the text.
        size: its ``decoded_size``.

    Raises:
        ValueError: the text is not base64, or has a different size.
    """
    if len(text) <= _PIECE:
        return _decode(text, size)
    into = np.empty(size, np.uint8)
    decode(text, into)
    return into


def _decode(text: str | memoryview, size: int) -> bytes:
    piece = pybase64.b64decode(text, validate=True)
    if len(piece) != size:
        raise ValueError("padding before the end")
    return piece
