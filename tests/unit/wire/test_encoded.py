"""Base64 text decoded in pieces, against Python's own decoder."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest

from opwire.check import check
from opwire.errors import ProblemCode, RequestError
from opwire.wire import EncodedTensor, RequestBody, encoded_inputs, parse_execute


def request(count: int, text: str, **tensor: Any) -> EncodedTensor | None:
    """Returns the input of a request as given to a device that decodes."""
    source = {"DataType": "UINT8", "Sizes": [count], **tensor}
    operator = {"type": "REDUCE", "desc": {"Function": "MAX", "InputTensor": source, "Axes": [0]}}
    parsed = parse_execute(
        RequestBody.split(json.dumps({"operator": operator, "inputs": {"InputTensor": text}}).encode())
    )
    found = encoded_inputs(check(operator), parsed)
    return None if found is None else found["InputTensor"]


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


SIZES = [5000, 196_607, 196_608, 196_609, 500_001]
"""Including sizes around a piece."""


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("step", [3, 4 * 2**20 // 3 * 3, 99_999])
def test_pieces_match_the_whole(size, step):
    data = np.random.default_rng(size).bytes(size)
    step = max(step, size // 50 // 3 * 3)
    tensor = request(size, encoded(data))
    assert tensor is not None
    into = np.zeros(size, np.uint8)
    for start in range(0, size, step):
        tensor.decode(start, into[start : start + step])
    assert into.tobytes() == data
    assert tensor.array().tobytes() == data


@pytest.mark.parametrize("at", [0, 4095, 262_143, 262_144, 300_001])
@pytest.mark.parametrize("letter", ["*", "=", "-", " ", "~"])
def test_invalid_base64_is_refused(at, letter):
    text = encoded(bytes(300_000))
    tensor = request(300_000, text[:at] + letter + text[at + 1 :])
    assert tensor is not None
    with pytest.raises(RequestError) as refusal:
        tensor.array()
    assert refusal.value.code is ProblemCode.INVALID_BASE64
    assert [violation.pointer for violation in refusal.value.violations] == ["/inputs/InputTensor"]


def test_short_or_padded_text_is_not_decoded_in_pieces():
    assert request(30, encoded(bytes(30))) is None
    assert request(9001, encoded(bytes(9000))) is None
    assert request(9000, encoded(bytes(9000))[:-1]) is None
    # the padding that DirectML allows after a tensor
    assert request(9001, encoded(bytes(9004))) is None


def test_numbers_are_not_decoded_in_pieces():
    source = {"DataType": "UINT8", "Sizes": [3]}
    operator = {"type": "REDUCE", "desc": {"Function": "MAX", "InputTensor": source, "Axes": [0]}}
    body = {"operator": operator, "inputs": {"InputTensor": {"data": [1, 2, 3]}}}
    assert encoded_inputs(check(operator), parse_execute(RequestBody.split(json.dumps(body).encode()))) is None
