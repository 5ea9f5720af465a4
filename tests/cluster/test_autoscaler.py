"""Ray's autoscaler starts a node when somebody asks for one, and a server uses it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from opwire.client import Client
from opwire_service.process.server import HttpServer
from opwire_service.settings import Limits, Settings
from tests.cluster.loads import OPERATOR, numbers, right
from tests.cluster.nodes import ENVIRONMENT, STORE, Node, device_names, free_port, until
from tests.serving import serving

pytest.importorskip("ray")

pytestmark = [pytest.mark.thorough, pytest.mark.serial, pytest.mark.timeout(600)]

CONFIGURATION = {
    "cluster_name": "scaled",
    "max_workers": 1,
    "idle_timeout_minutes": 1.0,
    "provider": {"type": "fake_multinode"},
    "available_node_types": {
        "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
        "worker": {
            "resources": {"CPU": 1, "object_store_memory": STORE},
            "node_config": {},
            "min_workers": 0,
            "max_workers": 1,
        },
    },
    "head_node_type": "ray.head.default",
    "upscaling_speed": 1.0,
    **{name: [] for name in ("setup_commands", "initialization_commands", "head_setup_commands")},
    **{name: [] for name in ("worker_setup_commands", "head_start_ray_commands", "worker_start_ray_commands")},
    "auth": {},
    "file_mounts": {},
    "cluster_synced_files": [],
    "file_mounts_sync_continuously": False,
    "rsync_exclude": [],
    "rsync_filter": [],
}
"""Ray's own provider for tests: its nodes are processes of this machine."""

ASK = """
import sys, ray
from ray.autoscaler.sdk import request_resources
ray.init(sys.argv[1], log_to_driver=False)
request_resources(num_cpus=1)
"""


@contextmanager
def scaled_head() -> Iterator[str]:
    """The address of a head that starts nodes when they are asked for."""
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as folder:
        configuration = Path(folder) / "configuration.json"
        configuration.write_text(json.dumps(CONFIGURATION))
        address = f"127.0.0.1:{(port := free_port())}"
        arguments = ("--head", f"--port={port}", "--include-dashboard=false", "--num-cpus=0", "--num-gpus=0")
        env = {"AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_FAKE_CLUSTER": "1"}
        scaling = ("--node-ip-address=127.0.0.1", f"--autoscaling-config={configuration}")
        head = Node(Path(folder), env, sys.executable, *arguments, *scaling)
        try:
            head.await_started()
            yield address
        finally:
            head.kill()


def members(served: HttpServer) -> list[str]:
    return [name for name in device_names(str(served.url)) if name.endswith("/cpu")]


def test_a_node_that_the_autoscaler_starts_takes_work():
    with (
        scaled_head() as address,
        serving(Settings(port=0, ray=address, limits=Limits(memory_bytes=256 << 20))) as served,
    ):
        assert not members(served)
        subprocess.run([sys.executable, "-c", ASK, address], env={**os.environ, **ENVIRONMENT}, check=True)
        until(lambda: len(members(served)) == 1)
        with Client(str(served.url)) as client:
            result = client.execute(OPERATOR, {"InputTensor": numbers()}, device="cluster")
    assert str(result.device).endswith("/cpu")
    assert result.outputs["OutputTensor"].tobytes() == right(numbers())
