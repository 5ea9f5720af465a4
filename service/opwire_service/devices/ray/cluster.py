"""A Ray cluster as a pool of devices: kept joined for as long as the server runs."""

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
from .messages import Done, Draining, Failed, Heard, Joined, Lost, Unused, Up, Used

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Seconds between the end of a bridge and the start of the next."""

REFUSED_PAUSE = 30.0
"""Seconds until a cluster with another version is asked again."""

LEAST_STORE = 100 << 20
"""Bytes: Ray takes no smaller object store."""

log = logging.getLogger("opwire")


class Cluster:
    """Joins a cluster, and joins it again when it was lost.

    Args:
        address: auto, local or HOST:PORT, see ``--ray``.
        memory_bytes: that requests may hold, and so the most that is on its way to nodes.
        on_join: called with each device that takes work from now on; in a thread of this class, as the other one.
        on_leave: called with each that takes no more.
        cpu_device: module and class of the device of a node's processors.
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
        """Begins to join."""
        self._thread.start()

    def describe(self) -> ClusterInfo:
        """How the server stands with it."""
        return {**self._info, "nodes": sorted({device.node for device in list(self._devices.values())})}

    def close(self) -> None:
        """Leaves the cluster; what runs there is given up."""
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
            pause = FIRST_PAUSE if was_joined else min(2 * pause, LONGEST_PAUSE)
            if was_joined:
                log.warning("the cluster is lost (%s; %s): it will be joined again", link.last_words, code)
                self._info = {**self._info, "state": "joining", "reason": link.last_words}
            self._closing.wait(REFUSED_PAUSE if self._info["state"] == "refused" else pause)

    def _follow(self, link: Link) -> bool:
        """Does what a bridge says until it ends. Returns whether it had joined."""
        for message in link.messages():
            self._heed(link, message)
        for number in list(self._devices):
            self._leave(number)
        self._info = {**self._info, "refused": {}}
        return bool(link.largest)

    def _heed(self, link: Link, message: Heard) -> None:
        match message:
            case Up():
                device = self._devices[message.device] = RemoteDevice(message, link)
                log.info("%s joins", device.name)
                self._on_join(device)
            case Draining():
                self._leave(message.device, "drains")
            case Lost():
                self._leave(message.device, f"is lost: {message.reason}")
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
                pass  # its link has taken it

    def _leave(self, number: int, why: str = "is lost with the cluster") -> None:
        device = self._devices.pop(number, None)
        if device is not None:
            if not self._closing.is_set():
                log.warning("%s %s", device.name, why)
            self._on_leave(device)

    def _refuse(self, unused: Unused) -> None:
        for name, reason in unused.reasons.items():
            if self._info["refused"].get(name) != reason:
                log.error("%s is not used: %s", name, reason)
        self._info = {**self._info, "refused": dict(unused.reasons)}

    def _fail(self, failed: Failed) -> None:
        if self._info["reason"] != failed.reason:
            log.log(logging.ERROR if failed.refused else logging.WARNING, "no cluster: %s", failed.reason)
        state = "refused" if failed.refused else "joining"
        self._info = {**self._info, "state": state, "reason": failed.reason}


def store_bytes(memory_bytes: int) -> int:
    """Bytes of the object store of a node that a server starts: for what its requests hold, if there is room."""
    try:
        shared = os.statvfs("/dev/shm")
    except OSError:
        return LEAST_STORE
    free = shared.f_bavail * shared.f_frsize
    return max(LEAST_STORE, min(memory_bytes, free // 2))
