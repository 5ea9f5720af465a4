"""Inference requests made from the operators' examples, and the native route's results for them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from opwire.check import check, validate
from opwire.fields import Role
from opwire.operator import Example, Operator
from tests.support.http import bodies

DATATYPES = {
    "FLOAT32": "FP32",
    "FLOAT16": "FP16",
    "FLOAT64": "FP64",
    **{f"{sign}INT{bits}": f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)},
}
"""The protocol's names for DirectML's data types."""

Array = NDArray[Any]


def version_of(example: Example) -> str:
    """Returns the model version for an example's level, such as 2100 for 2_1."""
    *_, major, minor = str(example.level).split("_")
    return f"{major}{minor}00"


def parameters(example: Example) -> dict[str, str | int]:
    """Returns everything in a desc except its inputs, as parameters of the protocol."""
    return {
        name: json.dumps(value) if isinstance(value, list | dict) else value
        for name, value in example.desc.items()
        if name not in example.inputs
    }


def arrays(example: Example) -> dict[str, Array]:
    """Returns an example's inputs; strided ones packed, since the protocol has no strides."""
    return {
        name: _elements(desc, numbers)
        for member, given in example.inputs.items()
        for name, desc, numbers in _each(member, example.desc[member], given)
    }


def _each(member: str, desc: Any, numbers: Any) -> list[tuple[str, Any, Any]]:
    """Returns a member's tensor, or those of an array by their names."""
    if not isinstance(desc, list):
        return [(member, desc, numbers)]
    return [(f"{member}[{i}]", *pair) for i, pair in enumerate(zip(desc, numbers, strict=True))]


def _elements(desc: Mapping[str, Any], numbers: Any) -> Array:
    packed = {"DataType": desc["DataType"], "Sizes": desc["Sizes"]}
    dtype = np.dtype(packed["DataType"].lower())
    return np.frombuffer(bodies.buffer(packed, numbers), dtype).reshape(packed["Sizes"])


def run_native(http: httpx.Client, operator: Operator[Any], example: Example) -> dict[str, Array]:
    """Runs an example on the native binary route, with every output that the operator can have at once."""
    desc = dict(example.desc)
    plan = check({"type": operator.name, "desc": desc}, example.level)
    rules = operator.output_rules(plan.attributes, plan.inputs)
    optional = [member.name for member in operator.members.outputs if member.role is Role.OPTIONAL_OUTPUT]
    decided = {name: rules[name].derived().to_json() for name in optional if name in rules and desc.get(name) is None}
    if decided and validate({"type": operator.name, "desc": {**desc, **decided}}, example.level).valid:
        desc |= decided
    return _execute(http, operator, example, desc)


def _execute(http: httpx.Client, operator: Operator[Any], example: Example, desc: dict[str, Any]) -> dict[str, Array]:
    tail: list[bytes] = []
    request = bodies.execute_request({"type": operator.name, "desc": desc}, example.inputs, "binary", tail)
    request["feature_level"] = str(example.level)
    answer, data = bodies.send(http, request, "binary", "binary", tail)
    found = {}
    for member, outputs in answer["outputs"].items():
        listed = isinstance(outputs, list)
        for i, output in enumerate(outputs if listed else [outputs]):
            size = output["binary_data_size"]
            dtype = np.dtype(output["desc"]["DataType"].lower())
            array = np.frombuffer(data[:size], dtype).reshape(output["desc"]["Sizes"])
            found[f"{member}[{i}]" if listed else member] = array
            data = data[size:]
    return found


def assert_equal(found: Array | None, right: Array, *, text: bool = False) -> None:
    """Checks for the same type, sizes and bits; with ``text``, all NaN are equal."""
    assert found is not None
    assert (found.dtype, found.shape) == (right.dtype, right.shape)
    if text and right.dtype.kind == "f":
        nan = np.isnan(right)
        assert np.array_equal(np.isnan(found), nan)
        found, right = np.where(nan, 0, found), np.where(nan, 0, right)
    assert found.tobytes() == right.tobytes()


def infer_request(**changes: Any) -> dict[str, Any]:
    """Returns a request for ARGMAX of [1, 5, 2] as JSON; members changed to None are left out."""
    request = {
        "inputs": [{"name": "InputTensor", "datatype": "FP32", "shape": [3], "data": [1, 5, 2]}],
        "parameters": {"Axes": "[0]", "AxisDirection": "INCREASING"},
        **changes,
    }
    return {name: value for name, value in request.items() if value is not None}


def infer_tensor(**changes: Any) -> dict[str, Any]:
    """Returns the request's input with some members changed."""
    return {**infer_request()["inputs"][0], **changes}


def binary_infer_request(size: int = 12, **changes: Any) -> tuple[bytes, bytes]:
    """Returns the JSON of a binary request, and its tensor."""
    tensor = {name: value for name, value in infer_tensor().items() if name != "data"}
    head = infer_request(inputs=[{**tensor, "parameters": {"binary_data_size": size}}], **changes)
    return json.dumps(head).encode(), struct.pack("<3f", 1, 5, 2)


def split_answer(headers: Mapping[str, str], body: bytes) -> tuple[Any, bytes]:
    """Splits a response into its JSON and its tail."""
    length = int(headers.get(bodies.HEAD_LENGTH, len(body)))
    return json.loads(body[:length]), body[length:]
