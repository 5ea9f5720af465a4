"""What a device is: it runs a checked plan on arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from opwire.check import Plan
from opwire.tensor import Array

Stop = Callable[[], bool]
"""Asked between pieces of work; True means that nobody wants the answer any more."""

Arrays = Mapping[str, Array]


class Stopped(Exception):
    """A device gave up a plan because ``stop()`` said so. The outputs hold nothing of use."""


class DeviceUnavailable(ValueError):
    """A device cannot be made on this machine; the message says why, in one line."""


class Device(Protocol):
    """Runs plans. ``run`` may be called from several threads at once.

    Attributes:
        name: by which requests choose it.
        inline_work: a plan of at most this much work takes less time than handing it to another thread.
    """

    name: str
    inline_work: int

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

    def describe(self) -> dict[str, object]:
        """What a user may want to know of the device, as JSON."""
        ...

    def close(self) -> None:
        """Ends the device; no ``run`` is under way or will follow."""
