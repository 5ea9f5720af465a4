"""A device of a node, as the server sees it."""

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

LOOKS_EVERY = 0.01
"""Seconds between two looks at ``stop`` while a node works."""

PLANS = 256
"""Plans that are kept as bytes: those used last."""


@dataclass(slots=True, eq=False)
class RemoteCall:
    """A plan under way on a node.

    Attributes:
        block: with its tensors.
        done: how it ended, once it has.
        abandoned: nobody waits for it any more, so its block goes back when it has ended.
    """

    device: int
    block: SharedBlock
    done: Done | None = None
    abandoned: bool = False
    ended: Event = field(default_factory=Event)


class Carrier(Protocol):
    """Carries calls to nodes and back.

    Attributes:
        blocks: of shared memory.
        largest: bytes of a block that may be sent.
    """

    blocks: SharedBlocks
    largest: int

    def start(self, device: int, plan: bytes, block: SharedBlock, sent: int) -> RemoteCall:
        """Has a device run a plan.

        Raises:
            DeviceLost: the bridge is gone.
        """
        ...

    def stop(self, call: RemoteCall) -> None:
        """Gives a call up. Its block goes back when it has ended."""
        ...


class RemoteDevice(Device):
    """Runs plans on a device of another process, most likely on another machine.

    Args:
        up: what is known of it.
        carrier: of its calls.

    Attributes:
        number: of the device on its bridge.
        node: the name of its node.
        at_home: whether it is one of the machine that the server is on.
        fixed: seconds of a call that does nothing.
        per_byte: seconds for each byte on the way.
    """

    def __init__(self, up: Up, carrier: Carrier) -> None:
        self.name = up.name
        self.places = up.places
        self.number = up.device
        self.node = up.node
        self.at_home = up.at_home
        self.fixed = up.fixed
        self.per_byte = up.per_byte
        self.used = Usage()
        self._described: Mapping[str, Any] = up.described
        self._operators = None if up.operators is None else frozenset(up.operators)
        self._carrier = carrier
        self._dump = lru_cache(PLANS)(dump_plan)

    @property
    def inline_work(self) -> int:
        """Nothing: a node is always further away."""
        return 0

    def executes(self, operator: str) -> bool:
        """See ``Device.executes``; a graph, if it runs all of its operators."""
        if operator == GRAPH.name:
            return True
        return super().executes(operator) and (self._operators is None or operator in self._operators)

    def runs_inline(self, plan: Plan) -> bool:
        """See ``Device.runs_inline``."""
        return False

    def admit(self, plan: Plan) -> AbstractContextManager[None]:
        """See ``Device.admit``: both ways of a plan have to go through the object store."""
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
            DeviceLost: the node went away; the outputs hold nothing of use.
            OpwireError: what the node's device raises.
        """
        try:
            block = self._carrier.blocks.take(sent_bytes(plan))
        except OSError as error:
            raise DeviceLost(self.name) from error
        with self._returned(block):
            pack(plan.inputs, inputs, block.memory, stop)
        call = self._carrier.start(self.number, self._dump(plan), block, BlockLayout.of(plan.inputs).size)
        while not call.ended.wait(LOOKS_EVERY):
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
        """Gives a block back if an error comes before it is sent."""
        try:
            yield
        except BaseException:
            self._carrier.blocks.give_back(block)
            raise

    def _settle(self, call: RemoteCall) -> None:
        done = call.done
        if done is None or done.outcome in (CallOutcome.LOST, CallOutcome.STOPPED):  # which nobody here has asked for
            raise DeviceLost(self.name)
        if done.outcome is CallOutcome.FAILED:
            if isinstance(done.problem, Mapping):
                raise from_problem(done.problem)
            raise InternalError(ProblemCode.INTERNAL_ERROR, f"{self.name} failed: {done.problem}")

    def usage(self) -> Usage:
        """See ``Device.usage``; it is as old as the node's last sign of life."""
        return self.used

    def describe(self) -> dict[str, object]:
        """See ``Device.describe``."""
        transfer = {"call_us": round(self.fixed * 1e6), "ns_per_byte": round(self.per_byte * 1e9, 3)}
        return {**self._described, "name": self.name, "node": self.node, "transfer": transfer}

    def close(self) -> None:
        """There is nothing to end: other servers may use the device too."""


def sent_bytes(plan: Plan) -> int:
    """Bytes of the block that a plan needs: its inputs, and then its outputs in their place."""
    return max(BlockLayout.of(plan.inputs).size, BlockLayout.of(plan.outputs).size)
