"""The service behind the routes: devices, dispatcher and engine, created from settings."""

from __future__ import annotations

import asyncio
import logging
from importlib.metadata import version
from pathlib import Path
from typing import cast

from opwire.describe import DeviceInfo, ServerInfo
from opwire.errors import ProblemCode, UnavailableError
from opwire.level import HIGHEST, FeatureLevel
from opwire.wire import Encoding

from ..devices import kind_of, load
from ..devices.base import Device
from ..devices.ray.cluster import Cluster
from ..devices.ray.device import RemoteDevice
from ..kernels.executable import EXECUTABLE
from ..settings import Limits, Settings
from ..telemetry import declarations as counted
from ..telemetry.metrics import Metrics
from ..telemetry.prometheus import registry
from ..telemetry.seats import SEATS
from .costs import guess_of
from .dispatcher import Dispatcher
from .graph_registry import GraphRegistry
from .pipeline import Engine

JOINING = 256
"""Maximum number of plans running at once on the devices of a cluster."""

log = logging.getLogger("opwire")


class Service:
    """A server without its network layer. It is ready once constructed, until ``drain`` or ``close``.

    Args:
        settings: settings of the server.
        metrics: metrics of this process.
        folder: folder shared by the server's worker processes; None for a single process.

    Attributes:
        settings, metrics, folder: see above.
        registry: the metrics that Prometheus scrapes, as of the last ``publish``.
        cluster: the cluster it has joined, if any.
        engine: runs the requests.
        ready: whether it accepts work.
        draining: whether it is stopping.
        broken: description of the device failure that makes it stop; None if there was none.
    """

    def __init__(self, settings: Settings, metrics: Metrics, folder: Path | None = None) -> None:
        self.settings = settings
        self.folder = folder
        self.metrics = metrics
        self.registry = registry(metrics)
        self.cluster: Cluster | None = None
        devices = {name: load(name, settings.workers) for name in settings.devices}
        limits = settings.limits
        dispatcher = Dispatcher(
            devices,
            settings.threads,
            limits.queued,
            limits.max_wait_ms / 1000,
            on_broken=self._on_broken,
            joining=JOINING if settings.ray else 0,
        )
        self.engine = Engine(dispatcher, limits, settings.cached_plans, metrics, _registry(folder, limits))
        self.ready = True
        self.draining = False
        self.broken: str | None = None
        if settings.ray:
            self._follow(settings.ray)

    def _follow(self, address: str) -> None:
        """Joins a cluster, whose devices are added and removed on the server's event loop."""
        loop = asyncio.get_running_loop()
        self.cluster = Cluster(
            address,
            self.settings.limits.memory_bytes,
            lambda device: loop.call_soon_threadsafe(self._join, device),
            lambda device: loop.call_soon_threadsafe(self._leave, device),
            self.settings.node_device,
        )
        self.cluster.start()

    def _join(self, device: RemoteDevice) -> None:
        if not self.metrics.seat(device.name):
            log.error("device %s ignored: metrics have room for at most %d cluster devices", device.name, SEATS)
            return
        is_local = device.is_local and kind_of(device.name.rpartition("/")[2]) in map(kind_of, self.settings.devices)
        guess = guess_of(str(device.describe().get("kind")), device.fixed, device.per_byte)
        self.engine.dispatcher.add(device, guess, is_local=is_local)

    def _leave(self, device: RemoteDevice) -> None:
        self.engine.dispatcher.remove(device)
        if device.name not in self.engine.dispatcher.devices:
            self.metrics.unseat(device.name)

    def _on_broken(self, device: Device) -> None:
        """Starts draining this process after a device failure; other processes take the work until it is replaced."""
        if self.broken is None:
            self.broken = f"device {device.name} failed: {device.broken}"
            log.error("%s; stopping this process", self.broken)
            self.drain()

    def drain(self) -> None:
        """Stops accepting work; accepted work continues."""
        self.ready = False
        self.draining = True

    def require_ready(self) -> None:
        """Refuses work unless the server is ready.

        Raises:
            UnavailableError: the server is stopping or not ready.
        """
        if self.draining:
            raise UnavailableError(ProblemCode.DRAINING, "the server is stopping; send the request to another one")
        if not self.ready:
            raise UnavailableError(ProblemCode.NOT_READY, "the server is not ready")

    async def close(self) -> None:
        """Stops accepting work, waits for running work, and closes the devices."""
        self.drain()
        await self.engine.close()
        if self.cluster is not None:
            await asyncio.to_thread(self.cluster.close)

    def publish(self) -> None:
        """Updates the metrics kept by other components: queues, running work, memory, and the plan cache."""
        engine, cells = self.engine, self.metrics
        schedule, plans = engine.dispatcher.schedule, engine.plans
        cells.set(counted.WORKERS, int(self.ready))
        cells.follow(counted.PLAN_HITS, plans.hits)
        cells.follow(counted.PLAN_MISSES, plans.misses)
        cells.set(counted.PLANS, len(plans))
        cells.set(counted.PLANS_LIMIT, plans.size)
        cells.set(counted.MEMORY, engine.memory.held)
        cells.set(counted.MEMORY_LIMIT, engine.memory.limit)
        cells.set(counted.QUEUED_LIMIT, schedule.limit)
        cells.set(counted.MEMORY_WAITING, engine.memory.waiting)
        for name, found in engine.dispatcher.devices.items():
            usage = found.usage()
            cells.set(counted.DEVICE_MEMORY, usage.memory, name)
            cells.set(counted.DEVICE_MEMORY_LIMIT, usage.memory_limit, name)
            cells.set(counted.DEVICE_KERNELS, usage.kernels, name)
        for device, busy in schedule.loads().items():
            cells.set(counted.QUEUED, busy.queued, device)
            cells.set(counted.RUNNING, busy.running, device)
            cells.set(counted.RUNNING_LIMIT, busy.capacity, device)
            cells.set(counted.WORK, busy.pending, device)
        for stage, count in engine.dispatcher.cancelled.items():
            cells.follow(counted.CANCELLATIONS, count, stage)

    def describe(self) -> ServerInfo:
        """Returns the description of the server for clients."""
        return {
            "name": "opwire",
            "version": version("opwire"),
            "ready": self.ready,
            "feature_levels": [str(level) for level in FeatureLevel],
            "default_feature_level": str(HIGHEST),
            "devices": self._devices(),
            "cluster": None if self.cluster is None else self.cluster.describe(),
            "default_device": self.engine.default_device,
            "limits": self.settings.limits.to_json(),
            "encodings": [encoding.value for encoding in Encoding],
        }

    def _devices(self) -> list[DeviceInfo]:
        dispatcher = self.engine.dispatcher
        loads = dispatcher.schedule.loads()
        described = []
        for name, device in dispatcher.devices.items():
            busy, usage = loads[name], device.usage()
            memory = {"used": usage.memory, "limit": usage.memory_limit} if usage.memory_limit else None
            now = {"queued": busy.queued, "running": busy.running, "places": busy.capacity, "kernels": usage.kernels}
            able = list(filter(device.executes, EXECUTABLE))
            found = {**device.describe(), "operators": able, **now, "memory": memory, "broken": device.broken}
            described.append(cast(DeviceInfo, found))
        return described


def _registry(folder: Path | None, limits: Limits) -> GraphRegistry:
    if folder is None:
        return GraphRegistry(None, limits)
    own = folder / "graphs"
    own.mkdir(exist_ok=True)
    return GraphRegistry(own, limits)
