"""Runs the compose file: replicas behind nginx, and Prometheus, with free ports and a project name of its own."""

from __future__ import annotations

import json
import socket
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from engine import BASE, COMPOSE, FOLDER, IMAGE, docker, run, status, wait_for

PROJECT = "opwire-test"
SERVICES = ("opwire", "replica", "nginx", "prometheus")

# For each image: its variable, and the Debian release, package and program that replace it if it cannot be pulled.
STAND_INS = {
    "prom/prometheus:v3.5.0": ("PROMETHEUS_IMAGE", "bookworm", "prometheus", "prometheus"),
    "nginx:1.28-alpine": ("NGINX_IMAGE", "forky", "nginx-light", "nginx"),
}


GRAFANA = "grafana/grafana:12.1.0"


@dataclass
class Deployment:
    """A running deployment."""

    env: dict[str, str]
    profile: str = "scale"

    def compose(self, *arguments: str) -> str:
        return run(*COMPOSE, "--profile", self.profile, *arguments, env=self.env).stdout.strip()

    def url(self, variable: str) -> str:
        return f"http://127.0.0.1:{self.env[variable]}"

    @property
    def balancer(self) -> str:
        return self.url("OPWIRE_BALANCER_PORT")

    def containers(self, service: str) -> list[str]:
        """Returns the running containers of a service."""
        project = self.env["COMPOSE_PROJECT_NAME"]
        labels = (f"label=com.docker.compose.project={project}", f"label=com.docker.compose.service={service}")
        return docker("ps", "-q", *(word for label in labels for word in ("--filter", label))).split()

    def prometheus(self, path: str, **parameters: str) -> Any:
        """Returns the data of a Prometheus API response."""
        query = urllib.parse.urlencode(parameters)
        answer = httpx.get(f"{self.url('PROMETHEUS_PORT')}/api/v1/{path}?{query}", timeout=10).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def up(self) -> list[str]:
        """Returns the targets that Prometheus scrapes successfully."""
        targets = self.prometheus("targets")["activeTargets"]
        return [target["scrapeUrl"] for target in targets if target["health"] == "up"]


def pulled(image: str) -> bool:
    """Returns whether an image exists locally or can be pulled."""
    if run("docker", "image", "inspect", image, check=False).returncode == 0:
        return True
    return run("docker", "pull", "-q", image, check=False).returncode == 0


def stand_in(release: str, package: str, program: str) -> str:
    """Builds an image of a Debian package, on top of the base image."""
    name = f"opwire-test-{program}"
    given = {"BASE": BASE, "RELEASE": release, "PACKAGE": package, "PROGRAM": program}
    arguments = [word for key, value in given.items() for word in ("--build-arg", f"{key}={value}")]
    run("docker", "build", "--network", "host", *arguments, "-t", name, str(FOLDER / "tests"))
    return name


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


@contextmanager
def deployment() -> Iterator[Deployment]:
    """Runs a deployment while the context lasts, and removes it with its volumes."""
    env = {"COMPOSE_PROJECT_NAME": PROJECT, "OPWIRE_IMAGE": IMAGE, "OPWIRE_CPU_THREADS": "1", "OPWIRE_REPLICAS": "2"}
    for image, (variable, *package) in STAND_INS.items():
        env[variable] = image if pulled(image) else stand_in(*package)
    env["GRAFANA_IMAGE"] = GRAFANA
    for variable in ("OPWIRE_PORT", "OPWIRE_BALANCER_PORT", "PROMETHEUS_PORT", "GRAFANA_PORT"):
        env[variable] = str(free_port())
    running = Deployment(env)
    try:
        running.compose("up", "-d", "--no-build", "--scale", "replica=2", *SERVICES)
        wait_for(lambda: status(f"{running.balancer}/readyz") == 200, 60, lambda: running.compose("logs"))
        wait_for(lambda: status(f"{running.url('PROMETHEUS_PORT')}/-/ready") == 200, 60)
        yield running
    finally:
        running.compose("down", "-v", "-t", "5")


def expressions(path: Path = FOLDER / "grafana/dashboards/opwire.json") -> dict[str, str]:
    """Returns the queries of the dashboard by name, with their variables set to All."""
    board = json.loads(path.read_text(encoding="utf-8"))
    found = {}
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            expr = target["expr"].replace("$__rate_interval", "1m")
            found[f"{panel['title']} {target['refId']}"] = expr.replace("$instance", ".*").replace("$operator", ".*")
    return found
