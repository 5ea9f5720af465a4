"""Triton with one instance on its Python backend, with binary tensors."""

from __future__ import annotations

from ..cases import Case
from ..contender import Contender, Form, Request, script
from .bodies import read_tail, write_v2


def _write(case: Case) -> Request:
    return write_v2(case, f"argmax{len(case.sizes)}")


CONTENDER = Contender(
    name="triton",
    title="Triton",
    package="nvidia-pytriton",
    requirements=("nvidia-pytriton>=0.5.14",),
    command=script("triton_server.py"),
    forms=(Form(name="v2, binary", encoding="binary", request=_write, answer=read_tail),),
    settings="Python backend, 1 instance, no gRPC, no batching",
)
