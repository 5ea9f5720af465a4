"""BentoML with one worker."""

from __future__ import annotations

from ..contender import SERVERS, Contender, Form, Start
from .bodies import read_base64, write_json


def _command(start: Start) -> list[str]:
    where = ["--working-dir", str(SERVERS), "--host", "127.0.0.1", "--port", str(start.port)]
    return [str(start.bin / "bentoml"), "serve", "bentoml_service:ArgMax", "--quiet", *where]


CONTENDER = Contender(
    name="bentoml",
    title="BentoML",
    package="bentoml",
    requirements=("bentoml>=1.4", "numpy", "pybase64", "httptools", "uvloop"),
    command=_command,
    environment={"BENTOML_DO_NOT_TRACK": "true", "BENTOML_HOME": "."},
    forms=(
        Form(
            name="base64",
            encoding="base64",
            request=lambda case: write_json(case, "/argmax"),
            answer=lambda _, reply: read_base64(reply.body),
        ),
    ),
    settings="1 worker, no access log, uvloop, httptools, pybase64",
)
