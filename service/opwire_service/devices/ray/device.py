"""A device of a node, as seen by the server."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Event
from typing import Any, Protocol

from opwire.check import Plan
from opwire.errors import InternalError, LimitExceededError, ProblemCode, from_problem
from opwire.graph import GRAPH

from ...execution import Arrays, Stop, Stopped
from ..base import Device, DeviceLost, Usage
from .blocks import SharedBlock, SharedBlocks, block_size
from .messages import CallOutcome, Done, Up
from .packing import BlockLayout, dump_plan, pack, unpack

POLL_SECONDS = 0.01
"""Interval at which ``stop`` is polled while a node works, in seconds."""

PLANS = 256
"""Size of the LRU cache of serialized plans."""


@dataclass(slots=True, eq=False)
class RemoteCall:
    """A plan running on a node.

    Attributes:
        device: number of the device.
        block: block with its tensors.
        done: its outcome, once it has ended.
        abandoned: whether nobody waits for it, so that its block is returned to the pool when it ends.
        ended: set when it has ended.
    """

    device: int
    block: SharedBlock
    done: Done | None = None
    abandoned: bool = False
    ended: Event = field(default_factory=Event)


class Carrier(Protocol):
    """Transport of calls to nodes.

    Attributes:
        blocks: pool of shared memory.
        largest: maximum size of a block that may be sent, in bytes.
    """

    blocks: SharedBlocks
    largest: int

    def start(self, device: int, plan: bytes, block: SharedBlock, sent: int) -> RemoteCall:
        """Starts a plan on a device.

        Args:
            device: number of the device.
            plan: the serialized plan.
            block: block with the inputs, to be overwritten by the outputs.
            sent: size of the inputs in bytes.

        Raises:
            DeviceLost: the bridge is gone.
        """
        ...

    def stop(self, call: RemoteCall) -> None:
        """Abandons a call. Its block is returned to the pool when it ends."""
        ...


class RemoteDevice(Device):
    """Runs plans on a device of another process, usually on another machine.

    Args:
        up: message that announced the device.
        carrier: transport of its calls.

    Attributes:
        number: number of the device in its bridge.
        node: name of its node.
        is_local: whether it is on the server's machine.
        fixed: cost of an empty call, in seconds.
        per_byte: transport cost per byte, in seconds.
        used: usage as last reported.
    """

    def __init__(self, up: Up, carrier: Carrier) -> None:
        self.name = up.name
        self.places = up.places
        self.number = up.device
        self.node = up.node
        self.is_local = up.is_local
        self.fixed = up.fixed
        self.per_byte = up.per_byte
        self.used = Usage()
        self._described: Mapping[str, Any] = up.described
        self._operators = None if up.operators is None else frozenset(up.operators)
        self._carrier = carrier
        self._dump = lru_cache(PLANS)(dump_plan)

    @property
    def inline_work(self) -> int:
        """Zero, as a remote call is never faster than a thread switch."""
        return 0

    def executes(self, operator: str) -> bool:
        """See ``Device.executes``. Graphs are supported; their operators are checked individually."""
        if operator == GRAPH.name:
            return True
        return super().executes(operator) and (self._operators is None or operator in self._operators)

    def runs_inline(self, plan: Plan) -> bool:
        """See ``Device.runs_inline``."""
        return False

    def admit(self, plan: Plan) -> AbstractContextManager[None]:
        """See ``Device.admit``. Inputs and outputs must fit Ray's object store."""
        size = sent_bytes(plan)
        if size > self._carrier.largest:
            message = f"{size} bytes of tensors; {self.name} takes at most {self._carrier.largest}"
            raise LimitExceededError(ProblemCode.TENSOR_TOO_LARGE, message, limit=self._carrier.largest, size=size)
        return nullcontext()

    def scratch_bytes(self, plan: Plan) -> int:
        """See ``Device.scratch_bytes``."""
        return block_size(sent_bytes(plan))

    def run(self, plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``Device.run``.

        Raises:
            DeviceLost: the node was lost; the content of the outputs is undefined.
            OpwireError: the error raised by the node's device.
        """
        try:
            block = self._carrier.blocks.take(sent_bytes(plan))
        except OSError as error:
            raise DeviceLost(self.name) from error
        with self._returned(block):
            pack(plan.inputs, inputs, block.memory, stop)
        call = self._carrier.start(self.number, self._dump(plan), block, BlockLayout.of(plan.inputs).size)
        while not call.ended.wait(POLL_SECONDS):
            if stop():
                self._carrier.stop(call)
                raise Stopped
        try:
            self._settle(call)
            unpack(plan.outputs, block.memory, outputs, stop)
        finally:
            self._carrier.blocks.give_back(block)

    @contextmanager
    def _returned(self, block: SharedBlock) -> Generator[None]:
        """Returns a block to the pool if an error occurs before it is sent."""
        try:
            yield
        except BaseException:
            self._carrier.blocks.give_back(block)
            raise

    def _settle(self, call: RemoteCall) -> None:
        done = call.done
        if done is None or done.outcome in (CallOutcome.LOST, CallOutcome.STOPPED):  # not stopped by this server
            raise DeviceLost(self.name)
        if done.outcome is CallOutcome.FAILED:
            if isinstance(done.problem, Mapping):
                raise from_problem(done.problem)
            raise InternalError(ProblemCode.INTERNAL_ERROR, f"{self.name} failed: {done.problem}")

    def usage(self) -> Usage:
        """See ``Device.usage``. As of the node's last heartbeat."""
        return self.used

    def describe(self) -> dict[str, object]:
        """See ``Device.describe``."""
        transfer = {"call_us": round(self.fixed * 1e6), "ns_per_byte": round(self.per_byte * 1e9, 3)}
        return {**self._described, "name": self.name, "node": self.node, "transfer": transfer}

    def close(self) -> None:
        """Does nothing, as other servers may use the device too."""


def sent_bytes(plan: Plan) -> int:
    """Returns the size of the block for a plan, in bytes: its inputs, which are then overwritten by its outputs."""
    return max(BlockLayout.of(plan.inputs).size, BlockLayout.of(plan.outputs).size)
