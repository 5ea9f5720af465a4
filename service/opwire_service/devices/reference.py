"""The reference device: exact, simple and slow. The other devices are tested against it."""

from __future__ import annotations

import platform
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from opwire.check import Plan
from opwire.errors import LimitExceededError, ProblemCode
from opwire.graph import GRAPH, operator_plans

from ..execution import Arrays, Stop
from ..kernels.graph import GraphMemory
from ..kernels.reference import KERNELS, turns_of
from .base import Device

VISITS_PER_TURN = 512
"""Fixed cost per output element that is computed individually, in element visits."""

INLINE_WORK = 16
"""Number of element visits that take less time than a thread switch."""

MAX_VISITS = 1 << 29
"""Maximum cost of a plan in element visits, fixed costs included: a minute or two of summation."""

CHUNK_BYTES = 2 << 20
"""Maximum memory for exact arithmetic on a chunk of elements, in bytes."""


class ReferenceDevice(Device):
    """Runs plans with NumPy and Python integers on the calling thread."""

    name = "reference"

    @property
    def inline_work(self) -> int:
        """See ``Device``."""
        return INLINE_WORK

    def run(self, plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``Device.run``."""
        KERNELS[plan.operator.name](plan, inputs, outputs, stop)

    def visits(self, plan: Plan) -> int:
        """See ``Device.visits``."""
        return sum(map(visits_of, operator_plans(plan)))

    def admit(self, plan: Plan) -> AbstractContextManager[None]:
        """See ``Device.admit``."""
        for each in operator_plans(plan):
            refuse_excessive_work(each)
        return nullcontext()

    def scratch_bytes(self, plan: Plan) -> int:
        """See ``Device.scratch_bytes``."""
        return CHUNK_BYTES + (GraphMemory(plan).size if plan.operator is GRAPH else 0)

    def describe(self) -> dict[str, object]:
        """See ``Device.describe``."""
        return {"name": self.name, "kind": "reference", "python": platform.python_version(), "numpy": np.__version__}

    def close(self) -> None:
        """Does nothing."""


def visits_of(plan: Plan) -> int:
    """Returns the cost of a plan in element visits: its work and the fixed costs per output element."""
    return plan.work + VISITS_PER_TURN * turns_of(plan)


def refuse_excessive_work(plan: Plan) -> None:
    """Refuses plans that would take unreasonably long.

    Raises:
        LimitExceededError: the plan is more work than the reference kernels accept.
    """
    visits = visits_of(plan)
    if visits > MAX_VISITS:
        raise LimitExceededError(
            ProblemCode.WORK_TOO_LARGE,
            f"{visits} element visits, including {VISITS_PER_TURN} for each of {turns_of(plan)} elements computed "
            f"individually; the reference device takes at most {MAX_VISITS}",
            limit=MAX_VISITS,
            size=visits,
        )
