"""Splitting a body before it is parsed: its long strings, and the memory that its JSON will take."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire.errors import RequestError
from opwire.wire import RequestBody

COUNT = 50_000
LONG = 5000


def parsed(body: bytes | memoryview) -> object:
    return RequestBody.split(body).read(lambda document, parts: document)


def sizes(body: bytes) -> tuple[int, int]:
    """Returns the bytes that the parsed JSON of a body takes, and those that were estimated."""
    taken = RequestBody.split(body)
    tracemalloc.start()
    try:
        kept = taken.read(lambda document, parts: document)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept
    return size, taken.objects_bytes


@pytest.mark.parametrize("element", [b"7", b"1000", b"0.1234567", b"[7]", b"[0.5]", b"[]", b"{}", b'{"":{}}', b'"abc"'])
def test_parsed_json_takes_no_more_than_estimated(element):
    size, estimated = sizes(b"[%b]" % b",".join([element] * COUNT))
    assert size <= estimated <= 20 * size


def test_wide_characters_are_counted():
    size, estimated = sizes(b'["%b\\ud83d\\ude00"]' % (b"a" * 1_000_000))
    assert 4_000_000 <= size <= estimated


def test_long_strings_are_not_parsed():
    text = "A" * LONG
    taken = RequestBody.split(memoryview(json.dumps({"a": text, "b": [text, "c"]}).encode()))
    assert len(taken.text) < 300
    assert taken.nodes < 10
    assert [bytes(each.text) for each in taken.strings.values()] == [text.encode()] * 2


def test_misplaced_long_strings_are_quoted_by_their_start():
    assert parsed(json.dumps({"a": "x" * LONG, "é" * LONG: 1}, ensure_ascii=False).encode()) == {
        "a": "x" * 128,
        "é" * 64: 1,
    }


texts = st.text(st.sampled_from('a"\\\n/\u00e9\U0001f600'), max_size=12).map(lambda text: text * 3)
long = st.sampled_from(["<plain>", "<quotes>", "<backslashes>"])
"""Stand for long strings, which would make examples hard to read."""

LONG_STRINGS = {"<plain>": "A" * LONG, "<quotes>": 'b"' * LONG, "<backslashes>": "\\" * LONG}

values = st.recursive(texts | long | st.integers(), st.lists)


@given(document=st.dictionaries(texts | long, values, max_size=4), ascii_only=st.booleans())
def test_documents_round_trip(document, ascii_only):
    written = mapped(document, lambda text: LONG_STRINGS.get(text, text))
    taken = RequestBody.split(json.dumps(written, ensure_ascii=ascii_only).encode())
    read = taken.read(lambda found, parts: mapped(found, lambda text: whole(parts.text(text))))
    assert read == written


def whole(found: Any) -> str:
    """Returns a string as the tensor reader sees it."""
    return found if isinstance(found, str) else bytes(found.text).decode()


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """Returns a document with a function applied to each of its strings."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [mapped(item, change) for item in value]
    if isinstance(value, dict):
        return {change(name): mapped(item, change) for name, item in value.items()}
    return value


@pytest.mark.parametrize(
    "body",
    [
        b'{"operator":' + b"[" * 5_000_000,
        b'{"a":' * 2_000_000,
        b'{"a":"' + b'\\"' * 3_000_000 + b'"}',
        b'{"a":"' + b"\\" * 5_000_000 + b'"}',
        b'"' * 5_000_000,
    ],
    ids=["lists", "objects", "escaped quotes", "backslashes", "quotes"],
)
def test_adversarial_bodies_are_split_quickly(body):
    began = time.process_time()
    taken = RequestBody.split(memoryview(body))
    assert taken.nodes
    assert taken.objects_bytes
    assert time.process_time() - began < 1


def test_nesting_is_bounded():
    with pytest.raises(RequestError, match="recursion"):
        parsed(b"[" * 100_000)
