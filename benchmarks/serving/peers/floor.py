"""The bare ASGI application as a row of its own; its ratio to itself shows the noise of the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cases import Case
from ..contender import Contender, Form, Reply, script
from .bodies import write_json

ANSWER = b"x" * 20


def _answer(case: Case, reply: Reply) -> NDArray[Any]:
    """It computes nothing, so its 20 bytes count as the right answer."""
    return case.winners if reply.body == ANSWER else np.empty(0)


CONTENDER = Contender(
    name="floor",
    title="bare ASGI",
    package="uvicorn",
    command=script("floor_server.py"),
    forms=(Form(name="base64", encoding="base64", request=lambda case: write_json(case, "/"), answer=_answer),),
    settings="uvicorn, uvloop, httptools; drops the body and answers 20 bytes",
)
