"""Hypothesis strategies for JSON documents and texts that are mutated until they are invalid."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

from tests.strategies.json_values import JSON

Path = tuple[str | int, ...]


def _deep(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


ODD: list[Any] = [
    *(None, True, False, 0, -1, 1, 2, 7, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63, 2**64, -(2**63)),
    *(10**30, -(10**30), 10**400, 0.5, -0.0, 1.0, 1e-320, 1e308, float("nan"), float("inf"), -float("inf")),
    *("", " ", "\0", "\n\t\x1b", "\ud7ff", "\U0001f389", "x" * 5000, "~0/~1", "NaN", "Infinity", "AAAA", "=", "AA=A"),
    *("SUM", "ARGMAX", "DML_OPERATOR_REDUCE", "FLOAT32", "FLOAT64", "INT4", "UNKNOWN", "OWNED_BY_DML", "BUFFER", "4_1"),
    *([], {}, [[]], [None], [0] * 1000, [1] * 9, {"": {}}, {"Desc": {}}, {"data": []}, {"binary_data_size": 4}),
    *(_deep(20), _deep(250), {"data": _deep(9)}, {"data": [1, "NaN", None]}, {"a": {"b": {"c": [{}]}}}),
]
"""Values that tend to break programs."""

NAMES = [
    *("operator", "inputs", "type", "desc", "feature_level", "requests", "timeout_ms", "priority", "device"),
    *("output_format", "data", "binary_data_size", "Desc", "Type", "DataType", "Sizes", "Strides", "Flags"),
    *("DimensionCount", "TotalTensorSizeInBytes", "GuaranteedBaseOffsetAlignment", "InputTensor", "OutputTensor"),
    *("OutputIndicesTensor", "Function", "AxisCount", "Axes", "AxisDirection", "WindowSize", "StartPadding"),
    *("Dilations", "", "~", "/", "a/b~c", "\0", "sizes", "__proto__", "0", "x" * 300),
]

values = st.sampled_from(ODD).map(copy.deepcopy) | JSON


def _paths(value: Any, at: Path = ()) -> Iterator[Path]:
    yield at
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _paths(item, (*at, name))
    elif isinstance(value, list):
        for i, item in enumerate(value[:20]):
            yield from _paths(item, (*at, i))


def _get(document: Any, path: Path) -> Any:
    for part in path:
        document = document[part]
    return document


def _put(document: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    _get(document, path[:-1])[path[-1]] = value
    return document


def _delete(document: Any, path: Path) -> Any:
    if path:
        del _get(document, path[:-1])[path[-1]]
    return document


@st.composite
def documents(draw: st.DrawFn, document: Any) -> Any:
    """Applies one to four changes to a document, most of them deeply nested."""
    changed = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 4))):
        paths = list(_paths(changed))
        inner = [path for path in paths if len(path) > 2]
        if draw(st.integers(0, 9)) and inner:
            paths = inner
        path = draw(st.sampled_from(paths))
        changed = _change(draw, changed, path)
    return changed


def _change(draw: st.DrawFn, document: Any, path: Path) -> Any:
    value = _get(document, path)
    kind = draw(st.sampled_from(["replace", "delete", "grow", "bend", "bend", "bend", "wrap", "swap"]))
    if kind == "delete":
        return _delete(document, path)
    if kind == "grow" and isinstance(value, dict):
        value[draw(st.sampled_from(NAMES))] = draw(values)
        return document
    if kind == "grow" and isinstance(value, list):
        value.insert(draw(st.integers(0, len(value))), draw(values))
        return document
    if kind == "bend" and isinstance(value, int | float | str):
        return _put(document, path, draw(st.sampled_from(_distorted(value))))
    if kind == "wrap":
        return _put(document, path, draw(st.sampled_from([[value], {"Desc": value}, {"data": value}, [value] * 3])))
    if kind == "swap":
        others = list(_paths(document))
        return _put(document, path, copy.deepcopy(_get(document, draw(st.sampled_from(others)))))
    return _put(document, path, draw(values))


def _distorted(value: int | float | str) -> list[Any]:
    if isinstance(value, str):
        return [
            f"{value}x",
            f" {value}",
            f"DML_{value}",
            f"{value}\0",
            value[:-1],
            value[::-1],
            value * 2,
            value.lower(),
        ]
    real = value / 2 if abs(value) < 2**99 else 0.5
    return [value + 1, value - 1, -value, value * 2**31, real, str(value), [value]]


SPLINTERS = [
    *(b"", b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"0", b"-", b"e9", b".", b"\0", b"\xff", b"\xc3\x28", b" "),
    *(
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"1e999",
        b"-1e999",
        b"-0",
        b"00",
        b"0x1",
        b"1.",
        b".5",
        b"nul",
        b"null",
        b"//",
    ),
    *(b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\u0000"', b'"\\x"', b"'a'", b"\xef\xbb\xbf", b"\r\n\r\n", b"[" * 300),
    *(b"1" * 4000, b"1" * 5000, b'{"a":1,"a":2}', b"{}{}", b"/**/", b"\x1f\x8b", b"true", b"false", b"undefined"),
]


@st.composite
def texts(draw: st.DrawFn, text: bytes) -> bytes:
    """Applies one to three changes to a text."""
    for _ in range(draw(st.integers(1, 3))):
        text = draw(st.sampled_from(_CUTS))(draw, text)
    return text


def _insert(draw: st.DrawFn, text: bytes) -> bytes:
    at = draw(st.integers(0, len(text)))
    return text[:at] + draw(st.sampled_from(SPLINTERS)) + text[at:]


def _cut(draw: st.DrawFn, text: bytes) -> bytes:
    at = draw(st.integers(0, len(text)))
    return text[:at] + text[at + draw(st.integers(0, 40)) :]


def _truncate(draw: st.DrawFn, text: bytes) -> bytes:
    return text[: draw(st.integers(0, len(text)))]


def _flip(draw: st.DrawFn, text: bytes) -> bytes:
    if not text:
        return text
    at = draw(st.integers(0, len(text) - 1))
    return text[:at] + bytes([draw(st.integers(0, 255))]) + text[at + 1 :]


def _token(draw: st.DrawFn, text: bytes) -> bytes:
    """Replaces a number or string with another token."""
    found = list(re.finditer(rb'-?\d+|"[^"\\]*"', text))
    if not found:
        return text
    token = draw(st.sampled_from(found))
    return text[: token.start()] + draw(st.sampled_from(SPLINTERS)) + text[token.end() :]


def _repeat_name(draw: st.DrawFn, text: bytes) -> bytes:
    """Repeats a member name."""
    found = list(re.finditer(rb'"\w+": ?', text))
    if not found:
        return text
    name = draw(st.sampled_from(found))
    value = json.dumps(draw(values)).encode()
    return text[: name.start()] + name[0] + value + b", " + text[name.start() :]


def _append(draw: st.DrawFn, text: bytes) -> bytes:
    return text + draw(st.binary(min_size=1, max_size=40))


_CUTS: list[Callable[[st.DrawFn, bytes], bytes]] = [
    _insert,
    _cut,
    _truncate,
    _flip,
    _token,
    _token,
    _repeat_name,
    _append,
]
