"""What a server and its bridge say to each other, in this order or that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple


class NewBlock(NamedTuple):
    """The server has made shared memory of so many bytes; its descriptor follows."""

    block: int
    size: int


class DropBlock(NamedTuple):
    """The server uses a block no more."""

    block: int


class Run(NamedTuple):
    """A device shall run a plan.

    Attributes:
        call: by which answers name it.
        device: the number of the device, see Up.
        plan: as ``dump_plan`` writes it.
        block: with the inputs in it; the outputs come there.
        sent: bytes of the inputs.
    """

    call: int
    device: int
    plan: bytes
    block: int
    sent: int


class Stop(NamedTuple):
    """Nobody wants the answer of a call any more."""

    call: int


class CallOutcome(Enum):
    """How a call ended."""

    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"
    LOST = "lost"


class Done(NamedTuple):
    """A call has ended, and its block is free.

    Attributes:
        problem: of a call that failed: why, as the members of a problem, or as text for a defect.
    """

    call: int
    outcome: CallOutcome
    problem: Mapping[str, Any] | str | None = None


class Joined(NamedTuple):
    """The bridge belongs to a cluster.

    Attributes:
        largest: bytes of the largest block that may be sent.
    """

    address: str
    largest: int


class Failed(NamedTuple):
    """The bridge could not join, and ends.

    Attributes:
        refused: whether that is so until somebody changes a version.
    """

    reason: str
    refused: bool


class Up(NamedTuple):
    """A device takes work.

    Attributes:
        device: its number, never used again.
        node: by name.
        at_home: whether it is one of the machine that the server is on.
        places: plans that it runs at the same time; None if that is for the server to say.
        described: what it says of itself.
        operators: that it runs; None for all that some device runs.
        fixed: seconds of a call that does nothing.
        per_byte: seconds for each byte on the way.
    """

    device: int
    name: str
    node: str
    at_home: bool
    places: int | None
    described: Mapping[str, Any]
    operators: Sequence[str] | None
    fixed: float
    per_byte: float


class Draining(NamedTuple):
    """A device ends what it runs, and takes nothing more."""

    device: int


class Lost(NamedTuple):
    """A device is gone, with what it ran."""

    device: int
    reason: str


class Used(NamedTuple):
    """What a device uses at the moment, see Usage."""

    device: int
    memory: int
    memory_limit: int
    kernels: int


class Unused(NamedTuple):
    """The devices that cannot be used, by name, with the reason."""

    reasons: Mapping[str, str]


Said = NewBlock | DropBlock | Run | Stop
"""By the server."""

Heard = Done | Joined | Failed | Up | Draining | Lost | Used | Unused
"""From the bridge."""
