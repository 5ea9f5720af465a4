"""Compressed bodies, as sent by clients of the Open Inference Protocol, with a limit on the decompressed size."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Callable, Iterator

from opwire.errors import LimitExceededError, ProblemCode, RequestError, UnsupportedMediaError
from opwire.wire import Answer, Buffer

from ...engine.memory import Hold
from .exchange import Fields

_WINDOW_BITS = {"gzip": 31, "deflate": 15}
"""zlib's ``wbits`` for the two container formats."""

_COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, compresslevel=1, mtime=0),
    "deflate": lambda data: zlib.compress(data, level=1),
}

_INLINE_BYTES = 64 * 1024
"""Size above which data is handled on another thread, in bytes."""

_INPUT_CHUNK = 256 * 1024
_OUTPUT_CHUNK = 16 * 2**20


async def decompress(body: Buffer, encoding: str, limit: int, hold: Hold, deadline: float) -> Buffer:
    """Decompresses a body.

    Args:
        body: body as received.
        encoding: value of ``Content-Encoding``.
        limit: maximum decompressed size, in bytes.
        hold: memory of the request; charged as data is decompressed.
        deadline: latest time to wait for memory.

    Raises:
        UnsupportedMediaError: the encoding is not supported.
        LimitExceededError: the body decompresses to more than ``limit`` bytes.
        OverloadedError, DeadlineExceededError: there is no memory for the decompressed body.
        RequestError: the body is not valid in this encoding.
    """
    pieces = _pieces(body, encoding)
    found: list[bytes] = []
    size = 0
    # The first piece is always small.
    piece = next(pieces, None)
    while piece is not None:
        size += len(piece)
        if size > limit:
            detail = f"the body decompresses to more than {limit} bytes"
            raise LimitExceededError(ProblemCode.BODY_TOO_LARGE, detail, limit=limit, size=size)
        await hold.grow(len(piece), deadline)
        found.append(piece)
        piece = await asyncio.to_thread(next, pieces, None) if len(piece) >= _INLINE_BYTES else next(pieces, None)
    return b"".join(found)


def _pieces(body: Buffer, encoding: str) -> Iterator[bytes]:
    """Decompresses a body incrementally: a small piece first, then large ones."""
    bits = _WINDOW_BITS.get(encoding)
    if bits is None:
        detail = f"content encoding {encoding[:60]!r} given; allowed: {', '.join(_WINDOW_BITS)}"
        raise UnsupportedMediaError(ProblemCode.UNSUPPORTED_MEDIA_TYPE, detail)
    stream = zlib.decompressobj(bits)
    view = memoryview(body)
    most = _INLINE_BYTES
    try:
        for start in range(0, len(view), _INPUT_CHUNK):
            fed: Buffer = view[start : start + _INPUT_CHUNK]
            while True:
                piece = stream.decompress(fed, most)
                fed = stream.unconsumed_tail
                yield piece
                if not fed and len(piece) < most:
                    break
                most = _OUTPUT_CHUNK
            if stream.unused_data or (stream.eof and start + _INPUT_CHUNK < len(view)):
                raise RequestError(ProblemCode.INVALID_FRAMING, f"there is data after the end of the {encoding} body")
    except zlib.error:
        raise RequestError(ProblemCode.INVALID_FRAMING, f"the body is not valid {encoding} data") from None
    if not stream.eof:
        raise RequestError(ProblemCode.INVALID_FRAMING, f"the {encoding} body is truncated")


def compresses(accepted: str) -> bool:
    """Whether a client with this ``Accept-Encoding`` receives compressed responses."""
    return accepted.strip().lower() in _COMPRESS


async def compress(answer: Answer, accepted: str) -> tuple[bytes | None, Fields]:
    """Compresses a response if ``Accept-Encoding`` names exactly one supported encoding.

    A longer list only says what a client could read, not that it wants compression.

    Returns:
        The compressed body, or None for no compression, and the header fields for it.
    """
    encoding = accepted.strip().lower()
    encode = _COMPRESS.get(encoding)
    if encode is None:
        return None, ()
    data = b"".join((*answer.head, *answer.tail))
    packed = encode(data) if len(data) <= _INLINE_BYTES else await asyncio.to_thread(encode, data)
    return packed, ((b"content-encoding", encoding.encode()),)
