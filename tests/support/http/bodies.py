"""Encodes requests and decodes responses without the package: base64, numbers, and raw tensors after the JSON."""

from __future__ import annotations

import base64
import itertools
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import numpy as np

JSON = "application/json"
BINARY = "application/octet-stream"
HEAD_LENGTH = "Inference-Header-Content-Length"

FORMS = ("base64", "numbers", "binary")

_FORMATS = {
    "FLOAT32": "f",
    "FLOAT16": "e",
    "FLOAT64": "d",
    **{f"INT{bits}": code for bits, code in ((8, "b"), (16, "h"), (32, "i"), (64, "q"))},
    **{f"UINT{bits}": code for bits, code in ((8, "B"), (16, "H"), (32, "I"), (64, "Q"))},
}


def buffer(desc: Mapping[str, Any], numbers: Any) -> bytes:
    """Encodes nested numbers as a tensor's bytes, laid out as its desc says, with zeros in the gaps."""
    code = _FORMATS[desc["DataType"].removeprefix("DML_TENSOR_DATA_TYPE_")]
    width = struct.calcsize(code)
    addresses = _addresses(desc)
    data = bytearray((max(addresses) + 1) * width)
    for address, number in zip(addresses, _flat(numbers), strict=True):
        struct.pack_into(f"<{code}", data, address * width, float(number) if code in "efd" else number)
    return bytes(data)


def elements(desc: Mapping[str, Any], data: bytes) -> list[Any]:
    """Decodes a tensor's bytes to its elements in row-major order."""
    code = _FORMATS[desc["DataType"]]
    width = struct.calcsize(code)
    return [struct.unpack_from(f"<{code}", data, address * width)[0] for address in _addresses(desc)]


def rounded(desc: Mapping[str, Any], numbers: Any) -> list[Any]:
    """Rounds nested numbers to the data type of a desc and returns them as a flat list."""
    packed = {"DataType": desc["DataType"], "Sizes": desc["Sizes"]}
    return elements(packed, buffer(packed, numbers))


def same(found: Sequence[Any], right: Sequence[Any]) -> bool:
    """Whether two lists hold the same elements, counting NaN as equal to NaN."""
    return [str(value) for value in found] == [str(value) for value in right]


def dtype(data_type: str) -> np.dtype[Any]:
    """Returns the NumPy dtype of a data type."""
    return np.dtype("<" + _FORMATS[data_type])


def _addresses(desc: Mapping[str, Any]) -> list[int]:
    sizes = desc["Sizes"]
    strides = desc.get("Strides")
    if strides is None:
        strides = [1] * len(sizes)
        for i in reversed(range(len(sizes) - 1)):
            strides[i] = strides[i + 1] * sizes[i + 1]
    coordinates = itertools.product(*map(range, sizes))
    return [sum(at * stride for at, stride in zip(coordinate, strides, strict=True)) for coordinate in coordinates]


def _flat(numbers: Any) -> list[Any]:
    if isinstance(numbers, list):
        return [number for item in numbers for number in _flat(item)]
    return [numbers]


def execute_request(
    operator: Mapping[str, Any], inputs: Mapping[str, Any], form: str, tail: list[bytes]
) -> dict[str, Any]:
    """Returns the JSON of an execute request and appends its raw tensors to ``tail``."""
    written: dict[str, Any] = {}
    for name, numbers in inputs.items():
        desc = operator["desc"][name]
        if isinstance(desc, list):
            pairs = zip(desc, numbers, strict=True)
            written[name] = [_tensor(each, values, form, tail) for each, values in pairs]
        else:
            written[name] = _tensor(desc, numbers, form, tail)
    return {"operator": operator, "inputs": written}


def _tensor(desc: Mapping[str, Any], numbers: Any, form: str, tail: list[bytes]) -> Any:
    if form == "numbers":
        return {"data": numbers}
    data = buffer(desc, numbers)
    if form == "base64":
        return base64.b64encode(data).decode("ascii")
    tail.append(data)
    return {"binary_data_size": len(data)}


def encoded_request(document: object, tail: Sequence[bytes] = (), *, raw: bool = False) -> tuple[dict[str, str], bytes]:
    """Returns a request's headers and body; ``raw`` selects the binary form even without a tail."""
    head = json.dumps(document).encode()
    if not tail and not raw:
        return {"Content-Type": JSON}, head
    return {"Content-Type": BINARY, HEAD_LENGTH: str(len(head))}, b"".join((head, *tail))


def send(
    http: httpx.Client,
    request: object,
    form: str,
    answer_form: str = "base64",
    tail: Sequence[bytes] = (),
    path: str = "/v1/execute",
) -> tuple[Any, bytes]:
    """Sends a request that must succeed and returns the JSON and the tail of its response."""
    headers, body = encoded_request(request, tail, raw=form == "binary")
    if answer_form == "binary":
        headers["Accept"] = BINARY
    response = http.post(path, content=body, headers=headers)
    assert response.status_code == 200, response.text
    assert int(response.headers["content-length"]) == len(response.content)
    assert response.headers["content-type"] == JSON or answer_form == "binary"
    return split_answer(response.headers, response.content)


def split_answer(headers: Mapping[str, str], body: bytes) -> tuple[Any, bytes]:
    """Splits a response into its JSON and its tail."""
    if headers["content-type"] == JSON:
        assert HEAD_LENGTH.lower() not in headers
        return json.loads(body), b""
    assert headers["content-type"] == BINARY
    length = int(headers[HEAD_LENGTH.lower()])
    return json.loads(body[:length]), body[length:]


def outputs(answer: Mapping[str, Any], tail: bytes) -> tuple[dict[str, list[Any]], bytes]:
    """Returns the elements of each output (a list per tensor for arrays), and the unread rest of the tail."""
    found: dict[str, list[Any]] = {}
    for name, output in answer["outputs"].items():
        if isinstance(output, list):
            found[name] = []
            for each in output:
                values, tail = _elements(each, tail)
                found[name].append(values)
        else:
            found[name], tail = _elements(output, tail)
    return found, tail


def _elements(output: Mapping[str, Any], tail: bytes) -> tuple[list[Any], bytes]:
    desc = output["desc"]
    if "binary_data_size" in output:
        assert set(output) == {"desc", "binary_data_size"}
        size = output["binary_data_size"]
        return elements(desc, tail[:size]), tail[size:]
    if isinstance(output["data"], str):
        return elements(desc, base64.b64decode(output["data"], validate=True)), tail
    return rounded(desc, output["data"]), tail


def rounded_output(answer: Mapping[str, Any], name: str, numbers: Any) -> list[Any]:
    """Rounds nested numbers to the data type of an output, or of each tensor of an array output."""
    output = answer["outputs"][name]
    if isinstance(output, list):
        return [rounded(each["desc"], values) for each, values in zip(output, numbers, strict=True)]
    return rounded(output["desc"], numbers)


def large_answer(size: int, **options: Any) -> dict[str, Any]:
    """Returns a small request whose output buffer takes ``4 * size`` bytes: two elements, far apart."""
    source = {"DataType": "FLOAT32", "Sizes": [2]}
    desc = {"InputTensor": source, "OutputTensor": {**source, "Strides": [size - 1]}, "Axes": [], "Function": "MAX"}
    return {"operator": {"type": "REDUCE", "desc": desc}, "inputs": {"InputTensor": {"data": [1, 2]}}, **options}
