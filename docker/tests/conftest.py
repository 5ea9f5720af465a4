"""Fixtures: the image under test, a container of it, and the whole deployment."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from deployment import Deployment, deployment
from engine import BASE, IMAGE, MEASURED, ROOT, Container, container, docker, run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in MEASURED:
        terminalreporter.write_line(line)


@pytest.fixture(scope="session", autouse=True)
def image() -> str:
    """The image under test, built as a user would, but on the host's network to reach its package index."""
    arguments = ("--network", "host", "--build-arg", f"BASE={BASE}", "--build-arg", "REVISION=tested")
    run("docker", "build", *arguments, "-f", str(ROOT / "docker/Dockerfile"), "-t", IMAGE, str(ROOT))
    return docker("image", "inspect", "-f", "{{.Id}}", IMAGE)


@pytest.fixture(scope="module")
def server(image: str) -> Iterator[Container]:
    """A container with the default settings of the image."""
    with container() as started:
        started.wait_ready()
        yield started


@pytest.fixture(scope="session")
def deployed(image: str) -> Iterator[Deployment]:
    """The compose file with replicas behind nginx, and Prometheus."""
    with deployment() as running:
        yield running
