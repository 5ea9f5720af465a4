"""LitServe with one worker."""

from __future__ import annotations

from ..contender import Contender, Form, script
from .bodies import read_json, write_json

CONTENDER = Contender(
    name="litserve",
    title="LitServe",
    package="litserve",
    requirements=("litserve>=0.2.16", "numpy", "pybase64"),
    command=script("litserve_server.py"),
    forms=(
        Form(name="base64", encoding="base64", request=lambda case: write_json(case, "/predict"), answer=read_json),
    ),
    settings="1 worker, 1 API server, no access log, pybase64",
)
