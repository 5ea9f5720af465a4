"""The deployment: requests through nginx while replicas are killed, stopped and replaced."""

from __future__ import annotations

import socket

import pytest
from deployment import Deployment
from engine import COMPOSE, FOLDER, MEASURED, docker, inspect, run, status, wait_for
from load import Load
from registry import EXAMPLES, check

from opwire import Client

PROFILES = ("--profile", "scale", "--profile", "gpu", "--profile", "ray")


def test_compose_file_is_valid():
    done = run(*COMPOSE, *PROFILES, "config")
    assert done.stderr == ""
    services = run(*COMPOSE, *PROFILES, "config", "--services").stdout.split()
    cluster = ["opwire-ray", "ray-head", "ray-worker"]
    assert sorted(services) == sorted(["grafana", "nginx", "opwire", "opwire-gpu", "prometheus", "replica", *cluster])


@pytest.mark.parametrize("name", ["Dockerfile", "cuda.Dockerfile", "tests/Dockerfile"])
def test_dockerfile_is_clean(name):
    done = run(str(FOLDER / "tests/.tools/bin/hadolint"), name, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_examples_through_the_balancer(deployed: Deployment):
    with Client(deployed.balancer) as client:
        for row in EXAMPLES:
            check(client, *row)


def test_metrics_are_not_for_the_outside(deployed: Deployment):
    assert status(f"{deployed.balancer}/metrics") == 404
    assert status(f"{deployed.url('OPWIRE_PORT')}/metrics") == 200


def test_server_refuses_what_is_too_large_in_its_own_words(deployed: Deployment):
    length = 256 * 2**20 + 1
    head = f"POST /v1/execute HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", int(deployed.env["OPWIRE_BALANCER_PORT"])), timeout=20) as connection:
        connection.sendall(head.encode() + b"{")
        answer = b""
        while b"body_too_large" not in answer and (piece := connection.recv(65536)):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"body_too_large" in answer


def test_kill_loses_no_answer(deployed: Deployment):
    victim, *others = deployed.containers("replica")
    assert others
    with Load(deployed.balancer) as load:
        load.wait_answers(200)
        docker("kill", victim)
        load.wait_answers(500)
        docker("start", victim)
        wait_for(lambda: healthy(victim), 60)
        load.wait_answers(300)
    MEASURED.append(f"kill: {load.answers} answers, {load.retries} asked again")
    assert load.failures == []


def test_stop_loses_no_answer(deployed: Deployment):
    stopped = deployed.containers("replica")[0]
    with Load(deployed.balancer) as load:
        load.wait_answers(200)
        docker("stop", "-t", "40", stopped)
        load.wait_answers(200)
        assert inspect(stopped)["State"]["ExitCode"] == 0
        docker("start", stopped)
        load.wait_answers(200)
    MEASURED.append(f"stop: {load.answers} answers, {load.retries} asked again")
    assert load.failures == []


def test_upgrade_loses_no_answer(deployed: Deployment):
    """Each container is replaced by one with a new address while the others serve."""
    with Load(deployed.balancer) as load:
        load.wait_answers(100)
        for service in ("opwire", "replica"):
            before = set(deployed.containers(service))
            scale = ("--scale", "replica=2") if service == "replica" else ()
            recreate = ("up", "-d", "--no-build", "--no-deps", "--force-recreate", "-t", "40")
            deployed.compose(*recreate, *scale, service)
            wait_for(
                lambda service=service, before=before: fresh(deployed, service, before), 60, lambda: docker("ps", "-a")
            )
            load.wait_answers(200)
    MEASURED.append(f"upgrade: {load.answers} answers, {load.retries} asked again")
    assert load.failures == []


def fresh(deployed: Deployment, service: str, before: set[str]) -> bool:
    """Returns whether all containers of a service are new and healthy."""
    now = deployed.containers(service)
    return len(now) == len(before) and not before & set(now) and all(map(healthy, now))


def healthy(container: str) -> bool:
    status: str = inspect(container)["State"]["Health"]["Status"]
    return status == "healthy"
