"""Bodies compressed as the clients of the Open Inference Protocol do it; what comes out of one is bounded."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Callable, Iterator

from opwire.errors import LimitExceededError, ProblemCode, RequestError, UnsupportedMediaError
from opwire.wire import Answer, Buffer

from ..engine.memory import Hold
from .exchange import Fields

_WINDOW_BITS = {"gzip": 31, "deflate": 15}
"""zlib's numbers for the two wrappings."""

_COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, compresslevel=1, mtime=0),
    "deflate": lambda data: zlib.compress(data, level=1),
}

_INLINE = 64 * 1024
"""More bytes than this take longer than handing them to another thread."""

_FED = 256 * 1024
_PIECE = 16 * 2**20


async def decompress(body: Buffer, encoding: str, limit: int, hold: Hold, deadline: float) -> Buffer:
    """The body behind a content encoding.

    Args:
        body: as it was received.
        encoding: the value of ``Content-Encoding``.
        limit: bytes that may come out.
        hold: takes them as they come.
        deadline: until when there must be room for them.

    Raises:
        UnsupportedMediaError: it is another encoding.
        LimitExceededError: more than ``limit`` bytes come out.
        OverloadedError, DeadlineExceededError: there is no room for them.
        RequestError: the body is not so encoded.
    """
    pieces = _pieces(body, encoding)
    found: list[bytes] = []
    size = 0
    # The first piece is small, whatever the body is.
    piece = next(pieces, None)
    while piece is not None:
        size += len(piece)
        if size > limit:
            detail = f"the body decompresses to more than {limit} bytes"
            raise LimitExceededError(ProblemCode.BODY_TOO_LARGE, detail, limit=limit, size=size)
        await hold.grow(len(piece), deadline)
        found.append(piece)
        piece = await asyncio.to_thread(next, pieces, None) if len(piece) >= _INLINE else next(pieces, None)
    return b"".join(found)


def _pieces(body: Buffer, encoding: str) -> Iterator[bytes]:
    """What comes out of a body, a little at first and then in large pieces."""
    bits = _WINDOW_BITS.get(encoding)
    if bits is None:
        detail = f"content encoding {encoding[:60]!r} given; allowed: {', '.join(_WINDOW_BITS)}"
        raise UnsupportedMediaError(ProblemCode.UNSUPPORTED_MEDIA_TYPE, detail)
    stream = zlib.decompressobj(bits)
    view = memoryview(body)
    most = _INLINE
    try:
        for start in range(0, len(view), _FED):
            fed: Buffer = view[start : start + _FED]
            while True:
                piece = stream.decompress(fed, most)
                fed = stream.unconsumed_tail
                yield piece
                if not fed and len(piece) < most:
                    break
                most = _PIECE
            if stream.unused_data or (stream.eof and start + _FED < len(view)):
                raise RequestError(ProblemCode.INVALID_FRAMING, f"something follows the {encoding} body")
    except zlib.error:
        raise RequestError(ProblemCode.INVALID_FRAMING, f"the body is not {encoding}, or damaged") from None
    if not stream.eof:
        raise RequestError(ProblemCode.INVALID_FRAMING, f"the {encoding} body is cut off")


def compresses(accepted: str) -> bool:
    """Whether a client with this ``Accept-Encoding`` gets its answers compressed."""
    return accepted.strip().lower() in _COMPRESS


async def compress(answer: Answer, accepted: str) -> tuple[bytes | None, Fields]:
    """An answer for a client that asks for exactly one encoding; others only say what they could read.

    Returns:
        The body in that encoding, None for those others, and the headers that it needs.
    """
    encoding = accepted.strip().lower()
    encode = _COMPRESS.get(encoding)
    if encode is None:
        return None, ()
    data = b"".join((*answer.head, *answer.tail))
    packed = encode(data) if len(data) <= _INLINE else await asyncio.to_thread(encode, data)
    return packed, ((b"content-encoding", encoding.encode()),)
