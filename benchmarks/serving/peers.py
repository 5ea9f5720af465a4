"""The servers, in table order: how to install and start each, and how to write its requests."""

from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np
import pybase64
from numpy.typing import NDArray

from opwire.wire import Call, Encoding, write_call

from .cases import AXIS, Case
from .contender import Contender, Form, Request

_JSON = {"Content-Type": "application/json"}
_BINARY = {"Content-Type": "application/octet-stream"}
_RAW = {"Content-Type": "application/x-tensor"}  # KServe parses an octet-stream as JSON
_HEAD_LENGTH = "Inference-Header-Content-Length"

Indices = NDArray[Any]


def _base64_of(case: Case) -> bytes:
    encoded: bytes = pybase64.b64encode(case.tensor.data)
    return encoded


def _from_base64(text: str | bytes) -> Indices:
    return np.frombuffer(pybase64.b64decode(text, validate=True), np.uint32)


def _json(case: Case, path: str) -> Request:
    """``{"shape": [...], "data": base64}``."""
    body = b'{"shape": %s, "data": "%s"}' % (json.dumps(case.sizes).encode(), _base64_of(case))
    return Request(path, _JSON, (body,))


def _of_json(_: Case, reply: httpx.Response) -> Indices:
    """``{"data": base64}``."""
    return _from_base64(reply.json()["data"])


def _raw(case: Case, path: str) -> Request:
    """The bytes of the tensor, and its shape in a header."""
    return Request(path, {**_RAW, "X-Shape": ",".join(map(str, case.sizes))}, (case.tensor.tobytes(),))


def _of_raw(_: Case, reply: httpx.Response) -> Indices:
    return np.frombuffer(reply.content, np.uint32)


def _v2(case: Case, model: str) -> Request:
    """An Open Inference Protocol v2 request with a binary tensor that asks for a binary answer."""
    size = {"binary_data_size": case.tensor_bytes}
    given = {"name": "x", "shape": case.sizes, "datatype": "FP32", "parameters": size}
    wanted = {"name": "y", "parameters": {"binary_data": True}}
    head = json.dumps({"inputs": [given], "outputs": [wanted]}).encode()
    headers = {**_BINARY, _HEAD_LENGTH: str(len(head))}
    return Request(f"/v2/models/{model}/infer", headers, (head + case.tensor.tobytes(),))


def _of_tail(_: Case, reply: httpx.Response) -> Indices:
    """The only tensor, after the JSON head of a reply."""
    return np.frombuffer(reply.content[int(reply.headers[_HEAD_LENGTH]) :], np.uint32)


_TOTAL_SIZES = range(100_000, 1_000_000, 4)
"""Values of TotalTensorSizeInBytes. A server caches far fewer plans, so none of them is still cached when it recurs."""


def _execute(case: Case, encoding: Encoding, **tensor: int) -> Request:
    desc = {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": list(case.sizes), **tensor},
        "AxisCount": 1,
        "Axes": [AXIS],
        "AxisDirection": "DML_AXIS_DIRECTION_INCREASING",
    }
    call = Call({"type": "DML_OPERATOR_ARGMAX", "desc": desc}, {"InputTensor": case.tensor})
    headers, chunks = write_call(call, encoding)
    del headers["Content-Length"]
    return Request("/v1/execute", headers, (b"".join(chunks),))


def _new_desc(case: Case) -> Request:
    request = _execute(case, Encoding.BASE64, TotalTensorSizeInBytes=_TOTAL_SIZES[0])
    before, _, after = request.body[0].partition(b"%d" % _TOTAL_SIZES[0])
    return Request(request.path, request.headers, (before, after), _TOTAL_SIZES)


def _of_execute(_: Case, reply: httpx.Response) -> Indices:
    return _from_base64(reply.json()["outputs"]["OutputTensor"]["data"])


def _mlserver(case: Case) -> Request:
    parameters = {"content_type": "base64", "sizes": case.sizes}
    given = {"name": "x", "shape": [1, 1], "datatype": "BYTES", "parameters": parameters}
    given["data"] = [_base64_of(case).decode()]
    return Request("/v2/models/argmax/infer", _JSON, (json.dumps({"inputs": [given]}).encode(),))


_V1 = "/v1/models/argmax:predict"


def _instances(case: Case) -> Request:
    body = b'{"instances": [{"shape": %s, "b64": "%s"}]}' % (json.dumps(case.sizes).encode(), _base64_of(case))
    return Request(_V1, _JSON, (body,))


def _script(name: str) -> tuple[str, ...]:
    """Returns the command of a server that is a script in the servers folder."""
    return "{python}", f"{{servers}}/{name}", "{port}"


def _of_floor(case: Case, reply: httpx.Response) -> Indices:
    """The floor computes nothing, so its 20 bytes count as the right answer."""
    return case.winners if reply.content == b"x" * 20 else np.empty(0)


_ALL = (
    Contender(
        name="floor",
        title="bare ASGI",
        package="uvicorn",
        start=_script("floor_server.py"),
        forms=(Form("base64", "base64", lambda case: _json(case, "/"), _of_floor),),
        settings="uvicorn, uvloop, httptools; drops the body and answers 20 bytes",
    ),
    Contender(
        name="opwire",
        title="opwire",
        package="opwire",
        start=(
            *("{python}", "-m", "opwire_service", "serve", "--host", "127.0.0.1", "--port", "{port}"),
            *("--device", "{device}", "--log-level", "warning"),
        ),
        forms=(
            Form("base64", "base64", lambda case: _execute(case, Encoding.BASE64), _of_execute),
            # With large tensors, the cost of checking a desc is invisible.
            Form("base64, new desc", "base64", _new_desc, _of_execute, ("small",)),
            Form("binary tail", "binary", lambda case: _execute(case, Encoding.BINARY), _of_tail),
        ),
        settings="opwire serve, one process",
    ),
    Contender(
        name="fastapi",
        title="FastAPI",
        package="fastapi",
        start=_script("fastapi_server.py"),
        forms=(
            Form("base64, async def", "base64", lambda case: _json(case, "/argmax"), _of_json),
            Form("base64, def", "base64", lambda case: _json(case, "/threaded/argmax"), _of_json),
        ),
        settings="pydantic model, uvicorn, uvloop, httptools, no access log",
    ),
    Contender(
        name="mlserver",
        title="MLServer",
        package="mlserver",
        requirements=("mlserver>=1.7", "httptools", "uvloop"),
        start=_script("mlserver_server.py"),
        forms=(
            Form(
                "v2, base64", "base64", _mlserver, lambda _, reply: _from_base64(reply.json()["outputs"][0]["data"][0])
            ),
        ),
        settings="parallel_workers=0 (in process), no compression, no access log, uvloop, httptools",
    ),
    Contender(
        name="kserve",
        title="KServe",
        package="kserve",
        requirements=("kserve>=0.17", "httptools", "uvloop", "pybase64"),
        start=_script("kserve_server.py"),
        forms=(
            Form(
                "v1, base64", "base64", _instances, lambda _, reply: _from_base64(reply.json()["predictions"][0]["b64"])
            ),
            Form("v1, raw bytes", "binary", lambda case: _raw(case, _V1), _of_raw),
            Form("v2, binary", "binary", lambda case: _v2(case, "argmax"), _of_tail),
        ),
        settings="1 worker, no gRPC, no access or latency log, uvloop, httptools, pybase64",
    ),
    Contender(
        name="ray",
        title="Ray Serve",
        package="ray",
        requirements=("ray[serve,haproxy]>=2.55", "numpy"),
        start=_script("ray_server.py"),
        environment={
            "RAY_SERVE_ENABLE_HA_PROXY": "1",
            "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
        },
        forms=(Form("raw bytes", "binary", lambda case: _raw(case, "/"), _of_raw),),
        settings="1 replica, HAProxy, RAY_SERVE_THROUGHPUT_OPTIMIZED, no access log",
    ),
    Contender(
        name="bentoml",
        title="BentoML",
        package="bentoml",
        requirements=("bentoml>=1.4", "numpy", "pybase64", "httptools", "uvloop"),
        start=(
            *("{bin}/bentoml", "serve", "bentoml_service:ArgMax", "--quiet", "--working-dir", "{servers}"),
            *("--host", "127.0.0.1", "--port", "{port}"),
        ),
        environment={"BENTOML_DO_NOT_TRACK": "true", "BENTOML_HOME": "."},
        forms=(
            Form("base64", "base64", lambda case: _json(case, "/argmax"), lambda _, reply: _from_base64(reply.content)),
        ),
        settings="1 worker, no access log, uvloop, httptools, pybase64",
    ),
    Contender(
        name="litserve",
        title="LitServe",
        package="litserve",
        requirements=("litserve>=0.2.16", "numpy", "pybase64"),
        start=_script("litserve_server.py"),
        forms=(Form("base64", "base64", lambda case: _json(case, "/predict"), _of_json),),
        settings="1 worker, 1 API server, no access log, pybase64",
    ),
    Contender(
        name="triton",
        title="Triton",
        package="nvidia-pytriton",
        requirements=("nvidia-pytriton>=0.5.14",),
        start=_script("triton_server.py"),
        forms=(Form("v2, binary", "binary", lambda case: _v2(case, f"argmax{len(case.sizes)}"), _of_tail),),
        settings="Python backend, 1 instance, no gRPC, no batching",
    ),
)

CONTENDERS = {contender.name: contender for contender in _ALL}
