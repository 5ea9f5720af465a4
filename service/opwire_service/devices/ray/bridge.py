"""The process that joins a Ray cluster on behalf of a server, and ends with the server or the cluster."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import ObjectStoreFullError, OutOfDiskError, OutOfMemoryError, RayError, RayTaskError

from opwire.errors import OverloadedError, ProblemCode, to_problem
from opwire.tensor import Array

from .blocks import opened
from .channel import Channel
from .joining import BridgeLocation, NotJoined, Refused, joined
from .members import POLL_SECONDS, ClusterMembers
from .messages import CallOutcome, Done, Failed, FromBridge, Joined, NewBlock, Run, Stop, ToBridge

THREADS = 256
"""Maximum number of concurrent calls."""

LOSS_POLL_SECONDS = 0.25
"""Interval of checks whether the device of a call is gone, in seconds."""

LEAVES_WITHIN = 10.0
"""Maximum time for leaving a cluster without a head, in seconds."""

MAX_SHARE = 0.4
"""Maximum share of the object store for one plan."""


_FULL = (ObjectStoreFullError, OutOfDiskError, OutOfMemoryError)


@dataclass(slots=True, eq=False)
class HostCall:
    """A running plan.

    Attributes:
        host: actor that runs it, once chosen.
        stopped: whether it has been cancelled.
    """

    host: Any = None
    stopped: bool = False


class Bridge:
    """Forwards calls from a server to the actors.

    Args:
        channel: channel to the server.
        members: devices of the cluster.
        server: ID of the server for the actors.
    """

    def __init__(self, channel: Channel[FromBridge, ToBridge], members: ClusterMembers, server: str) -> None:
        self._channel = channel
        self._members = members
        self._server = server
        self._blocks: dict[int, Array] = {}
        self._calls: dict[int, HostCall] = {}
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(THREADS, "opwire-call")

    def serve(self) -> None:
        """Handles the messages of the server until that ends."""
        try:
            while True:
                self._handle(self._channel.receive())
        except (EOFError, OSError):
            for number in list(self._calls):
                self._stop(number)

    def _handle(self, message: ToBridge) -> None:
        if isinstance(message, Run):
            self._calls[message.call] = call = HostCall()
            self._threads.submit(self._run, message, call)
        elif isinstance(message, Stop):
            self._stop(message.call)
        elif isinstance(message, NewBlock):
            descriptor = self._channel.receive_descriptor()
            self._blocks[message.block] = opened(descriptor, message.size)
            os.close(descriptor)
        else:
            del self._blocks[message.block]

    def _stop(self, number: int) -> None:
        call = self._calls.get(number)
        if call is not None:
            with self._lock:
                call.stopped = True
            if call.host is not None:
                call.host.stop.remote(self._name(number))

    def _run(self, run: Run, call: HostCall) -> None:
        try:
            done = self._outcome(run, call)
        except Exception as error:  # a bug, which the server reports to its client
            done = Done(run.call, CallOutcome.FAILED, f"{type(error).__name__}: {error}")
        del self._calls[run.call]
        tell(self._channel, done)

    def _outcome(self, run: Run, call: HostCall) -> Done:
        host = self._members.host(run.device)
        if host is None:
            return Done(run.call, CallOutcome.LOST)
        memory = self._blocks[run.block]
        with self._lock:
            if call.stopped:
                return Done(run.call, CallOutcome.STOPPED)
            call.host = host
        try:
            name = self._name(run.call)
            outcome, answer = self._await(host.run.remote(self._server, name, run.plan, memory[: run.sent]), run)
        except _FULL as error:
            return Done(run.call, CallOutcome.FAILED, to_problem(_refusal(error)))
        except RayError as error:
            cause = error.cause if isinstance(error, RayTaskError) else error
            if not isinstance(cause, RayError):
                return Done(run.call, CallOutcome.FAILED, str(cause))
            self._members.lose(run.device, type(cause).__name__)
            return Done(run.call, CallOutcome.LOST)
        if outcome == CallOutcome.DONE.value:
            memory[: answer.size] = answer
            return Done(run.call, CallOutcome.DONE)
        return Done(run.call, CallOutcome(outcome), answer)

    def _await(self, answer: Any, run: Run) -> Any:
        """Waits for the result of an actor.

        Raises:
            RayError: the actor is gone.
        """
        while True:
            try:
                return ray.get(answer, timeout=LOSS_POLL_SECONDS)
            except TimeoutError:
                if self._members.host(run.device) is None:
                    raise RayError("the device was lost") from None

    def _name(self, number: int) -> str:
        return f"{self._server}-{number}"


def _refusal(error: Exception) -> OverloadedError:
    what = type(error).__name__
    return OverloadedError(ProblemCode.MEMORY_FULL, f"Ray has no room for the tensors: {what}", retry_after=1)


def tell(channel: Channel[FromBridge, ToBridge], message: FromBridge) -> None:
    """Sends a message to the server, unless that is gone."""
    try:
        channel.send(message)
    except OSError:
        return


def main(descriptor: str, address: str, store_bytes: str, cpu_device: str, folder: str) -> None:
    """Joins a cluster and forwards calls until the server ends or the cluster is lost.

    Args:
        descriptor: file descriptor of the socket to the server.
        address, store_bytes, cpu_device, folder: see Options.
    """
    channel: Channel[FromBridge, ToBridge] = Channel(socket.socket(fileno=int(descriptor)))
    try:
        with joined(address, int(store_bytes), folder) as place:
            channel.send(Joined(place.address, int(_store(place) * MAX_SHARE)))
            server = secrets.token_hex(8)
            members = ClusterMembers(lambda message: tell(channel, message), place.node, server, cpu_device)
            threading.Thread(target=_follow, args=(members,), name="opwire-nodes", daemon=True).start()
            threading.Thread(target=_listen, args=(members, channel), name="opwire-signs", daemon=True).start()
            Bridge(channel, members, server).serve()
    except NotJoined as error:
        tell(channel, Failed(str(error), isinstance(error, Refused)))
    os._exit(0)  # a call that Ray never completes would keep its thread, and so this process, alive


def _store(place: BridgeLocation) -> float:
    """Returns the size of the object store of the bridge's node, in bytes."""
    found = [node["Resources"] for node in ray.nodes() if node["NodeID"] == place.node]
    return float(found[0]["object_store_memory"]) if found else 0.0


def _follow(members: ClusterMembers) -> None:
    """Tracks the nodes. Without the head, the known devices continue."""
    while True:
        try:
            members.follow()
        except Exception as error:  # Ray's errors have no common base class
            sys.stderr.write(f"the head does not respond: {error}\n")
        time.sleep(POLL_SECONDS)


def _listen(members: ClusterMembers, channel: Channel[FromBridge, ToBridge]) -> None:
    """Exchanges heartbeats with the devices; ends the bridge if the head has been silent for too long."""
    while not members.is_headless:
        try:
            members.listen()
        except Exception as error:  # Ray's errors have no common base class
            sys.stderr.write(f"heartbeat of a device failed: {error}\n")
        time.sleep(POLL_SECONDS)
    channel.close()
    time.sleep(LEAVES_WITHIN)
    os._exit(3)
