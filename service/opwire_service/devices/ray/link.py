"""The server's end of a bridge, which it starts, communicates with and stops."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from ..base import DeviceLost
from .blocks import SharedBlock, SharedBlocks
from .channel import Channel
from .device import RemoteCall
from .messages import CallOutcome, Done, DropBlock, FromBridge, Joined, NewBlock, Run, Stop, ToBridge

PROGRAM = "import sys; from opwire_service.devices.ray.bridge import main; main(*sys.argv[1:])"

ENVIRONMENT = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",  # a node started by a server has nothing to drain
    "RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL": "minor",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "20",
}
"""Environment variables of a bridge; those of the server take precedence."""

ENDS_WITHIN = 10.0
"""Maximum time for a bridge to leave its cluster, in seconds."""

_LINES = 20

log = logging.getLogger("opwire")


def environment() -> dict[str, str]:
    """Returns the environment for a process that uses Ray."""
    return {**ENVIRONMENT, **os.environ}


class Options(NamedTuple):
    """Options of a bridge.

    Attributes:
        address: address of the cluster: ``auto``, ``local`` or HOST:PORT.
        store_bytes: size of the object store of a node that it starts, in bytes.
        cpu_device: module and class of the CPU device of nodes.
        folder: folder for the files of a node that it starts.
    """

    address: str
    store_bytes: int
    cpu_device: str
    folder: str


class Link:
    """Starts a bridge and transports calls over it.

    Attributes:
        blocks: see Carrier.
        largest: see Carrier; 0 until the bridge has joined.
        address: address of the cluster; as given until the bridge has joined.
    """

    def __init__(self, options: Options) -> None:
        ours, theirs = socket.socketpair()
        self._channel: Channel[ToBridge, FromBridge] = Channel(ours)
        command = [sys.executable, "-c", PROGRAM, str(theirs.fileno()), *map(str, options)]
        with theirs:
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,  # Ctrl-C must only reach the server, which completes accepted work
            )
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._printer = threading.Thread(target=self._print, name="opwire-bridge-log", daemon=True)
        self._printer.start()
        self.blocks = SharedBlocks(self._announce, self._drop)
        self.largest = 0
        self.address = options.address
        self._calls: dict[int, RemoteCall] = {}
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._is_open = True

    def messages(self) -> Iterator[FromBridge]:
        """Yields the messages of the bridge until it ends. Those about calls are handled here."""
        try:
            while True:
                message = self._channel.receive()
                if isinstance(message, Done):
                    self._ended(message)
                    continue
                if isinstance(message, Joined):
                    self.largest, self.address = message.largest, message.address
                yield message
        except (EOFError, OSError):
            self._fail()

    def start(self, device: int, plan: bytes, block: SharedBlock, sent: int) -> RemoteCall:
        """See ``Carrier.start``."""
        call, number = RemoteCall(device, block), next(self._numbers)
        with self._lock:
            if not self._is_open:
                raise DeviceLost("the cluster")
            self._calls[number] = call
        try:
            self._channel.send(Run(number, device, plan, block.number, sent))
        except OSError as error:
            with self._lock:
                self._calls.pop(number, None)
            raise DeviceLost("the cluster") from error
        return call

    def stop(self, call: RemoteCall) -> None:
        """See ``Carrier.stop``."""
        with self._lock:
            call.abandoned = True
            numbers = [number for number, each in self._calls.items() if each is call]
        if not numbers:  # it has just ended
            self.blocks.give_back(call.block)
        for number in numbers:
            self._send(Stop(number))

    def close(self) -> int:
        """Stops the bridge and returns its exit code."""
        self._channel.close()
        try:
            code = self._process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._printer.join(1.0)
        return code

    @property
    def last_line(self) -> str:
        """The last line printed by the bridge or Ray."""
        return self._lines[-1] if self._lines else "no output"

    def _ended(self, done: Done) -> None:
        with self._lock:
            call = self._calls.pop(done.call, None)
            if call is None:
                return
            call.done = done
            abandoned = call.abandoned
        call.ended.set()
        if abandoned:
            self.blocks.give_back(call.block)

    def _fail(self) -> None:
        with self._lock:
            self._is_open = False
            numbers = list(self._calls)
        for number in numbers:
            self._ended(Done(number, CallOutcome.LOST))

    def _announce(self, block: SharedBlock, descriptor: int) -> None:
        self._channel.send(NewBlock(block.number, block.size), descriptor)

    def _drop(self, block: SharedBlock) -> None:
        self._send(DropBlock(block.number))

    def _send(self, message: ToBridge) -> None:
        try:
            self._channel.send(message)
        except OSError:
            log.debug("the bridge to the cluster is gone")

    def _print(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                if text := line.strip():
                    self._lines.append(text)
                    log.debug("ray: %s", text)
