"""A Ray cluster on this machine: a head without CPUs, and nodes that join and leave."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from opwire_service.devices.ray.cluster import Cluster
from opwire_service.devices.ray.device import RemoteDevice
from tests.support.http.processes import until
from tests.support.paths import ROOT

WITHIN = 120.0
"""Timeout in seconds, generous enough for a busy machine."""

STORE = 150 << 20

ENVIRONMENT = {
    "PYTHONPATH": f"{ROOT / 'client'}:{ROOT / 'service'}:{ROOT}",
    "PYTHONDONTWRITEBYTECODE": "",  # installed packages keep their bytecode next to the source
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "20",
}


class Node:
    """A node started by ``ray start``."""

    def __init__(self, folder: Path, env: Mapping[str, str], python: str, *arguments: str) -> None:
        command = [python, "-m", "ray.scripts.scripts", "start", "--block", f"--object-store-memory={STORE}"]
        environment = {**os.environ, **ENVIRONMENT, **env}
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, f"--temp-dir={folder}", "--dashboard-agent-listen-port=0", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
            )

    @property
    def pid(self) -> int:
        """The process that starts and stops the other processes of the node."""
        return self._process.pid

    def await_started(self) -> None:
        """Waits until Ray reports that the node runs."""
        until(lambda: b"Ray runtime started" in self._log.read_bytes() or self._process.poll() is not None)
        assert self._process.poll() is None, self._log.read_text()

    def kill(self) -> None:
        """Kills all processes of the node with SIGKILL, as a power failure would."""
        every = [self._process.pid, *descendants(self._process.pid)]
        for pid in every:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)  # so that none of them starts another one meanwhile
        for pid in {*every, *descendants(self._process.pid)}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()


class Nodes:
    """The nodes of a cluster.

    Args:
        folder: For Ray's files.
        env: Environment of all nodes, in addition to ``ENVIRONMENT``.
        python: The interpreter that runs Ray.
        head: Maps the head's address to the head's additional environment and arguments.

    Attributes:
        port: The port of the head.
        address: The address of the head.
    """

    def __init__(
        self,
        folder: Path,
        env: Mapping[str, str],
        python: str,
        head: Callable[[str], tuple[Mapping[str, str], list[str]]],
    ) -> None:
        self._env = env
        self._python = python
        self._folder = folder
        self._nodes: list[Node] = []
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._head = head(self.address)
        self.start_head()

    def start_head(self) -> None:
        """Starts or restarts the head."""
        arguments = ("--head", f"--port={self.port}", "--include-dashboard=false", "--num-cpus=0", "--num-gpus=0")
        env, more = self._head
        self.head = self._start(env, "--node-ip-address=127.0.0.1", *arguments, *more)

    def add(self, name: str, env: Mapping[str, str] | None = None) -> Node:
        """Adds a node with one CPU."""
        address = (f"--address={self.address}", "--node-ip-address=127.0.0.1")
        return self._start(env or {}, *address, f"--node-name={name}", "--num-cpus=1", "--num-gpus=0")

    def has(self, name: str) -> bool:
        """Whether the head counts a node as alive."""
        from ray._raylet import GcsClient  # type: ignore[attr-defined]

        found = GcsClient(address=self.address).get_all_node_info()
        return any(node.node_name == name and node.state == 0 for node in found.values())

    def _start(self, env: Mapping[str, str], *arguments: str) -> Node:
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        made = Node(folder, {**self._env, **env}, self._python, *arguments)
        self._nodes.append(made)
        made.await_started()
        return made

    def close(self) -> None:
        """Kills all nodes."""
        for node in self._nodes:
            node.kill()


def _plain_head(_: str) -> tuple[Mapping[str, str], list[str]]:
    return {}, []


@contextlib.contextmanager
def nodes(
    *names: str,
    env: Mapping[str, str] | None = None,
    python: str = sys.executable,
    head: Callable[[str], tuple[Mapping[str, str], list[str]]] = _plain_head,
) -> Iterator[Nodes]:
    """Starts a cluster whose nodes have one CPU each, and kills it at the end."""
    # Ray puts its sockets below this folder; their paths must be short.
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as folder:
        made = Nodes(Path(folder), env or {}, python, head)
        try:
            for name in names:
                made.add(name)
            yield made
        finally:
            made.close()


@contextlib.contextmanager
def remote_device(cluster: Nodes) -> Iterator[RemoteDevice]:
    """Yields the device of the only node, as a server sees it."""
    import ray

    ray.init(cluster.address, log_to_driver=False, logging_level="error")
    found: list[RemoteDevice] = []
    devices = Cluster(cluster.address, STORE, found.append, lambda _: None, "opwire_service.devices.cpu:CpuDevice")
    devices.start()
    try:
        until(lambda: bool(found))
        yield found[0]
    finally:
        devices.close()
        ray.shutdown()


def descendants(pid: int) -> list[int]:
    """Returns the children of a process, and their descendants."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *descendants(child)]
    return found


def free_port() -> int:
    """Returns a port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def server_info(url: str) -> dict[str, Any]:
    """Returns the server's description of itself."""
    found: dict[str, Any] = httpx.get(f"{url}/v1/server", timeout=30).json()
    return found


def device_names(url: str) -> set[str]:
    """Returns the names of a server's devices."""
    return {device["name"] for device in server_info(url)["devices"]}
