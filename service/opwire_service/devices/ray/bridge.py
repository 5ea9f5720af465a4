"""The process that belongs to a Ray cluster for a server: it ends with the server, or with the cluster."""

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
from .members import LOOKS_EVERY, ClusterMembers
from .messages import CallOutcome, Done, Failed, Heard, Joined, NewBlock, Run, Said, Stop

THREADS = 256
"""Calls that are under way at a time."""

LOOKS_FOR_LOSS = 0.25
"""Seconds between two looks whether the device of a call is gone."""

LEAVES_WITHIN = 10.0
"""Seconds that leaving a cluster without a head may take."""

LARGEST_SHARE = 0.4
"""Of the object store, that one plan may take."""


_FULL = (ObjectStoreFullError, OutOfDiskError, OutOfMemoryError)


@dataclass(slots=True, eq=False)
class HostCall:
    """A plan under way.

    Attributes:
        host: the actor that runs it, once it was asked to.
        stopped: whether nobody wants the answer any more.
    """

    host: Any = None
    stopped: bool = False


class Bridge:
    """Carries calls between a server and the actors.

    Args:
        channel: to the server.
        members: the devices.
        server: by which actors know this server.
    """

    def __init__(self, channel: Channel[Heard, Said], members: ClusterMembers, server: str) -> None:
        self._channel = channel
        self._members = members
        self._server = server
        self._blocks: dict[int, Array] = {}
        self._calls: dict[int, HostCall] = {}
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(THREADS, "opwire-call")

    def serve(self) -> None:
        """Does what the server says, until that ends."""
        try:
            while True:
                self._heed(self._channel.receive())
        except (EOFError, OSError):
            for number in list(self._calls):
                self._stop(number)

    def _heed(self, message: Said) -> None:
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
        except Exception as error:  # a defect, of which the server tells its client
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
        """What an actor answers.

        Raises:
            RayError: it is gone.
        """
        while True:
            try:
                return ray.get(answer, timeout=LOOKS_FOR_LOSS)
            except TimeoutError:
                if self._members.host(run.device) is None:
                    raise RayError("the device was given up") from None

    def _name(self, number: int) -> str:
        return f"{self._server}-{number}"


def _refusal(error: Exception) -> OverloadedError:
    what = type(error).__name__
    return OverloadedError(ProblemCode.MEMORY_FULL, f"the way to the cluster has no room left: {what}", retry_after=1)


def tell(channel: Channel[Heard, Said], message: Heard) -> None:
    """Says something to the server; one that is gone needs to know nothing."""
    try:
        channel.send(message)
    except OSError:
        return


def main(descriptor: str, address: str, store_bytes: str, cpu_device: str, folder: str) -> None:
    """Joins a cluster, and carries calls until the server ends or the cluster is lost.

    Args:
        descriptor: of the socket to the server.
        address, store_bytes, cpu_device, folder: see Options.
    """
    channel: Channel[Heard, Said] = Channel(socket.socket(fileno=int(descriptor)))
    try:
        with joined(address, int(store_bytes), folder) as place:
            channel.send(Joined(place.address, int(_store(place) * LARGEST_SHARE)))
            server = secrets.token_hex(8)
            members = ClusterMembers(lambda message: tell(channel, message), place.node, server, cpu_device)
            threading.Thread(target=_follow, args=(members,), name="opwire-nodes", daemon=True).start()
            threading.Thread(target=_listen, args=(members, channel), name="opwire-signs", daemon=True).start()
            Bridge(channel, members, server).serve()
    except NotJoined as error:
        tell(channel, Failed(str(error), isinstance(error, Refused)))
    os._exit(0)  # a call that Ray never answers would keep its thread, and so this process


def _store(place: BridgeLocation) -> float:
    """Bytes of the object store of the node that the bridge is attached to."""
    found = [node["Resources"] for node in ray.nodes() if node["NodeID"] == place.node]
    return float(found[0]["object_store_memory"]) if found else 0.0


def _follow(members: ClusterMembers) -> None:
    """Follows the nodes; without the head, the devices that are known go on."""
    while True:
        try:
            members.follow()
        except Exception as error:  # what Ray raises has no class in common
            sys.stderr.write(f"the head does not answer: {error}\n")
        time.sleep(LOOKS_EVERY)


def _listen(members: ClusterMembers, channel: Channel[Heard, Said]) -> None:
    """Asks the devices for signs of life; ends the bridge if the head has given none for long."""
    while not members.is_headless:
        try:
            members.listen()
        except Exception as error:  # what Ray raises has no class in common
            sys.stderr.write(f"a device cannot be asked for a sign of life: {error}\n")
        time.sleep(LOOKS_EVERY)
    channel.close()
    time.sleep(LEAVES_WITHIN)
    os._exit(3)
