"""opwire: JSON with base64, with a cached plan or a new desc per request, and the binary tail."""

from __future__ import annotations

import json
from typing import Any

from numpy.typing import NDArray

from opwire.wire import Call, Encoding, write_call

from ..cases import AXIS, Case
from ..contender import Contender, Counter, Form, Reply, Request, Start
from .bodies import read_base64, read_tail

PATH = "/v1/execute"

TOTAL_SIZES = Counter(100_000, 999_996, 4)
"""Values of TotalTensorSizeInBytes. A server caches far fewer plans, so none of them is still cached when it recurs."""


def _operator(case: Case, **tensor: int) -> dict[str, object]:
    desc = {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": list(case.sizes), **tensor},
        "AxisCount": 1,
        "Axes": [AXIS],
        "AxisDirection": "DML_AXIS_DIRECTION_INCREASING",
    }
    return {"type": "DML_OPERATOR_ARGMAX", "desc": desc}


def _write(case: Case, encoding: Encoding, **tensor: int) -> tuple[dict[str, str], bytes]:
    headers, chunks = write_call(Call(_operator(case, **tensor), {"InputTensor": case.tensor}), encoding)
    del headers["Content-Length"]
    return headers, b"".join(chunks)


def _base64(case: Case) -> Request:
    headers, body = _write(case, Encoding.BASE64)
    return Request(PATH, headers, (body,))


def _new_desc(case: Case) -> Request:
    headers, body = _write(case, Encoding.BASE64, TotalTensorSizeInBytes=TOTAL_SIZES.first)
    before, _, after = body.partition(b"%d" % TOTAL_SIZES.first)
    return Request(PATH, headers, (before, after), TOTAL_SIZES)


def _binary(case: Case) -> Request:
    headers, body = _write(case, Encoding.BINARY)
    return Request(PATH, headers, (body,))


def _read(_: Case, reply: Reply) -> NDArray[Any]:
    return read_base64(json.loads(reply.body)["outputs"]["OutputTensor"]["data"])


def _command(start: Start) -> list[str]:
    options = {
        "host": "127.0.0.1",
        "port": start.port,
        "device": start.device,
        "log-level": "warning",
    }
    given = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    return [str(start.python), "-m", "opwire_service", "serve", *given]


CONTENDER = Contender(
    name="opwire",
    title="opwire",
    package="opwire",
    command=_command,
    forms=(
        Form(name="base64", encoding="base64", request=_base64, answer=_read),
        # With large tensors, the cost of checking a desc is invisible.
        Form(name="base64, new desc", encoding="base64", request=_new_desc, answer=_read, cases=("small",)),
        Form(name="binary tail", encoding="binary", request=_binary, answer=read_tail),
    ),
    settings="opwire serve, one process",
)
