"""Messages between a server and its bridge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, get_args


class NewBlock(NamedTuple):
    """The server has created a block of shared memory, whose file descriptor follows."""

    block: int
    size: int


class DropBlock(NamedTuple):
    """The server has released a block."""

    block: int


class Run(NamedTuple):
    """Requests that a device run a plan.

    Attributes:
        call: number by which other messages refer to this call.
        device: number of the device, see Up.
        plan: the plan as written by ``dump_plan``.
        block: number of the block with the inputs, to be overwritten by the outputs.
        sent: size of the inputs in bytes.
    """

    call: int
    device: int
    plan: bytes
    block: int
    sent: int


class Stop(NamedTuple):
    """Cancels a call."""

    call: int


class CallOutcome(Enum):
    """Outcomes of a call."""

    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"
    LOST = "lost"


class Done(NamedTuple):
    """A call has ended, and its block is free.

    Attributes:
        call: number of the call.
        outcome: how it ended.
        problem: cause of a failure: a problem document, or text for a bug.
    """

    call: int
    outcome: CallOutcome
    problem: Mapping[str, Any] | str | None = None


class Joined(NamedTuple):
    """The bridge has joined a cluster.

    Attributes:
        address: address of the cluster.
        largest: maximum size of a block that may be sent, in bytes.
    """

    address: str
    largest: int


class Failed(NamedTuple):
    """The bridge could not join, and ends.

    Attributes:
        reason: why.
        refused: whether retrying is futile until somebody changes a version or credentials.
    """

    reason: str
    refused: bool


class Up(NamedTuple):
    """A device is ready for work.

    Attributes:
        device: number of the device, never reused.
        name: name of the device.
        node: name of its node.
        is_local: whether it is on the server's machine.
        places: number of plans that it runs concurrently; None to let the server decide.
        described: the device's description of itself.
        operators: supported operators; None for all that any device supports.
        fixed: cost of an empty call, in seconds.
        per_byte: transport cost per byte, in seconds.
    """

    device: int
    name: str
    node: str
    is_local: bool
    places: int | None
    described: Mapping[str, Any]
    operators: Sequence[str] | None
    fixed: float
    per_byte: float


class Draining(NamedTuple):
    """A device completes its running work and accepts no more."""

    device: int


class Lost(NamedTuple):
    """A device is gone, along with its running work."""

    device: int
    reason: str


class Used(NamedTuple):
    """The current usage of a device, see Usage."""

    device: int
    memory: int
    memory_limit: int
    kernels: int


class Unused(NamedTuple):
    """The devices that cannot be used, and the reason for each."""

    reasons: Mapping[str, str]


ToBridge = NewBlock | DropBlock | Run | Stop
"""Messages from the server."""

FromBridge = Done | Joined | Failed | Up | Draining | Lost | Used | Unused
"""Messages from the bridge."""

CLASSES: frozenset[type] = frozenset({*get_args(ToBridge), *get_args(FromBridge), CallOutcome})
"""The classes of messages and their members."""
