"""A single-machine cluster, as ``--ray local`` starts it, and the errors where there can be none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from opwire.client import Client
from opwire.errors import RequestError
from tests.cluster.loads import OPERATOR, numbers, right
from tests.cluster.nodes import descendants, device_names, server_info
from tests.support.commands import opwire
from tests.support.http.processes import process, until

pytest.importorskip("ray")


def test_a_local_cluster_gives_the_same_results_as_the_machine():
    with process("--ray", "local", "--memory-bytes", str(256 << 20), env={"RAY_AUTH_MODE": "disabled"}) as served:
        until(lambda: len(device_names(served.url)) == 3)
        (far,) = [name for name in device_names(served.url) if name.endswith("/cpu")]
        info = server_info(served.url)
        assert (info["default_device"], info["cluster"]["state"]) == ("auto", "joined")
        assert info["cluster"]["nodes"] == [far.removesuffix("/cpu")]
        array = numbers()
        with Client(served.url) as client:
            answers = {
                device: client.execute(OPERATOR, {"InputTensor": array}, device=device)
                for device in ("cpu", far, "cluster", "auto")
            }
            with pytest.raises(RequestError, match=f"auto, cluster, cpu, reference, {far}"):
                client.execute(OPERATOR, {"InputTensor": array}, device="elsewhere/cpu")
        assert {each.outputs["OutputTensor"].tobytes() for each in answers.values()} == {right(array)}
        # Its CPUs are those of the server, so it takes only work that names the device.
        assert {given: each.device for given, each in answers.items()} == {
            "cpu": "cpu",
            far: far,
            "cluster": far,
            "auto": "cpu",
        }
        metrics = httpx.get(f"{served.url}/metrics", timeout=30).text
        assert f'opwire_running_operators_limit{{device="{far}"}}' in metrics
        assert far in httpx.get(f"{served.url}/v1/server/load", timeout=30).json()["devices"]
        started = descendants(served.process.pid)
        assert len(started) > 3
        served.process.terminate()
        assert served.finish() == 0
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started))


@pytest.mark.parametrize("given", ["remote", "127.0.0.1", "127.0.0.1:head", "http://127.0.0.1:1"])
def test_an_address_has_one_of_three_forms(given):
    done = opwire("serve", "--ray", given)
    assert done.returncode == 2
    assert "auto, local, or HOST:PORT" in " ".join(done.stderr.split())


def test_several_processes_cannot_each_start_a_cluster():
    done = opwire("serve", "--ray", "local", "--workers", "2")
    assert done.returncode == 2
    assert "each of --workers would start its own cluster" in " ".join(done.stderr.replace("│", "").split())


def test_without_ray_a_server_says_what_to_install(tmp_path):
    import ray

    installed = Path(ray.__file__).parent.parent
    for each in installed.iterdir():
        if not each.name.startswith("ray"):
            (tmp_path / each.name).symlink_to(each)
    # Without its site-packages, Python finds only what is in the folder.
    path = os.pathsep.join([*os.environ.get("PYTHONPATH", "").split(os.pathsep), *_sources(), str(tmp_path)])
    command = [sys.executable, "-S", "-m", "opwire_service", "serve", "--ray", "auto"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120)
    assert (
        done.stderr.splitlines()[-1]
        == "opwire: '--ray' (env var: 'OPWIRE_RAY'): it needs Ray: pip install 'opwire[ray]'"
    )
    assert done.returncode == 2


def _sources() -> list[str]:
    import opwire
    import opwire_service

    return [str(Path(package.__path__[0]).parent) for package in (opwire, opwire_service)]
