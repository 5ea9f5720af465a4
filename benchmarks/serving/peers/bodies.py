"""Bodies shared by several servers: JSON with base64, raw bytes, and the binary tensors of protocol v2."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pybase64
from numpy.typing import NDArray

from ..cases import Case
from ..contender import Reply, Request

JSON = {"Content-Type": "application/json"}
BINARY = {"Content-Type": "application/octet-stream"}
RAW = {"Content-Type": "application/x-tensor"}  # KServe parses an octet-stream as JSON
HEAD_LENGTH = "Inference-Header-Content-Length"


def base64_of(case: Case) -> bytes:
    """Encodes a case's tensor in base64."""
    encoded: bytes = pybase64.b64encode(case.tensor.data)
    return encoded


def read_base64(text: str | bytes) -> NDArray[Any]:
    """Decodes indices from base64."""
    return np.frombuffer(pybase64.b64decode(text, validate=True), np.uint32)


def write_json(case: Case, path: str) -> Request:
    """``{"shape": [...], "data": base64}``."""
    body = b'{"shape": %s, "data": "%s"}' % (json.dumps(case.sizes).encode(), base64_of(case))
    return Request(path, JSON, (body,))


def read_json(_: Case, reply: Reply) -> NDArray[Any]:
    """``{"data": base64}``."""
    return read_base64(json.loads(reply.body)["data"])


def write_raw(case: Case, path: str) -> Request:
    """The bytes of the tensor, and its shape in a header."""
    return Request(path, {**RAW, "X-Shape": ",".join(map(str, case.sizes))}, (case.tensor.tobytes(),))


def read_raw(_: Case, reply: Reply) -> NDArray[Any]:
    """The bytes of the indices."""
    return np.frombuffer(reply.body, np.uint32)


def write_v2(case: Case, model: str) -> Request:
    """An Open Inference Protocol v2 request with a binary tensor that asks for a binary answer."""
    given = {
        "name": "x",
        "shape": case.sizes,
        "datatype": "FP32",
        "parameters": {"binary_data_size": case.tensor_bytes},
    }
    wanted = {"name": "y", "parameters": {"binary_data": True}}
    head = json.dumps({"inputs": [given], "outputs": [wanted]}).encode()
    headers = {**BINARY, HEAD_LENGTH: str(len(head))}
    return Request(f"/v2/models/{model}/infer", headers, (head + case.tensor.tobytes(),))


def read_tail(_: Case, reply: Reply) -> NDArray[Any]:
    """The only tensor, after the JSON head of a reply."""
    return np.frombuffer(reply.body[int(reply.headers[HEAD_LENGTH.lower()]) :], np.uint32)
