"""Which responses the clients accept: the expected outputs, and no more bytes than those can take."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import httpx
import numpy as np
import pytest

import opwire
from opwire import errors
from tests.support.http.clients import FakeServer, outcome, result_answer

X = np.zeros((2, 3), np.float32)


def output(data_type: str, sizes: list[Any], data: Any, **members: Any) -> httpx.Response:
    """Returns a response with an output, valid or invalid."""
    desc = {"DataType": data_type, "Sizes": sizes, **members}
    return httpx.Response(200, json=outcome({"OutputTensor": {"desc": desc, **data}}))


SEVEN = {"data": base64.b64encode(struct.pack("<7f", *range(7))).decode()}
THREE = {"data": base64.b64encode(struct.pack("<3I", 1, 2, 0)).decode()}
WRONG_OUTPUTS = {
    "type and shape": (output("FLOAT32", [7], SEVEN), r"FLOAT32 \[7\]; expected UINT32 \[1,\s?3\]"),
    "type": (output("INT32", [1, 3], THREE), "INT32.*UINT32"),
    "shape": (output("UINT32", [3, 1], THREE), r"\[3,\s?1\].*\[1,\s?3\]"),
    "none": (httpx.Response(200, json=outcome({})), "no outputs"),
    "a list": (httpx.Response(200, json={**outcome({}), "outputs": []}), "outputs is of type list"),
    "another name": (
        httpx.Response(200, json=outcome({"Y": {"desc": {"DataType": "UINT32", "Sizes": [1, 3]}, **THREE}})),
        '"Y"; expected "OutputTensor"',
    ),
    "too few bytes": (output("UINT32", [1, 3], {"data": "AAAA"}), "3 bytes.*12"),
    "too many bytes": (output("UINT32", [1, 3], SEVEN), "28 bytes.*12"),
    "negative size": (output("UINT32", [1, 3], {"binary_data_size": -12}), "-12 bytes"),
    "no size": (output("UINT32", [1, 3], {"binary_data_size": True}), "true bytes"),
    "no tail": (output("UINT32", [1, 3], {"binary_data_size": 12}), "tail"),
    "negative dimension": (output("UINT32", [-1, -3], THREE), "Sizes"),
    "dimension of another type": (output("UINT32", [1.0, 3], THREE), "Sizes"),
    "rank": (output("UINT32", [1] * 8 + [3], THREE), "Sizes"),
    "huge": (output("UINT32", [2**31, 2**31], THREE, Strides=[0, 0]), "elements"),
    "strides": (output("UINT32", [1, 3], THREE, Strides=[3]), "Strides"),
    "4 bits": (output("UINT4", [1, 3], {"data": "AAA="}), r"UINT8 \[1,\s?3\]; expected UINT32"),
    "unknown type": (output("BFLOAT16", [1, 3], THREE), "BFLOAT16"),
    "device": (
        httpx.Response(200, json={**json.loads(output("UINT32", [1, 3], THREE).content), "device": 7}),
        "device",
    ),
}


@pytest.mark.parametrize(("answer", "message"), WRONG_OUTPUTS.values(), ids=WRONG_OUTPUTS)
@pytest.mark.parametrize("encoding", ["binary", "base64", "numbers"])
def test_responses_must_have_the_expected_outputs(make_client, answer, message, encoding):
    client = make_client(transport=FakeServer(answer).transport, encoding=encoding)
    with pytest.raises(errors.InvalidResponseError, match=f"(?s){message}"):
        client.argmax(X, 0)


def test_each_output_of_a_batch_is_checked(make_client):
    good = json.loads(result_answer().content)
    calls = [opwire.prepare.sum(X, 0), opwire.prepare.sum(X, 1)]
    for results in ([good, good], {"0": good}, [good, {"code": "queue_full", "detail": 7}], [good, "text"]):
        client = make_client(transport=FakeServer(httpx.Response(200, json={"results": results})).transport)
        with pytest.raises(errors.InvalidResponseError):
            client.execute_many(calls)
    server = FakeServer(httpx.Response(200, json={"results": [good, {"code": "queue_full", "detail": "full"}]}))
    first, second = make_client(transport=server.transport).execute_many(calls)
    assert isinstance(first, opwire.Result)
    assert isinstance(second, errors.OverloadedError)


def test_outputs_of_unknown_operators_are_not_checked(make_client):
    client = make_client(transport=FakeServer(output("FLOAT32", [7], SEVEN)).transport)
    assert client.execute({"type": "ELEMENT_WISE_SIN", "desc": {}}, X).output.tolist() == list(range(7))


LONG = b" " * 2**20
LARGE = {
    "announced": httpx.Response(200, headers={"Content-Length": str(2**62)}, content=b"{}"),
    "arriving": httpx.Response(200, content=LONG),
    "problem": httpx.Response(500, headers={"Content-Type": "application/problem+json"}, content=LONG + b"{}"),
    "gzip": httpx.Response(200, headers={"Content-Encoding": "x-gzip"}, content=b"{}"),
    "deep": httpx.Response(200, content=b"[" * 100_000),
    "many": httpx.Response(200, content=b"[" + b"[]," * 50_000 + b"[]]"),
}


@pytest.mark.parametrize("answer", LARGE.values(), ids=LARGE)
@pytest.mark.parametrize("encoding", ["binary", "base64", "numbers"])
def test_oversized_responses_are_refused(make_client, answer, encoding):
    client = make_client(transport=FakeServer(answer).transport, encoding=encoding)
    with pytest.raises(errors.InvalidResponseError, match=r"at most|identity|JSON"):
        client.argmax(X, 0)


def test_the_maximum_response_size_depends_on_the_request(make_client):
    wide = np.zeros((1, 300_000), np.uint8)
    numbers = {"data": [[255] * 300_000]}
    client = make_client(transport=FakeServer(output("UINT8", [1, 300_000], numbers)).transport, encoding="numbers")
    assert client.max(wide, 0).output.shape == (1, 300_000)
    raw = {"data": base64.b64encode(bytes(300_000)).decode()}
    client = make_client(transport=FakeServer(output("UINT8", [1, 300_000], raw)).transport, encoding="base64")
    assert client.max(wide, 0).output.shape == (1, 300_000)
