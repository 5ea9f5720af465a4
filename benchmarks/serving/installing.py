"""Creates an environment for each server that needs one, in a cache folder, and runs the server in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from ..processes import Server, ServerFailed, running
from .cases import CASES, Case
from .contender import Contender, Form, Request

INSTALL_SECONDS = 1800
ANSWERS_WITHIN = 120.0
_LAST_LINES = 3


class NotInstalled(Exception):
    """A server cannot be installed here; the message says why."""


def cache_folder() -> Path:
    """Returns the default folder for environments, in the user's cache directory."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opwire" / "benchmarks"


def install(name: str, requirements: Sequence[str], folder: Path) -> Path:
    """Returns the Python of a server's environment, which is created unless it exists with these requirements.

    Args:
        name: name of the environment's folder.
        requirements: packages to install; without any, this program's own environment is used.
        folder: parent folder of the environments.

    Raises:
        NotInstalled: pip failed.
    """
    if not requirements:
        return Path(sys.executable)
    venv = folder / name
    python, mark, wanted = venv / "bin" / "python", venv / "requirements.txt", "\n".join(requirements)
    if not mark.exists() or mark.read_text() != wanted:
        _run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(venv)])
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
        _run([*pip, "install", "--quiet", *requirements])
        mark.write_text(wanted)
    return python


def version(python: Path, package: str) -> str:
    """Returns the version of a package in an environment."""
    program = "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))"
    return _run([str(python), "-c", program, package]).strip()


def _run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"not finished within {INSTALL_SECONDS} s") from None
    if done.returncode:
        # pip lists every version it considered, in lines of many thousand characters.
        lines = [line[:300] for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr[-300:]]
        raise NotInstalled(" ".join(lines[-_LAST_LINES:]))
    return done.stdout


@contextmanager
def serving(contender: Contender, python: Path, device: str, form: Form) -> Iterator[Server]:
    """Runs a server while the context lasts, from when it answers a form of request.

    Raises:
        ServerFailed: it does not.
    """
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "PYTHONDONTWRITEBYTECODE": "1", **contender.environment}
    first = form.request(CASES["small"])
    with running(
        lambda port: contender.command(python, port, device), lambda server: post(server, first), environment
    ) as server:
        yield server


def post(server: Server, request: Request) -> httpx.Response:
    """Sends a request and returns its answer.

    Raises:
        ServerFailed: there is no answer, or its status is not 200.
    """
    url, content, headers = server.url + request.path, request.content(), dict(request.headers)
    try:
        answer = httpx.post(url, content=content, headers=headers, timeout=ANSWERS_WITHIN, trust_env=False)
    except httpx.HTTPError as error:
        raise ServerFailed(f"no answer: {error!r}") from error
    if answer.status_code != 200:
        raise ServerFailed(f"status {answer.status_code}: {answer.text[:300]}")
    return answer


def check(server: Server, form: Form, case: Case) -> None:
    """Raises ServerFailed or ValueError unless the server's answer is right."""
    case.check(form.answer(case, post(server, form.request(case))))
