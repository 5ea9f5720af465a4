"""Plans that the CPU device runs on the reference kernels."""

from __future__ import annotations

from dataclasses import dataclass

from opwire.check import Plan

from ....execution import Arrays, Stop
from ...reference import KERNELS
from .job import Job, ScratchBytes
from .pool import Find, Pool


@dataclass(frozen=True, slots=True)
class ReferenceJob(Job):
    """A plan for which no compiled kernel exists or pays off."""

    plan: Plan
    _scratch = ScratchBytes()  # the device accounts for the memory of exact arithmetic in every plan

    @property
    def method(self) -> str:
        """See ``Job.method``."""
        return "reference"

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        KERNELS[self.plan.operator.name](self.plan, inputs, outputs, stop)
