"""The server's end of one bridge, from its start to its end."""

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
from .messages import CallOutcome, Done, DropBlock, Heard, Joined, NewBlock, Run, Said, Stop

PROGRAM = "import sys; from opwire_service.devices.ray.bridge import main; main(*sys.argv[1:])"

ENVIRONMENT = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",  # a node that a server starts has nothing to drain
    "RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL": "minor",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "20",
}
"""Of a bridge, unless the server's environment says something else."""

ENDS_WITHIN = 10.0
"""Seconds that a bridge has to leave its cluster."""

_LINES = 20

log = logging.getLogger("opwire")


def environment() -> dict[str, str]:
    """That of a process that uses Ray."""
    return {**ENVIRONMENT, **os.environ}


class Options(NamedTuple):
    """What a bridge is to do.

    Attributes:
        address: of the cluster: auto, local or HOST:PORT.
        store_bytes: of the object store of a node that it starts.
        cpu_device: module and class of the device of a node's processors.
        folder: for what Ray leaves on disk of such a node.
    """

    address: str
    store_bytes: int
    cpu_device: str
    folder: str


class Link:
    """Starts a bridge, and carries calls over it.

    Attributes:
        blocks: see Carrier.
        largest: see Carrier; 0 until the bridge has joined.
        address: of the cluster, once it has.
    """

    def __init__(self, options: Options) -> None:
        ours, theirs = socket.socketpair()
        self._channel: Channel[Said, Heard] = Channel(ours)
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
                start_new_session=True,  # a Ctrl-C is for the server alone, which lets accepted work end
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

    def messages(self) -> Iterator[Heard]:
        """What the bridge says, until it ends; what concerns calls is seen to here."""
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
        if not numbers:  # it has ended meanwhile
            self.blocks.give_back(call.block)
        for number in numbers:
            self._send(Stop(number))

    def close(self) -> int:
        """Ends the bridge. Returns its exit code."""
        self._channel.close()
        try:
            code = self._process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._printer.join(1.0)
        return code

    @property
    def last_words(self) -> str:
        """What the bridge, or Ray, printed last."""
        return self._lines[-1] if self._lines else "it printed nothing"

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

    def _send(self, message: Said) -> None:
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
