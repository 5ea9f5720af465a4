"""Ray's autoscaler, with processes on this machine as nodes: a node that it starts takes work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from opwire.client import Client
from opwire_service.settings import Limits, Settings
from tests.cluster.loads import OPERATOR, numbers, right
from tests.cluster.nodes import ENVIRONMENT, STORE, device_names, nodes, server_info
from tests.support.http.processes import until
from tests.support.http.serving import serving

pytest.importorskip("ray")

pytestmark = [pytest.mark.thorough, pytest.mark.serial, pytest.mark.timeout(300)]

HEAD = "f" * 51 + "00000"
"""The id that the provider expects of the head; the ids of nodes that it starts count up from there."""

PROVIDER: dict[str, Any] = {
    # Referenced by module path: by its name Ray would look for a file that is not in its wheels.
    "type": "external",
    "module": "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider",
    "head_node_id": HEAD,
    "launch_multiple": True,
    "disable_node_updaters": True,
}

ASKS = """
import sys, ray
from ray.autoscaler.sdk import request_resources
ray.init(sys.argv[1], log_to_driver=False)
request_resources(num_cpus=1)
"""


def configuration(address: str) -> dict[str, Any]:
    """Returns the configuration of a cluster of up to two workers with one CPU each, started on demand."""
    worker = {"resources": {"CPU": 1, "object_store_memory": STORE}, "node_config": {}}
    lists = ("rsync_exclude", "rsync_filter", "cluster_synced_files", "initialization_commands", "setup_commands")
    starting = [f"{role}_{what}" for role in ("head", "worker") for what in ("setup_commands", "start_ray_commands")]
    return {
        "cluster_name": "growing",
        "max_workers": 2,
        "upscaling_speed": 1.0,
        "idle_timeout_minutes": 5,
        "provider": {**PROVIDER, "gcs_address": address},
        "head_node_type": "ray.head.default",
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
            "worker": {**worker, "min_workers": 0, "max_workers": 2},
        },
        "auth": {},
        "docker": {},
        "file_mounts": {},
        "file_mounts_sync_continuously": False,
        **{name: [] for name in (*lists, *starting)},
    }


def test_a_node_that_the_autoscaler_starts_takes_work(tmp_path):
    written = tmp_path / "autoscaling.json"

    def growing(address: str) -> tuple[Mapping[str, str], list[str]]:
        written.write_text(json.dumps(configuration(address)))
        env = {"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_enable_autoscaler_v2": "1"}
        env |= {"RAY_CLOUD_INSTANCE_ID": HEAD, "RAY_OVERRIDE_NODE_ID_FOR_TESTING": HEAD}
        return env, [f"--autoscaling-config={written}"]

    settings = Settings(port=0, limits=Limits(memory_bytes=256 << 20))
    with nodes(head=growing) as cluster, serving(replace(settings, ray=cluster.address)) as served:
        url = str(served.url)
        until(lambda: server_info(url)["cluster"]["state"] == "joined")
        assert server_info(url)["cluster"]["nodes"] == []
        asked = subprocess.run(
            [sys.executable, "-c", ASKS, cluster.address],
            env={**os.environ, **ENVIRONMENT},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert asked.returncode == 0, asked.stderr
        until(lambda: any("/" in name for name in device_names(url)))
        with Client(url) as client:
            result = client.execute(OPERATOR, {"InputTensor": numbers()}, device="cluster")
        assert result.outputs["OutputTensor"].tobytes() == right(numbers())
        assert str(result.device).endswith("/cpu")
        assert result.device in device_names(url)
