"""A typical FastAPI service with a pydantic model and base64; its route runs on the event loop or in a thread."""

from __future__ import annotations

from ..contender import Contender, Form, script
from .bodies import read_json, write_json


def _form(name: str, path: str) -> Form:
    return Form(name=name, encoding="base64", request=lambda case: write_json(case, path), answer=read_json)


CONTENDER = Contender(
    name="fastapi",
    title="FastAPI",
    package="fastapi",
    command=script("fastapi_server.py"),
    forms=(_form("base64, async def", "/argmax"), _form("base64, def", "/threaded/argmax")),
    settings="pydantic model, uvicorn, uvloop, httptools, no access log",
)
