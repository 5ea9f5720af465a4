"""A cluster whose nodes all run on this machine, and its devices as a server sees them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from opwire_service.devices.ray.cluster import Cluster
from opwire_service.devices.ray.device import RemoteDevice

ROOT = Path(__file__).parent.parent.parent

STORE = 200 << 20
"""Size of each node's object store, in bytes."""

WITHIN = 180.0


class Simulated:
    """Nodes as processes of this machine, from ``ray.cluster_utils``. The head runs no work."""

    def __init__(self) -> None:
        os.environ["PYTHONPATH"] = os.pathsep.join(map(str, (ROOT / "client", ROOT / "service", ROOT)))
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # lets installed packages use their bytecode
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_AUTH_MODE", "disabled")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        from ray.cluster_utils import Cluster as RayCluster

        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE}
        self._cluster: Any = RayCluster(initialize_head=True, head_node_args=head)
        self.address: str = self._cluster.address
        self.ids: list[str] = []
        self._nodes: list[Any] = []

    def add(self, count: int) -> None:
        """Adds nodes with one core each."""
        for _ in range(count):
            name = f"node{len(self.ids)}"
            made = self._cluster.add_node(num_cpus=1, object_store_memory=STORE, node_name=name)
            self.ids.append(made.node_id)
            self._nodes.append(made)

    def remove(self) -> None:
        """Removes the last node."""
        self.ids.pop()
        self._cluster.remove_node(self._nodes.pop())

    def close(self) -> None:
        """Stops all nodes."""
        self._cluster.shutdown()


@contextmanager
def simulated(nodes: int) -> Iterator[Simulated]:
    """Runs a cluster of ``nodes`` nodes while the context lasts."""
    made = Simulated()
    try:
        made.add(nodes)
        yield made
    finally:
        made.close()


class Pool:
    """The devices of a cluster."""

    def __init__(self) -> None:
        self.devices: dict[str, RemoteDevice] = {}
        self._lock = Lock()

    def join(self, device: RemoteDevice) -> None:
        with self._lock:
            self.devices[device.name] = device

    def part(self, device: RemoteDevice) -> None:
        with self._lock:
            self.devices.pop(device.name, None)


@contextmanager
def pool(address: str, count: int, device: str) -> Iterator[list[RemoteDevice]]:
    """Yields the devices of a cluster, once there are at least ``count``.

    Args:
        address: address of the cluster.
        count: number of devices to wait for.
        device: module and class of the device for a node's CPU.
    """
    found = Pool()
    cluster = Cluster(address, STORE, found.join, found.part, device)
    cluster.start()
    try:
        until(lambda: len(found.devices) >= count)
        yield [found.devices[name] for name in sorted(found.devices)]
    finally:
        cluster.close()


def until(condition: Callable[[], bool]) -> None:
    """Waits until a condition holds."""
    end = time.monotonic() + WITHIN
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"the condition did not hold within {WITHIN:g} s")
        time.sleep(0.02)
