"""Requests that resemble an earlier one but differ: each is answered by its own content."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.profiles import examples

TYPE = {"Content-Type": "application/json"}
OPERATOR: dict[str, Any] = {
    "type": "REDUCE",
    "desc": {"Function": "MAX", "InputTensor": {"DataType": "INT8", "Sizes": [3]}, "Axes": [0]},
}


def post(http: httpx.Client, text: str) -> tuple[int, Any]:
    """Returns the status and the single output element, or the problem's code."""
    answer = http.post("/v1/execute", content=text.encode(), headers=TYPE)
    found = answer.json()
    if answer.status_code != 200:
        return answer.status_code, found["code"]
    return 200, int(np.frombuffer(base64.b64decode(found["outputs"]["OutputTensor"]["data"]), np.int8)[0])


def envelope(inputs: str, extra: str = "") -> str:
    """Returns a request with its members as raw text."""
    return f'{{"operator":{json.dumps(OPERATOR)},"inputs":{{{inputs}}}{extra}}}'


REDUCE_INT32 = OPERATOR["desc"] | {"Function": "SUM", "InputTensor": {"DataType": "INT32", "Sizes": [1]}}
SUM32 = json.dumps({"type": "REDUCE", "desc": REDUCE_INT32})


def sum32(http: httpx.Client, members: str, outer: str = "") -> tuple[int, Any]:
    """Like ``post``, for one INT32."""
    answer = http.post(
        "/v1/execute", content=f'{{"operator":{SUM32},"inputs":{{{members}}}{outer}}}'.encode(), headers=TYPE
    )
    found = answer.json()
    if answer.status_code != 200:
        return answer.status_code, found["code"]
    return 200, int(np.frombuffer(base64.b64decode(found["outputs"]["OutputTensor"]["data"]), np.int32)[0])


@pytest.fixture
def repeated(http: httpx.Client) -> None:
    """Sends the same request several times, so that it is cached."""
    for _ in range(5):
        assert sum32(http, '"InputTensor":"AQAAAA=="') == (200, 1)


@pytest.mark.usefixtures("repeated")
def test_the_last_of_duplicate_members_wins(http):
    for _ in range(5):
        assert sum32(http, '"InputTensor":"AQAAAA==","InputTensor":"\\u0041QAAAA=="') == (200, 1)
    assert sum32(http, '"InputTensor":"AgAAAA==","InputTensor":"\\u0041QAAAA=="') == (200, 1)
    assert sum32(http, '"InputTensor":"AQAAAA==","InputTensor":"\\u0041gAAAA=="') == (200, 2)


@pytest.mark.usefixtures("repeated")
def test_a_number_is_not_mistaken_for_a_similar_tensor(http):
    for _ in range(5):
        assert sum32(http, '"InputTensor":"999\\u0039AA=="', ',"timeout_ms":9999')[0] == 200
    assert sum32(http, '"InputTensor":"999\\u0039AA=="', ',"timeout_ms":abcd') == (400, "invalid_json")


@pytest.mark.usefixtures("repeated")
def test_a_name_is_not_mistaken_for_a_similar_tensor(http):
    text = json.dumps(OPERATOR).replace("[3]", "[1]")
    lookalike = f'{{"operator":{text},"inputs":{{"InputTensor":"\\u0049NT8"}}}}'
    for _ in range(5):
        assert post(http, lookalike)[0] == 422  # three bytes for one element
    assert post(http, lookalike.replace('"INT8"', '"AAAA"')) == (422, "contract_violation")


names = st.sampled_from(["InputTensor", "\\u0049nputTensor", "InputTenso\\u0072"])
tensors = st.binary(min_size=3, max_size=3)
blanks = st.sampled_from(["", " ", "\n", "\t  "])


@st.composite
def members(draw: st.DrawFn) -> tuple[str, bytes]:
    """Draws the inputs as text, and the tensor they stand for."""
    texts, last = [], b""
    for _ in range(draw(st.integers(1, 3))):
        last = draw(tensors)
        letters = base64.b64encode(last).decode()
        spelled = [rf"\u{ord(letter):04x}" if draw(st.booleans()) else letter for letter in letters]
        written = letters if draw(st.booleans()) else "".join(spelled)
        texts.append(f'{draw(blanks)}"{draw(names)}"{draw(blanks)}:{draw(blanks)}"{written}"{draw(blanks)}')
    return ",".join(texts), last


@examples(50)
@given(drawn=members(), extra=st.sampled_from(["", ',"timeout_ms":9999', ',"priority":3', ',"timeout_ms" : 99 99']))
def test_each_spelling_is_answered_by_its_content(server_url, drawn, extra):
    text, tensor = drawn
    with httpx.Client(base_url=server_url, timeout=30) as http:
        expected = (400, "invalid_json") if "99 99" in extra else (200, int(np.frombuffer(tensor, np.int8).max()))
        assert [post(http, envelope(text, extra)) for _ in range(2)] == [expected] * 2
