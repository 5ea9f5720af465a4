"""A Ray cluster as a pool of devices, which the server rejoins whenever it is lost."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from functools import partial
from tempfile import TemporaryDirectory

from opwire.describe import ClusterInfo

from ..base import Usage
from .device import RemoteDevice
from .link import Link, Options
from .messages import Done, Draining, Failed, FromBridge, Joined, Lost, Unused, Up, Used

FIRST_PAUSE, MAX_PAUSE = 0.5, 5.0
"""Pause between the end of a bridge and the start of the next one, in seconds."""

REFUSED_PAUSE = 30.0
"""Pause before retrying a cluster that refused this program, in seconds."""

MIN_STORE_BYTES = 100 << 20
"""Minimum size of Ray's object store, in bytes."""

log = logging.getLogger("opwire")


class Cluster:
    """Joins a cluster, and rejoins it when it is lost.

    Args:
        address: ``auto``, ``local`` or HOST:PORT, see ``--ray``.
        memory_bytes: limit of memory held by requests, and so of the data in transit to nodes.
        on_join: called with each device that becomes available, on a thread of this class.
        on_leave: called with each device that accepts no more work, on the same thread.
        cpu_device: module and class of the CPU device of nodes.
    """

    def __init__(
        self,
        address: str,
        memory_bytes: int,
        on_join: Callable[[RemoteDevice], object],
        on_leave: Callable[[RemoteDevice], object],
        cpu_device: str,
    ) -> None:
        self._make_options = partial(Options, address, store_bytes(memory_bytes), cpu_device)
        self._on_join = on_join
        self._on_leave = on_leave
        self._devices: dict[int, RemoteDevice] = {}
        self._info: ClusterInfo = {"address": address, "state": "joining", "reason": None, "nodes": [], "refused": {}}
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._link: Link | None = None
        self._thread = threading.Thread(target=self._keep, name="opwire-cluster", daemon=True)

    def start(self) -> None:
        """Starts joining, in the background."""
        self._thread.start()

    def describe(self) -> ClusterInfo:
        """Returns the state of the cluster."""
        return {**self._info, "nodes": sorted({device.node for device in list(self._devices.values())})}

    def close(self) -> None:
        """Leaves the cluster, abandoning running work."""
        with self._lock:
            self._closing.set()
            link = self._link
        if link is not None:
            link.close()
        if self._thread.is_alive():
            self._thread.join()

    def _keep(self) -> None:
        pause = FIRST_PAUSE
        while not self._closing.is_set():
            with TemporaryDirectory(prefix="opwire-", ignore_cleanup_errors=True) as folder:
                with self._lock:
                    if self._closing.is_set():
                        return
                    self._link = link = Link(self._make_options(folder))
                was_joined = self._follow(link)
                code = link.close()
            if self._closing.is_set():
                return
            pause = FIRST_PAUSE if was_joined else min(2 * pause, MAX_PAUSE)
            if was_joined:
                log.warning("lost the cluster (%s; exit code %s); rejoining it", link.last_line, code)
                self._info = {**self._info, "state": "joining", "reason": link.last_line}
            self._closing.wait(REFUSED_PAUSE if self._info["state"] == "refused" else pause)

    def _follow(self, link: Link) -> bool:
        """Handles the messages of a bridge until it ends. Returns whether it had joined."""
        for message in link.messages():
            self._handle(link, message)
        for number in list(self._devices):
            self._leave(number)
        self._info = {**self._info, "refused": {}}
        return bool(link.largest)

    def _handle(self, link: Link, message: FromBridge) -> None:
        match message:
            case Up():
                device = self._devices[message.device] = RemoteDevice(message, link)
                log.info("device %s joined", device.name)
                self._on_join(device)
            case Draining():
                self._leave(message.device, "is draining")
            case Lost():
                self._leave(message.device, f"was lost: {message.reason}")
            case Used():
                if message.device in self._devices:
                    self._devices[message.device].used = Usage(message.memory, message.memory_limit, message.kernels)
            case Unused():
                self._refuse(message)
            case Joined():
                log.info("joined the cluster at %s", message.address)
                self._info = {**self._info, "address": message.address, "state": "joined", "reason": None}
            case Failed():
                self._fail(message)
            case Done():
                pass  # handled by the link

    def _leave(self, number: int, why: str = "was lost with the cluster") -> None:
        device = self._devices.pop(number, None)
        if device is not None:
            if not self._closing.is_set():
                log.warning("device %s %s", device.name, why)
            self._on_leave(device)

    def _refuse(self, unused: Unused) -> None:
        for name, reason in unused.reasons.items():
            if self._info["refused"].get(name) != reason:
                log.error("device %s cannot be used: %s", name, reason)
        self._info = {**self._info, "refused": dict(unused.reasons)}

    def _fail(self, failed: Failed) -> None:
        if self._info["reason"] != failed.reason:
            log.log(logging.ERROR if failed.refused else logging.WARNING, "cannot join the cluster: %s", failed.reason)
        state = "refused" if failed.refused else "joining"
        self._info = {**self._info, "state": state, "reason": failed.reason}


def store_bytes(memory_bytes: int) -> int:
    """Returns the object store size for a node started by a server: the memory of its requests, if there is room."""
    try:
        shared = os.statvfs("/dev/shm")
    except OSError:
        return MIN_STORE_BYTES
    free = shared.f_bavail * shared.f_frsize
    return max(MIN_STORE_BYTES, min(memory_bytes, free // 2))
