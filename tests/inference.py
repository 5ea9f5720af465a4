"""Inference requests from the examples of the operators, and what the native route answers to the same."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from opwire.fields import Role
from opwire.operator import Example, Operator
from tests import bodies

DATATYPES = {
    "FLOAT32": "FP32",
    "FLOAT16": "FP16",
    "FLOAT64": "FP64",
    **{f"{sign}INT{bits}": f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)},
}
"""The protocol's names of DirectML's data types."""

Array = NDArray[Any]


def version_of(example: Example) -> str:
    """The model version of the level that an example is for: 2100 for 2_1."""
    *_, major, minor = str(example.level).split("_")
    return f"{major}{minor}00"


def parameters(example: Example) -> dict[str, str | int]:
    """All of a desc but its inputs, as parameters of the protocol."""
    return {
        name: json.dumps(value) if isinstance(value, list | dict) else value
        for name, value in example.desc.items()
        if name not in example.inputs
    }


def arrays(example: Example) -> dict[str, Array]:
    """The inputs of an example; strided ones as their elements, since the protocol knows no strides."""
    found = {}
    for name, numbers in example.inputs.items():
        packed = {"DataType": example.desc[name]["DataType"], "Sizes": example.desc[name]["Sizes"]}
        dtype = np.dtype(packed["DataType"].lower())
        found[name] = np.frombuffer(bodies.buffer(packed, numbers), dtype).reshape(packed["Sizes"])
    return found


def native(http: httpx.Client, operator: Operator[Any], example: Example) -> dict[str, Array]:
    """What the native binary route answers, with every output that the operator has."""
    desc = dict(example.desc)
    answer = _execute(http, operator, example, desc)
    for member in (member for member in operator.members.outputs if member.role is Role.OPTIONAL_OUTPUT):
        if member.name not in desc:
            desc[member.name] = {"DataType": "UINT32", "Sizes": answer["OutputTensor"].shape}
            answer = _execute(http, operator, example, desc)
    return answer


def _execute(http: httpx.Client, operator: Operator[Any], example: Example, desc: dict[str, Any]) -> dict[str, Array]:
    tail: list[bytes] = []
    request = bodies.an_execute({"type": operator.name, "desc": desc}, example.inputs, "binary", tail)
    request["feature_level"] = str(example.level)
    answer, data = bodies.send(http, request, "binary", "binary", tail)
    found = {}
    for name, output in answer["outputs"].items():
        size = output["binary_data_size"]
        dtype = np.dtype(output["desc"]["DataType"].lower())
        found[name] = np.frombuffer(data[:size], dtype).reshape(output["desc"]["Sizes"])
        data = data[size:]
    return found


def assert_equal(found: Array | None, right: Array, *, text: bool = False) -> None:
    """The same type, sizes and bits; in numbers written as text all NaN are one."""
    assert found is not None
    assert (found.dtype, found.shape) == (right.dtype, right.shape)
    if text and right.dtype.kind == "f":
        nan = np.isnan(right)
        assert np.array_equal(np.isnan(found), nan)
        found, right = np.where(nan, 0, found), np.where(nan, 0, right)
    assert found.tobytes() == right.tobytes()


def a_request(**changes: Any) -> dict[str, Any]:
    """ARGMAX of [1, 5, 2] as JSON; a change of None leaves the member out."""
    request = {
        "inputs": [{"name": "InputTensor", "datatype": "FP32", "shape": [3], "data": [1, 5, 2]}],
        "parameters": {"Axes": "[0]", "AxisDirection": "INCREASING"},
        **changes,
    }
    return {name: value for name, value in request.items() if value is not None}


def a_tensor(**changes: Any) -> dict[str, Any]:
    """The input of that request, changed."""
    return {**a_request()["inputs"][0], **changes}


def a_tail_request(size: int = 12, **changes: Any) -> tuple[bytes, bytes]:
    """The JSON of a request whose tensor is behind it, and that tensor."""
    tensor = {name: value for name, value in a_tensor().items() if name != "data"}
    head = a_request(inputs=[{**tensor, "parameters": {"binary_data_size": size}}], **changes)
    return json.dumps(head).encode(), struct.pack("<3f", 1, 5, 2)


def split_answer(headers: Mapping[str, str], body: bytes) -> tuple[Any, bytes]:
    """The JSON of an answer and its tail."""
    length = int(headers.get(bodies.HEAD_LENGTH, len(body)))
    return json.loads(body[:length]), body[length:]
