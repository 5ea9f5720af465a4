"""Bodies compressed as the clients of the Open Inference Protocol do it; what comes out of one is bounded."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

from opwire.errors import LimitExceededError, ProblemCode, RequestError, UnsupportedMediaError
from opwire.wire import Buffer

_WINDOW_BITS = {"gzip": 31, "deflate": 15}
"""zlib's numbers for the two wrappings."""

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, compresslevel=1, mtime=0),
    "deflate": lambda data: zlib.compress(data, level=1),
}
"""How to compress an answer, by content encoding."""


def decompress(body: Buffer, encoding: str, limit: int) -> Buffer:
    """The body behind a content encoding.

    Raises:
        UnsupportedMediaError: it is another encoding.
        LimitExceededError: more than ``limit`` bytes come out.
        RequestError: the body is not so encoded.
    """
    if encoding == "identity":
        return body
    bits = _WINDOW_BITS.get(encoding)
    if bits is None:
        detail = f"content encoding {encoding[:60]!r} given; allowed: {', '.join(_WINDOW_BITS)}"
        raise UnsupportedMediaError(ProblemCode.UNSUPPORTED_MEDIA_TYPE, detail)
    stream = zlib.decompressobj(bits)
    try:
        data = stream.decompress(body, limit + 1)
    except zlib.error as error:
        raise RequestError(ProblemCode.INVALID_FRAMING, f"the body is not {encoding}: {error}") from None
    if len(data) > limit:
        raise LimitExceededError(
            ProblemCode.BODY_TOO_LARGE,
            f"the body decompresses to more than {limit} bytes",
            limit=limit,
            size=len(data),
        )
    if not stream.eof or stream.unused_data:
        raise RequestError(ProblemCode.INVALID_FRAMING, f"the {encoding} body is cut off or followed by something else")
    return data
