"""What JSON becomes in memory, as Python itself counts it."""

from __future__ import annotations

import tracemalloc

import pytest

from opwire.wire import parse_json
from opwire_service.http.exchange import objects_bytes

COUNT = 50_000


@pytest.mark.parametrize("element", [b"7", b"1000", b"0.1234567", b"[7]", b"[0.5]", b"[]", b"12345678901234567890"])
def test_lists_are_never_more_than_what_is_counted(element):
    body = b"[%b]" % b",".join([element] * COUNT)
    tracemalloc.start()
    try:
        kept = parse_json(body)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept
    assert taken <= objects_bytes(body, None) <= 20 * taken


def test_a_tail_and_base64_count_for_nothing():
    head = b'{"inputs": {"a": "%b"}}' % (b"A" * 10_000)
    assert objects_bytes(head, None) == 0
    assert objects_bytes(bytearray(head + b"," * 10_000), str(len(head))) == 0
    assert objects_bytes(memoryview(head + b"," * 10_000), None) > 0
    assert objects_bytes(b"," * 100, None) == 0


@pytest.mark.parametrize("head_length", ["x", "", "99999999999999999999", "-1"])
def test_a_head_length_that_is_none_is_left_to_the_parser(head_length):
    assert objects_bytes(b"{}", head_length) == 0
