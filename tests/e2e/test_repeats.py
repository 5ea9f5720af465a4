"""A request that was sent before with other tensors is answered as if it were the first."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import httpx
import numpy as np
import pytest

from opwire.wire import Call, Encoding, write_call
from opwire_service.devices.executable import EXECUTABLE
from tests import bodies
from tests.problems import read_problem

EXAMPLES = [
    pytest.param(operator, example, id=f"{operator.name}-{example.name}")
    for operator in EXECUTABLE.values()
    for example in operator.examples
]

TYPE = {"Content-Type": "application/json"}


def _answer(http: httpx.Client, operator: dict[str, Any], inputs: Any, encoding: Encoding) -> bytes:
    """The bytes of the answer without what differs each time."""
    fields, chunks = write_call(Call(operator, inputs), encoding)
    answer = http.post("/v1/execute", content=b"".join(chunks), headers=fields)
    assert answer.status_code == 200, answer.text
    length = answer.headers.get("Inference-Header-Content-Length")
    head = json.loads(answer.content[: None if length is None else int(length)])
    assert set(head.pop("timing")) == {"receive", "parse", "check", "decode", "queue", "run", "encode", "total"}
    assert head.pop("request_id") == answer.headers["X-Request-Id"]
    return json.dumps(head).encode() + (b"" if length is None else answer.content[int(length) :])


@pytest.mark.parametrize("encoding", [Encoding.BASE64, Encoding.BINARY])
@pytest.mark.parametrize(("operator", "example"), EXAMPLES)
def test_other_tensors(http, operator, example, encoding):
    desc = {"type": operator.name, "desc": dict(example.desc)}
    # Other fields, in another order, are another request, which goes the long way.
    same = {"desc": {**dict(reversed(desc["desc"].items()))}, "type": f"DML_OPERATOR_{operator.name}"}
    for turn in range(3):
        inputs = {
            name: np.frombuffer(bodies.buffer(example.desc[name], np.roll(array, turn).tolist()), np.uint8)
            for name, array in example.inputs.items()
        }
        answers = {
            _answer(http, desc, inputs, encoding),
            _answer(http, desc, inputs, encoding),
            _answer(http, same, inputs, encoding),
        }
        assert len(answers) == 1


OPERATOR = {
    "type": "REDUCE",
    "desc": {"Function": "SUM", "InputTensor": {"DataType": "FLOAT32", "Sizes": [6]}, "Axes": [0]},
}


def _body(text: str, **fields: object) -> bytes:
    return json.dumps({"operator": OPERATOR, "inputs": {"InputTensor": text}, **fields}).encode()


def _problem(http: httpx.Client, body: bytes) -> Mapping[str, Any]:
    answer = http.post("/v1/execute", content=body, headers=TYPE)
    return read_problem(answer.status_code, answer.headers, answer.content, json.loads(body))


RIGHT = base64.b64encode(np.arange(6, dtype=np.float32).tobytes()).decode()


@pytest.fixture
def kept(http) -> None:
    for _ in range(2):
        assert http.post("/v1/execute", content=_body(RIGHT), headers=TYPE).status_code == 200


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        (RIGHT[:-4] + "AA==", "contract_violation"),
        (RIGHT[:-4] + "AAA=", "contract_violation"),
        (RIGHT[:-4] + "A===", "invalid_base64"),
        ("=" * len(RIGHT), "invalid_base64"),
        (RIGHT[:-1] + "-", "invalid_base64"),
        (RIGHT[:-1] + " ", "invalid_base64"),
        (RIGHT[:-1] + "\x7f", "invalid_base64"),
    ],
)
def test_what_is_no_tensor_in_its_place_is_refused_as_ever(http, text, code):
    assert len(text) == len(RIGHT)
    first, again = (_problem(http, body) for body in (_body(text, priority=5), _body(text)))
    assert {**again, "request_id": None} == {**first, "request_id": None}
    assert again["code"] == code


@pytest.mark.usefixtures("kept")
def test_the_place_of_a_tensor_cannot_be_left(http):
    """Text that ends the string and begins another member is read as what it says."""
    inside = RIGHT[:-20] + '"},"priority":77,"z":"'[:20]
    body = _body("#").replace(b"#", inside.encode())
    assert len(body) == len(_body(RIGHT))
    assert http.post("/v1/execute", content=body, headers=TYPE).status_code == 400


@pytest.mark.usefixtures("kept")
def test_its_own_fields_are_kept_with_it(http):
    late = _body(RIGHT, timeout_ms=1, device="reference", output_format="numbers")
    answers = [http.post("/v1/execute", content=late, headers=TYPE) for _ in range(3)]
    for answer in answers:
        if answer.status_code == 200:
            assert answer.json()["device"] == "reference"
            assert answer.json()["outputs"]["OutputTensor"]["data"] == [15.0]
        else:
            assert answer.json()["code"] == "deadline_exceeded"
    assert http.post("/v1/execute", content=_body(RIGHT), headers=TYPE).json()["device"] != "reference"
