"""Interface of the devices, which run checked plans on arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from opwire.check import Plan
from opwire.tensor import Array
from opwire.wire import EncodedTensor

from ..execution import Arrays, Stop
from ..kernels.executable import EXECUTABLE

Inputs = Mapping[str, Array] | Mapping[str, EncodedTensor]
"""The input tensors of a plan, as arrays, or as base64 text for a device that decodes it."""


class DeviceUnavailable(ValueError):
    """A device is not available on this machine; the message says why, in one line."""


class DeviceLost(Exception):
    """A device was lost while running a plan, which can be rerun on another one. The message is the device's name."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Current usage of a device.

    Attributes:
        memory: device memory held by accepted plans, in bytes; 0 for a device without memory of its own.
        memory_limit: limit of that memory, in bytes.
        kernels: number of compiled and loaded programs.
    """

    memory: int = 0
    memory_limit: int = 0
    kernels: int = 0


class Device(Protocol):
    """Runs plans. ``run`` may be called from several threads concurrently.

    Attributes:
        name: name by which requests select it.
        inline_work: maximum work of a plan that takes less time than handing it to another thread.
        places: number of plans that it runs concurrently, or None to let the server decide.
        decodes: whether it accepts base64 inputs and decodes them itself.
        broken: why it has failed for good, so that its process must be replaced; None while it works.
    """

    name: str
    places: int | None = None
    decodes: bool = False
    broken: str | None = None

    @property
    def inline_work(self) -> int: ...

    def executes(self, operator: str) -> bool:
        """Whether it supports an operator type, given by its name without the prefix."""
        return operator in EXECUTABLE

    def visits(self, plan: Plan) -> int:
        """Returns the cost of a plan on this device, in element visits.

        ``plan.work`` counts the visits of a naive loop. A device may share visits among neighbors, and counts fixed
        costs per line or output as additional visits.
        """
        return plan.work

    def method(self, plan: Plan) -> str:
        """Returns the algorithm for a plan, where plans of one operator and layout use ones that differ in speed."""
        return ""

    def runs_inline(self, plan: Plan) -> bool:
        """Whether a plan currently takes less time than handing it to another thread."""
        return plan.work <= self.inline_work

    def run(self, plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """Computes the outputs of a plan.

        Args:
            plan: the plan; it has been checked, so the device checks nothing.
            inputs: an array of shape ``sizes`` in the layout of the desc, for each input of the plan.
            outputs: such an array to fill for each output of the plan; elements between its strides stay unchanged.
            stop: polled between pieces of work of at most some 10 ms.

        Raises:
            Stopped: ``stop()`` returned True.
        """

    def admit(self, plan: Plan) -> AbstractContextManager[None]:
        """Reserves device memory for a plan for the duration of the context.

        Raises:
            LimitExceededError: the plan needs more memory than there is, or is more work than the device accepts.
            OverloadedError: other plans hold too much memory.
        """
        return nullcontext()

    def scratch_bytes(self, plan: Plan) -> int:
        """Returns the peak memory of this process for running a plan besides its inputs and outputs, in bytes.

        Small constant amounts, of a few hundred KiB, are not counted.
        """
        return 0

    def warm_up(self, plans: Iterable[Plan]) -> Iterator[None]:
        """Prepares the kernels of plans and yields after each step; yields nothing on a device without kernels."""
        return iter(())

    def usage(self) -> Usage:
        """Returns its current usage."""
        return Usage()

    def describe(self) -> dict[str, object]:
        """Returns a description of the device for users, as JSON."""
        ...

    def close(self) -> None:
        """Closes the device. No ``run`` may be in progress or follow."""
