"""MLServer with a custom model in process and its base64 codec."""

from __future__ import annotations

import json
from typing import Any

from numpy.typing import NDArray

from ..cases import Case
from ..contender import Contender, Form, Reply, Request, script
from .bodies import JSON, base64_of, read_base64


def _write(case: Case) -> Request:
    given = {
        "name": "x",
        "shape": [1, 1],
        "datatype": "BYTES",
        "parameters": {"content_type": "base64", "sizes": case.sizes},
        "data": [base64_of(case).decode()],
    }
    return Request("/v2/models/argmax/infer", JSON, (json.dumps({"inputs": [given]}).encode(),))


def _read(_: Case, reply: Reply) -> NDArray[Any]:
    return read_base64(json.loads(reply.body)["outputs"][0]["data"][0])


CONTENDER = Contender(
    name="mlserver",
    title="MLServer",
    package="mlserver",
    requirements=("mlserver>=1.7", "httptools", "uvloop"),
    command=script("mlserver_server.py"),
    forms=(Form(name="v2, base64", encoding="base64", request=_write, answer=_read),),
    settings="parallel_workers=0 (in process), no compression, no access log, uvloop, httptools",
)
