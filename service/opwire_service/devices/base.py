"""What a device is: it runs a checked plan on arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from opwire.check import Plan
from opwire.tensor import Array
from opwire.wire import EncodedTensor

from ..execution import Arrays, Bound, Stop
from ..kernels.executable import EXECUTABLE

Inputs = Mapping[str, Array] | Mapping[str, EncodedTensor]
"""The tensors of a plan; base64 text only for a device that decodes."""


class DeviceUnavailable(ValueError):
    """A device cannot be made on this machine; the message says why, in one line."""


class DeviceLost(Exception):
    """A device went away with what it ran, which can be run again on another one: the message is its name."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a device uses at the moment.

    Attributes:
        memory: bytes of its own memory that accepted plans hold; 0 of a device that has none.
        memory_limit: bytes that they may hold.
        kernels: programs that are compiled and loaded.
    """

    memory: int = 0
    memory_limit: int = 0
    kernels: int = 0


class Device(Protocol):
    """Runs plans. ``run`` may be called from several threads at once.

    Attributes:
        name: by which requests choose it.
        inline_work: a plan of at most this much work takes less time than handing it to another thread.
        places: plans that it runs at the same time, or None if that is for the server to say.
        decodes: whether its inputs may be text, which it decodes to where it needs them.
        broken: why it is of no use any more, nor is the process that has it; None as long as it works.
    """

    name: str
    places: int | None = None
    decodes: bool = False
    broken: str | None = None

    @property
    def inline_work(self) -> int: ...

    def executes(self, operator: str) -> bool:
        """Whether it runs an operator type, given by its name without the prefix."""
        return operator in EXECUTABLE

    def visits(self, plan: Plan) -> int:
        """The element visits that a plan costs here.

        ``plan.work`` counts those of a plain loop. A device may share some among neighbours, and pays for what it does
        once for a line or an output as for so many visits more.
        """
        return plan.work

    def method(self, plan: Plan) -> str:
        """How a plan is computed here, where plans of an operator and a layout are computed in ways unlike in speed."""
        return ""

    def runs_inline(self, plan: Plan) -> bool:
        """Whether a plan, as things are now, takes less time than handing it to another thread."""
        return plan.work <= self.inline_work

    def run(self, plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """Computes the outputs of a plan.

        Args:
            plan: what to compute; it was checked, so the device holds no check of its own.
            inputs: for each input of the plan an array of shape ``sizes``, laid out as its desc says.
            outputs: for each output of the plan such an array to fill; elements between its strides stay as they are.
            stop: asked between pieces of work of at most some 10 ms.

        Raises:
            Stopped: ``stop()`` returned True.
        """

    def bind(self, plan: Plan, inputs: Arrays, outputs: Arrays) -> Bound:
        """Makes a plan ready to run on the same arrays any number of times, one after the other.

        Args:
            plan, inputs, outputs: as for ``run``.
        """
        return partial(self.run, plan, inputs, outputs)

    def admit(self, plan: Plan) -> AbstractContextManager[None]:
        """Holds what the plan needs of the device's own memory, for as long as the context lasts.

        Raises:
            LimitExceededError: it needs more than there is, or is more work than the device takes.
            OverloadedError: others hold too much.
        """
        return nullcontext()

    def scratch_bytes(self, plan: Plan) -> int:
        """The most memory of this process that running a plan takes besides its inputs and outputs.

        Small constant amounts, of a few hundred KiB, are not counted.
        """
        return 0

    def warm_up(self, plans: Iterable[Plan]) -> Iterator[None]:
        """Makes the kernels of plans ready; yields after each step of it. What needs no kernels is done at once."""
        return iter(())

    def usage(self) -> Usage:
        """What it uses at the moment."""
        return Usage()

    def describe(self) -> dict[str, object]:
        """What a user may want to know of the device, as JSON."""
        ...

    def close(self) -> None:
        """Ends the device; no ``run`` is under way or will follow."""
