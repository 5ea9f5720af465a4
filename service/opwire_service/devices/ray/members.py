"""The devices of a cluster, managed by the bridge: each is an actor, which is started, monitored, and restarted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from itertools import count
from typing import Any

import numpy as np
import ray
from ray._private.state import state as cluster_state
from ray.exceptions import GetTimeoutError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from .host import ANSWERING, WORKING, DeviceHost, versions
from .joining import NAMESPACE
from .messages import Draining, FromBridge, Lost, Unused, Up, Used
from .nodes import Names, Wanted, wanted

POLL_SECONDS = 0.25
"""Polling interval of the nodes, in seconds."""

BEATS_EVERY = 1.0
SILENT = 6.0
"""Time without a heartbeat after which a device counts as lost, in seconds."""

HEAD_SILENT = 30.0
"""Time without the head after which a cluster counts as lost, in seconds; Ray may end the bridge earlier."""

STARTS_WITHIN = 120.0
"""Maximum time for an actor to start, which may include loading CUDA, in seconds."""

ARRIVES_WITHIN = 20.0
"""Maximum time for the tensors of a measurement to arrive, in seconds."""

FIRST_PAUSE, MAX_PAUSE = 2.0, 60.0
"""First and maximum pause before retrying a device that could not be started, in seconds."""

WORKERS, ANSWERERS = 16, 4
"""Concurrency of an actor's methods: plans of all servers, and everything else."""

MEASURED_BYTES = 4 << 20
"""Size of the tensor used to measure the transport to a node, in bytes."""

CUDA_DEVICE = "opwire_service.devices.cuda.device:CudaDevice"


class MemberState(Enum):
    """States of a member."""

    STARTING = auto()
    UP = auto()
    DOWN = auto()
    """Lost, or could not be started; retried while its node is alive."""


@dataclass(slots=True, eq=False)
class ClusterMember:
    """A device of a node.

    Attributes:
        wanted: the device.
        state: its state.
        number: its latest number; it gets a new one each time it comes up.
        host: its actor.
        due: time of the next attempt to start it.
        failures: number of failed attempts since it was last up.
        draining: whether its node is draining.
        heard: time of the last heartbeat.
        beat: pending heartbeat.
        used: usage as last reported.
        refused: why it could not be started.
    """

    wanted: Wanted
    state: MemberState = MemberState.STARTING
    number: int = 0
    host: Any = None
    due: float = 0.0
    failures: int = 0
    draining: bool = False
    heard: float = 0.0
    beat: Any = None
    used: tuple[int, ...] = ()
    refused: str | None = None


class ClusterMembers:
    """Tracks the nodes of a cluster and manages their devices.

    Args:
        say: sends a message to the server.
        home: ID of the node that the bridge is attached to.
        server: ID of the server for the actors.
        cpu_device: module and class of the CPU device of nodes.
    """

    def __init__(self, say: Callable[[FromBridge], None], home: str, server: str, cpu_device: str) -> None:
        self._say = say
        self._home = home
        self._server = server
        self._cpu_device = cpu_device
        self._members: dict[Wanted, ClusterMember] = {}
        self._numbers = count(1)
        self._names = Names()
        self._told: Mapping[str, str] = {}
        self._lock = threading.Lock()
        self._up: dict[int, ClusterMember] = {}
        self._headed = time.monotonic()

    @property
    def is_headless(self) -> bool:
        """Whether the head has been silent for so long that the cluster must be rejoined."""
        return time.monotonic() - self._headed > HEAD_SILENT

    def host(self, number: int) -> Any:
        """Returns the actor of a device, or None if the device is gone."""
        member = self._up.get(number)
        return None if member is None else member.host

    def lose(self, number: int, reason: str) -> None:
        """Marks a device that misbehaved as lost; it is restarted while its node is alive."""
        with self._lock:
            member = self._up.pop(number, None)
            if member is None:
                return
            member.state, member.beat, member.due = MemberState.DOWN, None, time.monotonic() + POLL_SECONDS
        self._say(Lost(number, reason))

    def follow(self) -> None:
        """Updates the members from the current nodes: starts, drains and removes devices.

        Raises:
            RayError, RuntimeError: the head does not respond.
        """
        nodes = ray.nodes()
        with self._lock:
            self._names.follow(nodes, self._silent_nodes())
        there = wanted(nodes)
        staying = set(wanted(nodes, cluster_state.get_draining_nodes()))
        for gone in self._members.keys() - set(there):
            with self._lock:
                member = self._members.pop(gone)
            self.lose(member.number, "its node is gone")
        for each in there:
            if each not in staying:
                self._drain(each)
            elif each not in self._members:
                self._start(self._members.setdefault(each, ClusterMember(each)))
        self._tell()
        self._headed = time.monotonic()

    def _silent_nodes(self) -> set[str]:
        """Returns nodes that have lost all their devices: most likely dead, though the head does not know it yet."""
        silent = {each.node for each, member in self._members.items() if member.number}
        return silent - {member.wanted.node for member in self._up.values()}

    def listen(self) -> None:
        """Exchanges heartbeats with the devices, drops silent ones, and restarts those that are due."""
        now = time.monotonic()
        for member in list(self._members.values()):
            if member.state is MemberState.UP:
                self._beat(member, now)
            elif member.state is MemberState.DOWN and member.due <= now and not member.draining:
                self._start(member)

    def _drain(self, each: Wanted) -> None:
        """Drains a device: its running plans continue, so its actor is kept."""
        member = self._members.get(each)
        if member is None or member.state is not MemberState.UP:
            return
        if not member.draining:
            member.draining = True
            self._say(Draining(member.number))

    def _start(self, member: ClusterMember) -> None:
        member.state = MemberState.STARTING
        threading.Thread(target=self._bring_up, args=(member,), daemon=True).start()

    def _bring_up(self, member: ClusterMember) -> None:
        try:
            host = self._actor(member.wanted)
            known: Any = ray.get(host.introduce.remote(), timeout=STARTS_WITHIN)
            self._require_same(known["versions"])
            fixed, per_byte = measure(host)
        except Exception as error:  # Ray's errors have no common base class
            self._refuse(member, error)
            return
        is_local = member.wanted.node == self._home
        with self._lock:
            if self._members.get(member.wanted) is not member:  # its node is gone by now
                return
            node = self._names[member.wanted.node]
            member.host, member.heard, member.refused, member.beat = host, time.monotonic(), None, None
            member.number, member.failures, member.used = next(self._numbers), 0, ()
            member.state, self._up[member.number] = MemberState.UP, member
        name = f"{node}/{member.wanted.device}"
        about = (known["places"], known["described"], known["operators"], fixed, per_byte)
        self._say(Up(member.number, name, node, is_local, *about))

    def _refuse(self, member: ClusterMember, error: Exception) -> None:
        member.refused = _reason(error)
        member.due = time.monotonic() + min(FIRST_PAUSE * 2**member.failures, MAX_PAUSE)
        member.failures = min(member.failures + 1, 10)
        member.state = MemberState.DOWN

    def _require_same(self, theirs: Mapping[str, str]) -> None:
        ours = versions()
        if theirs != ours:
            raise VersionMismatch(
                f"it has {_listed(theirs)}, this server has {_listed(ours)}; install the same versions on both"
            )

    def _actor(self, wanted: Wanted) -> Any:
        """Gets the actor of a device, which another server may have created, or creates it."""
        name = f"{wanted.node}/{wanted.device}"
        target, arguments = (self._cpu_device, {"threads": wanted.threads}) if wanted.threads else (CUDA_DEVICE, {})
        make: Any = ray.remote
        made = make(concurrency_groups={WORKING: WORKERS, ANSWERING: ANSWERERS}, num_cpus=0)(DeviceHost)
        return made.options(
            name=name,
            namespace=NAMESPACE,
            get_if_exists=True,
            lifetime="detached",
            max_restarts=-1,
            num_gpus=0 if wanted.threads else 1,
            scheduling_strategy=NodeAffinitySchedulingStrategy(wanted.node, soft=False),
        ).remote(name, target, arguments)

    def _beat(self, member: ClusterMember, now: float) -> None:
        if member.beat is None:
            if now - member.heard >= BEATS_EVERY:
                member.beat = member.host.beat.remote(self._server)
            return
        try:
            *used, broken = ray.get(member.beat, timeout=0)
        except TimeoutError:
            if now - member.heard > SILENT:
                self.lose(member.number, f"no heartbeat for {SILENT:.0f} s")
            return
        except RayError as error:
            self.lose(member.number, _reason(error))
            return
        member.beat, member.heard = None, now
        if broken is not None:
            self.lose(member.number, broken)
        elif member.used != (found := tuple(used)):
            member.used = found
            self._say(Used(member.number, *found))

    def _tell(self) -> None:
        refused = {
            f"{self._names[each.node]}/{each.device}": member.refused
            for each, member in self._members.items()
            if member.refused is not None
        }
        if refused != self._told:
            self._told = refused
            self._say(Unused(refused))


class VersionMismatch(Exception):
    """The versions on a node and on the server differ."""


class Unreachable(Exception):
    """A node runs its actor, but does not receive the data sent by this server."""


def measure(host: Any) -> tuple[float, float]:
    """Measures the cost of an empty call to an actor and the transport cost per byte, in seconds.

    Raises:
        Unreachable: a call took too long.
    """
    fixed = min(_timed(host, np.zeros(1, np.uint8)) for _ in range(5))
    large = np.zeros(MEASURED_BYTES, np.uint8)
    return fixed, max(0.0, min(_timed(host, large) for _ in range(3)) - fixed) / MEASURED_BYTES


def _timed(host: Any, payload: Any) -> float:
    started = time.perf_counter()
    try:
        ray.get(host.measure.remote(payload), timeout=ARRIVES_WITHIN)
    except GetTimeoutError:
        here = ray.util.get_node_ip_address()
        raise Unreachable(
            f"{payload.size} bytes did not arrive at the node within {ARRIVES_WITHIN:.0f} s; "
            f"the node must be able to reach the ports of Ray on this server, at {here}"
        ) from None
    return time.perf_counter() - started


def _reason(error: Exception) -> str:
    """Returns the last line of an error, which is the most specific, as Ray puts remote tracebacks first."""
    if isinstance(error, RayTaskError):
        error = error.cause if isinstance(error.cause, Exception) else error
    lines = str(error).strip().splitlines()
    missing = [line for line in lines if "ModuleNotFoundError" in line]
    return (missing or lines or [type(error).__name__])[-1].strip()


def _listed(versions: Mapping[str, str]) -> str:
    return " and ".join(f"{name} {number}" for name, number in versions.items())
