"""Helpers for Docker, and for the containers that the tests start."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docker"
BASE = os.environ["OPWIRE_TEST_BASE"]
COMPOSE = os.environ["OPWIRE_TEST_COMPOSE"].split()
IMAGE = "opwire-test"
LOCKED = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
"""Hardening options, as in the compose file."""

MEASURED: list[str] = []
"""Lines printed at the end of the tests."""


def docker(*arguments: str, check: bool = True) -> str:
    """Runs a docker command and returns its output."""
    return run("docker", *arguments, check=check).stdout.strip()


def run(*command: str, check: bool = True, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a command to completion; if it fails, the error includes its output."""
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})}, cwd=FOLDER)
    assert not check or done.returncode == 0, f"{' '.join(command)}: {done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done


def inspect(what: str) -> dict[str, Any]:
    """Returns Docker's description of an image or a container."""
    found: dict[str, Any] = json.loads(docker("inspect", what))[0]
    return found


class Container:
    """A running container of the image, with its URL on the host."""

    def __init__(self, name: str, scheme: str = "http") -> None:
        self.name = name
        self.url = f"{scheme}://{docker('port', name, '8000/tcp').splitlines()[0]}"

    def execute(self, *command: str) -> str:
        return docker("exec", self.name, *command)

    def logs(self) -> str:
        done = run("docker", "logs", self.name)
        return done.stdout + done.stderr

    def wait_ready(self, seconds: float = 30.0) -> None:
        wait_for(lambda: status(f"{self.url}/readyz") == 200, seconds, self.logs)

    def wait_healthy(self, seconds: float = 40.0) -> None:
        wait_for(lambda: inspect(self.name)["State"]["Health"]["Status"] == "healthy", seconds, self.logs)


@contextmanager
def container(*options: str, scheme: str = "http", command: Sequence[str] = ()) -> Iterator[Container]:
    """Runs the image as the compose file does, with additional options, while the context lasts."""
    name = docker("run", "-d", *LOCKED, "-p", "127.0.0.1::8000", *options, IMAGE, *command)
    try:
        yield Container(name, scheme)
    finally:
        docker("rm", "-f", "-v", name)


def status(url: str) -> int | None:
    """Returns the HTTP status of a URL, or None without an answer."""
    try:
        return httpx.get(url, verify=False, timeout=2).status_code
    except httpx.HTTPError:
        return None


def wait_for(holds: Any, seconds: float, explain: Any = str) -> None:
    """Waits until a condition holds, and fails if it does not in time."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds} s\n{explain()}"
        time.sleep(0.02)
