"""KServe with one worker: protocol v1 with base64 and with raw bytes, and v2 with binary tensors."""

from __future__ import annotations

import json
from typing import Any

from numpy.typing import NDArray

from ..cases import Case
from ..contender import Contender, Form, Reply, Request, script
from .bodies import JSON, base64_of, read_base64, read_raw, read_tail, write_raw, write_v2

V1 = "/v1/models/argmax:predict"


def _write_instances(case: Case) -> Request:
    shape = json.dumps(case.sizes).encode()
    return Request(V1, JSON, (b'{"instances": [{"shape": %s, "b64": "%s"}]}' % (shape, base64_of(case)),))


def _read_predictions(_: Case, reply: Reply) -> NDArray[Any]:
    return read_base64(json.loads(reply.body)["predictions"][0]["b64"])


CONTENDER = Contender(
    name="kserve",
    title="KServe",
    package="kserve",
    requirements=("kserve>=0.17", "httptools", "uvloop", "pybase64"),
    command=script("kserve_server.py"),
    forms=(
        Form(name="v1, base64", encoding="base64", request=_write_instances, answer=_read_predictions),
        Form(name="v1, raw bytes", encoding="binary", request=lambda case: write_raw(case, V1), answer=read_raw),
        Form(name="v2, binary", encoding="binary", request=lambda case: write_v2(case, "argmax"), answer=read_tail),
    ),
    settings="1 worker, no gRPC, no access or latency log, uvloop, httptools, pybase64",
)
