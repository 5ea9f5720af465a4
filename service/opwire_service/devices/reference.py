"""The reference device: exact and plain, slow and obviously right. The other devices are tested against it."""

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
"""Element visits that take as long as what is done once for each element of an output."""

INLINE_WORK = 16
"""Element visits that take less time than a change of threads."""

MOST_VISITS = 1 << 29
"""Element visits of the largest plan, outputs counted as such: a minute or two of sums."""

CHUNK_BYTES = 2 << 20
"""What exact arithmetic on one chunk of elements takes at most, whatever the plan."""


class ReferenceDevice(Device):
    """Runs plans in numpy and Python integers, on the calling thread."""

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
            refuse_too_much(each)
        return nullcontext()

    def scratch_bytes(self, plan: Plan) -> int:
        """See ``Device.scratch_bytes``."""
        return CHUNK_BYTES + (GraphMemory(plan).size if plan.operator is GRAPH else 0)

    def describe(self) -> dict[str, object]:
        """See ``Device.describe``."""
        return {
            "name": self.name,
            "kind": "reference",
            "python": platform.python_version(),
            "numpy": np.__version__,
        }

    def close(self) -> None:
        """There is nothing to end."""


def visits_of(plan: Plan) -> int:
    """What a plan costs here: its work, and what is done once for each element of the output."""
    return plan.work + VISITS_PER_TURN * turns_of(plan)


def refuse_too_much(plan: Plan) -> None:
    """Refuses what would take far longer than anybody waits.

    Raises:
        LimitExceededError: the plan is more work than the reference kernels take.
    """
    visits = visits_of(plan)
    if visits > MOST_VISITS:
        raise LimitExceededError(
            ProblemCode.WORK_TOO_LARGE,
            f"{visits} element visits, where each of the {turns_of(plan)} elements that are computed one by one "
            f"counts as {VISITS_PER_TURN}; the reference device takes at most {MOST_VISITS}",
            limit=MOST_VISITS,
            size=visits,
        )
