"""Nodes that join, drain and die while a server uses them, and a head that fails and returns."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from opwire.client import Client
from opwire.errors import DeadlineExceededError, UnavailableError
from opwire_service.process.server import HttpServer
from opwire_service.settings import Limits, Settings
from tests.cluster.loads import load, waiting
from tests.cluster.nodes import Nodes, device_names, nodes, server_info
from tests.cluster.waiting import TARGET
from tests.support.http.processes import process, until
from tests.support.http.serving import serving

pytest.importorskip("ray")

pytestmark = [pytest.mark.thorough, pytest.mark.serial, pytest.mark.timeout(600)]

MEMORY = 256 << 20

OTHER_PYTHON = "OPWIRE_OTHER_PYTHON"
"""Environment variable: path of another version of Python than this one, with the same Ray."""


@contextmanager
def server(cluster: Nodes, *names: str, device: str | None = None) -> Iterator[HttpServer]:
    """Runs a server with the devices of some nodes."""
    settings = Settings(port=0, ray=cluster.address, limits=Limits(memory_bytes=MEMORY))
    if device is not None:
        settings = replace(settings, node_device=device)
    with serving(settings) as served:
        await_devices(served, *names)
        yield served


def await_devices(served: HttpServer, *names: str) -> None:
    assert served.url is not None
    url = served.url
    until(lambda: {f"{name}/cpu" for name in names} <= device_names(url))


def test_a_node_that_dies_under_load_loses_nothing_and_a_new_one_takes_work():
    with nodes("a", "b") as cluster:
        third = cluster.add("c")
        with server(cluster, "a", "b", "c") as served, load(str(served.url)) as asked:
            for name in ("a", "b", "c"):
                asked.await_answers(20, f"{name}/cpu")
            third.kill()
            until(lambda: "c/cpu" not in device_names(str(served.url)))
            asked.await_answers(50)
            cluster.add("d")
            await_devices(served, "d")
            asked.await_answers(20, "d/cpu")
            assert "d" in server_info(str(served.url))["cluster"]["nodes"]
        assert (asked.errors, asked.wrong) == ([], 0)


def test_a_node_that_joins_takes_work_within_five_seconds():
    operator, inputs = waiting(0.01)
    with nodes("a") as cluster, server(cluster, "a") as served, Client(str(served.url)) as client:
        adding = threading.Thread(target=cluster.add, args=("b",))
        adding.start()
        until(lambda: cluster.has("b"))
        began = time.monotonic()
        await_devices(served, "b")
        assert client.execute(operator, inputs, device="b/cpu").device == "b/cpu"
        took = time.monotonic() - began
        adding.join()
    assert took < 5


def test_a_server_survives_a_lost_head_and_rejoins_the_cluster():
    with nodes("a") as cluster, server(cluster, "a") as served:
        url = str(served.url)
        with load(url, "auto", 2) as asked, load(url, "cpu", 1) as here:
            asked.await_answers(20)
            cluster.head.kill()
            asked.await_answers(20)
            until(lambda: server_info(url)["cluster"]["state"] == "joining")
            assert device_names(url) == {"cpu", "reference"}
            assert httpx.get(f"{url}/readyz").status_code == 200
            asked.await_answers(20)
            here.await_answers(20)
        assert (asked.errors, asked.wrong, here.errors, here.wrong) == ([], 0, [], 0)
        with Client(url, max_retries=0, timeout=5) as client:
            operator, inputs = waiting(0.1)
            with pytest.raises(UnavailableError):
                client.execute(operator, inputs, device="cluster")
            cluster.start_head()
            cluster.add("b")
            await_devices(served, "b")
            assert client.execute(operator, inputs, device="cluster").device == "b/cpu"


def test_a_draining_node_finishes_its_work_and_gets_no_more():
    with nodes("a") as cluster:
        leaving = cluster.add("b", {"RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "30"})
        with server(cluster, "a", "b", device=TARGET) as served:
            url = str(served.url)
            answers = []

            def ask() -> None:
                with Client(url) as client:
                    operator, inputs = waiting(6.0)
                    answers.append(client.execute(operator, inputs, device="b/cpu").device)

            asking = threading.Thread(target=ask)
            asking.start()
            until(lambda: _running(url, "b/cpu") == 1)
            os.kill(leaving.pid, signal.SIGTERM)
            until(lambda: "b/cpu" not in device_names(url))
            assert not answers
            with Client(url) as client:
                operator, inputs = waiting(0.01)
                assert {client.execute(operator, inputs, device="cluster").device for _ in range(10)} == {"a/cpu"}
            asking.join()
            assert answers == ["b/cpu"]


def _running(url: str, device: str) -> int:
    return sum(each["running"] for each in server_info(url)["devices"] if each["name"] == device)


def test_deadlines_and_disconnects_stop_the_work_of_a_node():
    with nodes("a") as cluster, server(cluster, "a", device=TARGET) as served:
        url = str(served.url)
        operator, inputs = waiting(60.0)
        short = waiting(0.01)
        with Client(url, max_retries=0) as client:
            for patience in (300, 1500):
                with pytest.raises(DeadlineExceededError, match="while the operator ran"):
                    client.execute(operator, inputs, device="a/cpu", timeout=patience / 1000)
                # The device runs one operator after the other; the endless one would block it for a minute.
                began = time.monotonic()
                client.execute(*short, device="a/cpu")
                assert time.monotonic() - began < 5
            with (
                pytest.raises(Exception, match=r"timed out|timeout|deadline"),
                Client(url, timeout=1, max_retries=0) as other,
            ):
                other.execute(operator, inputs, device="a/cpu")
            client.execute(*short, device="a/cpu")


def test_a_device_process_that_dies_is_restarted():
    with nodes("a", "b") as cluster, server(cluster, "a", "b") as served, load(str(served.url)) as asked:
        asked.await_answers(20, "a/cpu")
        (pid,) = _pids(served, "a/cpu")
        os.kill(pid, signal.SIGKILL)
        asked.await_answers(20)
        until(lambda: _pids(served, "a/cpu") not in ([], [pid]))
        asked.await_answers(20, "a/cpu")
    assert (asked.errors, asked.wrong) == ([], 0)


def _pids(served: HttpServer, device: str) -> list[int]:
    return [each["pid"] for each in server_info(str(served.url))["devices"] if each["name"] == device]


def test_a_server_finds_the_cluster_of_its_machine():
    with nodes("a") as cluster, process("--ray", "auto", env={"RAY_ADDRESS": cluster.address}) as served:
        until(lambda: "a/cpu" in device_names(served.url))


def test_several_servers_share_the_devices_of_a_cluster():
    with nodes("a") as cluster, server(cluster, "a") as one, server(cluster, "a") as other:
        assert _pids(one, "a/cpu") == _pids(other, "a/cpu")
        with load(str(one.url), clients=2) as asked, load(str(other.url), clients=2) as asked_too:
            asked.await_answers(30)
            asked_too.await_answers(30)
    assert (asked.errors, asked.wrong, asked_too.errors, asked_too.wrong) == ([], 0, [], 0)


def test_device_processes_end_when_no_server_uses_them():
    with nodes("a") as cluster:
        with server(cluster, "a") as served:
            (pid,) = _pids(served, "a/cpu")
        assert Path(f"/proc/{pid}").exists()  # another server may still use it
        until(lambda: not Path(f"/proc/{pid}").exists())


def test_a_node_with_another_version_of_opwire_is_refused_by_name(tmp_path):
    installed = tmp_path / "opwire-99.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: opwire\nVersion: 99.0\n")
    with nodes("a") as cluster:
        path = os.pathsep.join([str(tmp_path), *_paths()])
        cluster.add("old", {"PYTHONPATH": path})
        with server(cluster, "a") as served:
            until(lambda: bool(server_info(str(served.url))["cluster"]["refused"]))
            info = server_info(str(served.url))
    (reason,) = info["cluster"]["refused"].items()
    assert reason[0] == "old/cpu"
    assert "opwire 99.0" in reason[1]
    assert "install the same versions on both" in reason[1]
    assert info["cluster"]["nodes"] == ["a"]


def test_a_cluster_with_another_version_of_python_is_refused_at_startup():
    other = os.environ.get(OTHER_PYTHON)
    if other is None:
        pytest.skip(f"{OTHER_PYTHON} names no other version of Python with Ray")
    with (
        nodes(python=other) as cluster,
        pytest.raises(RuntimeError, match=r"and Python 3.*install the same versions on both"),
    ):
        process("--ray", cluster.address).__enter__()


def test_a_cluster_with_a_token_is_joined_only_with_it():
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4}
    with nodes("a", env=token) as cluster:
        with process("--ray", cluster.address, "--memory-bytes", str(MEMORY), env=token) as served:
            until(lambda: "a/cpu" in device_names(served.url))
        with pytest.raises(RuntimeError, match="requires a token: see RAY_AUTH_MODE"):
            process("--ray", cluster.address).__enter__()


def _paths() -> list[str]:
    from tests.cluster.nodes import ENVIRONMENT

    return ENVIRONMENT["PYTHONPATH"].split(os.pathsep)
