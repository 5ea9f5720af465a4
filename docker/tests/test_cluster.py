"""The profile `ray`: head, workers and server in separate containers, with workers that stop, die and return."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import numpy as np
import pytest
from deployment import PROJECT, Deployment, free_port
from engine import BASE, MEASURED, ROOT, docker, inspect, run, status, wait_for

from opwire import Client

IMAGE = "opwire-ray-test"
NAME = f"{PROJECT}-ray"
SERVICES = ("ray-head", "ray-worker", "opwire-ray")
STARTS_WITHIN = 180.0

OPERATOR: dict[str, Any] = {
    "type": "REDUCE",
    "desc": {"Function": "SUM", "InputTensor": {"DataType": "FLOAT32", "Sizes": [256, 300]}, "Axes": [1]},
}
NUMBERS = np.random.default_rng(0).integers(-1000, 1000, (256, 300)).astype("f4")
RIGHT = NUMBERS.astype("i8").sum(axis=1, keepdims=True).astype("f4").tobytes()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Deployment]:
    """A head, two workers of one CPU each and a server, with token authentication."""
    extras = ("--build-arg", "EXTRAS=service,onnx,ray", "--build-arg", "PACKAGES=ray[default]")
    arguments = ("--network", "host", "--build-arg", f"BASE={BASE}", "--build-arg", "REVISION=tested", *extras)
    run("docker", "build", *arguments, "-f", str(ROOT / "docker/Dockerfile"), "-t", IMAGE, str(ROOT))
    env = {"COMPOSE_PROJECT_NAME": NAME, "OPWIRE_RAY_IMAGE": IMAGE, "OPWIRE_RAY_AUTH": "token"}
    env |= {"OPWIRE_RAY_TOKEN": "0123456789abcdef" * 4, "OPWIRE_CPU_THREADS": "1", "OPWIRE_RAY_CPUS": "1"}
    env |= {"OPWIRE_RAY_SHM": "1g", "OPWIRE_RAY_STORE": "400000000", "OPWIRE_RAY_WORKERS": "2"}
    env |= {name: str(free_port()) for name in ("OPWIRE_RAY_PORT", "OPWIRE_RAY_DASHBOARD_PORT")}
    running = Deployment(env, "ray")
    try:
        running.compose("up", "-d", "--no-build", "--scale", "ray-worker=2", *SERVICES)
        wait_for(lambda: len(members(running)) == 2, STARTS_WITHIN, lambda: running.compose("logs"))
        yield running
    finally:
        running.compose("down", "-v", "-t", "10")


def members(cluster: Deployment) -> set[str]:
    """Returns the workers' devices known to the server."""
    try:
        found = httpx.get(f"{cluster.url('OPWIRE_RAY_PORT')}/v1/server", timeout=5).json()["devices"]
    except httpx.HTTPError:
        return set()
    return {each["name"] for each in found if "/" in each["name"]}


def device_of(container: str) -> str:
    """Returns the server's name for the CPU device of a worker."""
    return f"{inspect(container)['Config']['Hostname']}/cpu"


class Asking:
    """Clients that send the same request to the cluster continuously.

    Attributes:
        answered: number of right answers by device.
        failures: all other outcomes.
    """

    def __init__(self) -> None:
        self.answered: Counter[str] = Counter()
        self.failures: list[str] = []
        self.ended = threading.Event()

    def ask(self, url: str) -> None:
        with Client(url, max_retries=0, timeout=30) as client:
            while not self.ended.is_set():
                try:
                    result = client.execute(OPERATOR, {"InputTensor": NUMBERS}, device="cluster")
                    assert result.outputs["OutputTensor"].tobytes() == RIGHT
                    self.answered[str(result.device)] += 1
                except Exception as error:
                    self.failures.append(repr(error))

    def wait_answers(self, count: int, device: str) -> None:
        """Waits for ``count`` further answers from a device."""
        goal = self.answered[device] + count
        wait_for(lambda: self.answered[device] >= goal, 60, lambda: f"{self.answered} {self.failures[:3]}")


@contextmanager
def asking(cluster: Deployment) -> Iterator[Asking]:
    """Runs clients while the context lasts."""
    made = Asking()
    threads = [threading.Thread(target=made.ask, args=(cluster.url("OPWIRE_RAY_PORT"),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        made.ended.set()
        for thread in threads:
            thread.join()


def test_workers_answer(cluster: Deployment):
    devices = {device_of(each) for each in cluster.containers("ray-worker")}
    assert members(cluster) == devices
    with Client(cluster.url("OPWIRE_RAY_PORT")) as client:
        for device in devices:
            result = client.execute(OPERATOR, {"InputTensor": NUMBERS}, device=device)
            assert (result.device, result.outputs["OutputTensor"].tobytes()) == (device, RIGHT)


def test_dashboard_asks_for_the_token(cluster: Deployment):
    url = f"{cluster.url('OPWIRE_RAY_DASHBOARD_PORT')}/api/version"
    wait_for(lambda: status(url) == 401, 60)
    token = {"Authorization": f"Bearer {cluster.env['OPWIRE_RAY_TOKEN']}"}
    assert "ray_version" in httpx.get(url, headers=token, timeout=10).json()


def test_health(cluster: Deployment):
    for service in ("ray-head", "opwire-ray"):
        (container,) = cluster.containers(service)
        wait_for(lambda each=container: inspect(each)["State"]["Health"]["Status"] == "healthy", 60)


@pytest.mark.parametrize("how", [("stop", "-t", "40"), ("kill",)], ids=lambda how: how[0])
def test_a_worker_that_goes_loses_no_answer_and_returns(cluster: Deployment, how):
    leaving, staying = cluster.containers("ray-worker")
    with asking(cluster) as asked:
        for each in (leaving, staying):
            asked.wait_answers(20, device_of(each))
        docker(*how, leaving)
        wait_for(lambda: device_of(leaving) not in members(cluster), 60)
        asked.wait_answers(50, device_of(staying))
        docker("start", leaving)
        wait_for(lambda: device_of(leaving) in members(cluster), STARTS_WITHIN)
        asked.wait_answers(20, device_of(leaving))
    MEASURED.append(f"worker, {how[0]}: {asked.answered.total()} answers")
    assert asked.failures == []


def test_the_head_returns_and_its_workers_to_it(cluster: Deployment):
    (head,) = cluster.containers("ray-head")
    url = cluster.url("OPWIRE_RAY_PORT")
    docker("kill", head)
    wait_for(lambda: not members(cluster), 120)
    assert status(f"{url}/readyz") == 200
    with Client(url) as client:
        assert client.execute(OPERATOR, {"InputTensor": NUMBERS}).device == "cpu"
        docker("start", head)
        wait_for(lambda: len(members(cluster)) == 2, STARTS_WITHIN, lambda: cluster.compose("logs", "--tail", "30"))
        result = client.execute(OPERATOR, {"InputTensor": NUMBERS}, device="cluster")
    assert result.outputs["OutputTensor"].tobytes() == RIGHT
