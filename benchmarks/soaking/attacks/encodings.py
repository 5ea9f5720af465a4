"""Compressed bodies: bombs, false declarations, and what must still work."""

from __future__ import annotations

import gzip
import zlib
from functools import partial

from .wire import EXECUTE, Target, json_bytes

_PATH = "/v2/models/ARGMAX/infer"
_BODY = json_bytes(
    {
        "inputs": [{"name": "InputTensor", "datatype": "INT32", "shape": [3], "data": [1, 3, 2]}],
        "parameters": {"Axes": "[0]", "AxisDirection": "INCREASING"},
    }
)
_USUAL = {"Accept": "application/json"}


def _bomb(mebibytes: int, window_bits: int) -> bytes:
    """Compresses ``mebibytes`` MiB of zeros by repeating the same compressed piece, without the trailing checksums."""
    made, piece = zlib.compressobj(9, zlib.DEFLATED, window_bits), bytes(1 << 20)
    first, next_ = (made.compress(piece) + made.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return first + next_ * (mebibytes - 1)


def bombs(target: Target) -> None:
    """A few megabytes that expand to gigabytes, in each encoding and doubly compressed."""
    size = target.size(4096, 512)
    gzipped, deflated = _bomb(size, 31), _bomb(size, 15)
    bodies = {
        "gzip": (gzipped, "gzip"),
        "deflate": (deflated, "deflate"),
        "gzip twice": (gzip.compress(gzipped, 1), "gzip"),
        "a list": (gzip.compress(gzipped, 1), "gzip, gzip"),
        "many members": (gzip.compress(b" ") * 100_000, "gzip"),
        "nested JSON": (gzip.compress(b"[[[]]]," * (size << 11), 1), "gzip"),
        "spaces": (gzip.compress(b" " * (size << 14) + _BODY, 1), "gzip"),
    }
    asks = [
        partial(target.ask, target.post(path, body, {"Content-Encoding": encoding}), f"{what} to {path}")
        for what, (body, encoding) in bodies.items()
        for path in (_PATH, EXECUTE)
    ]
    target.each(asks, 2)


def lies(target: Target) -> None:
    """Bodies whose declared encoding is false are refused, even if the request is cached already; valid ones pass."""
    right = gzip.compress(_BODY)
    for _ in range(5):
        _expect(target, _BODY, {}, 200, "a plain body")
    for _ in range(3):
        _expect(target, _BODY, {"Content-Encoding": "gzip"}, 400, "a plain body said to be gzip")
        _expect(target, _BODY, {"Content-Encoding": "deflate"}, 400, "a plain body said to be deflate")
        _expect(target, _BODY, {"Content-Encoding": "br"}, 415, "an unknown encoding")
        _expect(target, right, {"Content-Encoding": "gzip"}, 200, "a gzip body")
        _expect(target, zlib.compress(_BODY), {"Content-Encoding": "deflate"}, 200, "a deflate body")
        _expect(target, right, {}, 400, "a gzip body said to be plain")
        _expect(target, right[:-6], {"Content-Encoding": "gzip"}, 400, "a truncated gzip body")
        _expect(target, _BODY, {"Content-Encoding": "identity"}, None, "the identity encoding")


def _expect(target: Target, body: bytes, fields: dict[str, str], status: int | None, what: str) -> None:
    answer = target.ask(target.post(_PATH, body, {**_USUAL, **fields}), what)
    found = None if answer is None else answer.status
    if status is not None:
        target.tally.expect(found == status, f"{what}: status {found} instead of {status}")
