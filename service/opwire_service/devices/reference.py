"""The reference device: exact and plain, slow and obviously right. The other devices are tested against it."""

from __future__ import annotations

import platform

import numpy as np

from opwire.check import Plan

from ..execution import Arrays, Stop
from ..kernels.reference import KERNELS
from .base import Device


class ReferenceDevice(Device):
    """Runs plans in numpy and Python integers, on the calling thread."""

    name = "reference"

    @property
    def inline_work(self) -> int:
        """See ``Device``."""
        return 16

    def run(self, plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``Device.run``."""
        KERNELS[plan.operator.name](plan, inputs, outputs, stop)

    def describe(self) -> dict[str, object]:
        """See ``Device.describe``."""
        return {
            "name": self.name,
            "kind": "reference",
            "python": platform.python_version(),
            "numpy": np.__version__,
            "operators": list(KERNELS),
        }

    def close(self) -> None:
        """There is nothing to end."""
