"""JSON that is small to send but large in memory: nested, wide, or with strings that expand."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import NamedTuple

from .wire import BATCH, EXECUTE, HEAD_LENGTH, Target

_MIB = 1 << 20


class Place(NamedTuple):
    """The position of a value in a request: the path, and the text around the value."""

    path: str
    before: bytes
    after: bytes


_DESC = (
    b'{"operator":{"type":"REDUCE","desc":{"Function":"ARGMAX","InputTensor":{"DataType":"INT8","Sizes":[3]},"Axes":'
)
_INFER = "/v2/models/ARGMAX/infer"
_TENSOR = b'{"inputs":[{"name":"InputTensor","datatype":"FP32","shape":[3],"data":'

PLACES = (
    Place(EXECUTE, b'{"operator":', b"}"),
    Place(EXECUTE, _DESC, b'}},"inputs":{"InputTensor":"AQMC"}}'),
    Place(EXECUTE, _DESC + b'[0]}},"inputs":{"InputTensor":', b"}}"),
    Place(EXECUTE, _DESC + b'[0]}},"inputs":{"InputTensor":{"data":', b"}}}"),
    Place(EXECUTE, _DESC + b'[0]}},"inputs":{"InputTensor":"AQMC"},"feature_level":', b"}"),
    Place(EXECUTE, b'{"operator":{"type":', b',"desc":{}},"inputs":{}}'),
    Place(EXECUTE, b'{"unknown":', b"}"),
    Place(EXECUTE, b"", b""),
    Place("/v1/validate", b'{"operator":{"type":"REDUCE","desc":', b"}}"),
    Place(BATCH, b'{"requests":', b"}"),
    Place(BATCH, b'{"requests":[{"operator":', b',"inputs":{}}]}'),
    Place(_INFER, _TENSOR, b'}],"parameters":{"Axes":"[0]"}}'),
    Place(_INFER, _TENSOR + b'[1,3,2]}],"parameters":{"Axes":', b"}}"),
    Place(_INFER, _TENSOR + b'[1,3,2]}],"parameters":', b"}"),
    Place(_INFER, _TENSOR + b'[1,3,2]}],"id":', b"}"),
    Place(_INFER, _TENSOR + b'[1,3,2]}],"outputs":', b"}"),
)
"""Covers every route, and every position a parser may inspect."""


class Kind(NamedTuple):
    """How a value grows: the repeated item, and the text before and after all of them."""

    before: bytes
    item: bytes
    after: bytes


_DEEP = 100
"""About the maximum depth of most parsers."""

NESTED = (
    Kind(b"[", b"[" * _DEEP + b"]" * _DEEP + b",", b"1]"),
    Kind(b"[", b'{"a":' * _DEEP + b"1" + b"}" * _DEEP + b",", b"1]"),
    Kind(b"[", b"[[[]]],", b"1]"),
    Kind(b"", b"[", b""),
    Kind(b"", b'{"a":', b""),
    Kind(b"", b'[{"a":', b""),
    Kind(b"", b'{"InputTensor":', b"1"),
    Kind(b"", b"[[],", b"1"),
)
WIDE = (
    Kind(b"[", b"[],", b"1]"),
    Kind(b"[", b"1,", b"1]"),
    Kind(b"[", b"{},", b"1]"),
    Kind(b"[", b'"",', b"1]"),
    Kind(b"[", b"null,", b"1]"),
    Kind(b"[", b"1e9,", b"1]"),
    Kind(b"[", b'{"a":[1]},', b"1]"),
    Kind(b'{"a":1', b',"a":1', b"}"),
)
STRINGS = (
    Kind(b'"', b"A", b'\\ud83d\\ude00"'),
    Kind(b'"\\ud83d\\ude00', b"A", b'"'),
    Kind(b'"', b"\\u0041", b'"'),
    Kind(b'"', b"\xf0\x9f\x98\x80", b'"'),
    Kind(b'"', b"\\n", b'"'),
    Kind(b'"', b"A", b'"'),
    Kind(b'"', b"A", b""),
    Kind(b"", b"9", b""),
    Kind(b"1.", b"9", b"e9"),
    Kind(b"", b" ", b"1"),
)


def nested(target: Target) -> None:
    """Nested lists and objects, as deep as parsers allow and millions deep, in every position of a value."""
    _send_all(target, NESTED)


def wide(target: Target) -> None:
    """Millions of small sibling values."""
    _send_all(target, WIDE)


def strings(target: Target) -> None:
    """Long strings and numbers, with escapes, and with one character that widens all others."""
    _send_all(target, STRINGS)


def _send_all(target: Target, kinds: tuple[Kind, ...]) -> None:
    """Sends the worst one first, then a random selection."""
    drawn = [*product(PLACES, kinds)]
    worst = drawn.pop(0)
    target.chance.shuffle(drawn)
    chosen = [worst, *drawn[: target.size(24, 4)]]
    sizes = [target.size(64, 14) * _MIB, *(target.chance.choice((1, 4, 14)) * _MIB for _ in chosen[1:])]
    if not target.quick:
        sizes[1:5] = [64 * _MIB] * 4
    as_head = [target.chance.random() < 0.3 for _ in chosen]
    rows = zip(chosen, sizes, as_head, strict=True)
    target.each([partial(_send, target, *row, size, framed=framed) for row, size, framed in rows], 2)


def _send(target: Target, place: Place, kind: Kind, size: int, *, framed: bool) -> None:
    value = kind.before + kind.item * (size // len(kind.item)) + kind.after
    body = place.before + value + place.after
    fields = {HEAD_LENGTH: str(len(body))} if framed else {}
    what = f"{place.path} {(place.before + kind.before + kind.item)[-100:]!r}... of {size} bytes"
    target.ask(target.post(place.path, body, fields), what)
