"""Gathers from an input that is copied to contiguous memory first, so that each index selects a contiguous run."""

from __future__ import annotations

from dataclasses import replace

from opwire.check import Plan
from opwire.tensor import BufferTensorDesc

from ....execution import Arrays, Bound, Stop
from ...picking import PICKS, Picks
from ...views.view import View, copy
from ..run.job import Job
from ..run.pool import Find, Pool
from ..views.job import bind_steps, steps_of

LEAST_SHARE = 2
"""The input is packed if at least one in this many of its elements is gathered."""

SHORTEST_RUN = 4
"""Minimum number of contiguous elements worth gathering together."""


def packed(plan: Plan) -> Plan | None:
    """Returns the plan for a contiguous input, or None if that is not worth a copy."""
    source, output = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
    if output.element_count * LEAST_SHARE < source.element_count:
        return None
    tight = BufferTensorDesc(source.data_type, source.sizes, None)
    other = replace(plan, inputs={**plan.inputs, "InputTensor": tight})
    picks = PICKS[plan.operator.name]
    return other if _has_runs(picks(other)) and not _has_runs(picks(plan)) else None


def _has_runs(picks: Picks) -> bool:
    """Whether contiguous output elements with the same index are contiguous in the input."""
    return any(point.size >= SHORTEST_RUN and point[1:] == (0, 1, 1) for point in picks.points)


class PackedJob(Job):
    """Packs the input, then gathers.

    Args:
        desc: desc of the input.
        tight: desc of the packed input.
        gather: job of the plan on the packed input.
    """

    def __init__(self, desc: BufferTensorDesc, tight: BufferTensorDesc, gather: Job) -> None:
        self._gather = gather
        self._tight = tight
        self._bytes = desc.data_type.bits // 8 * desc.element_count
        self._copies = steps_of([copy(View.of(0, desc), View.of(1, tight))], desc.data_type.bits // 8)
        self._kernels = (*gather.kernels, *dict.fromkeys(step.kernel for step in self._copies))

    def scratch_bytes(self, threads: int) -> int:
        return self._bytes + self._gather.scratch_bytes(threads)

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        source = inputs["InputTensor"]
        tight = self._tight.allocate()[1]
        copied = bind_steps(self._copies, (source, tight), find, pool)
        gathered = self._gather.bind({**inputs, "InputTensor": tight}, outputs, find, pool)

        def run(stop: Stop) -> None:
            copied(stop)
            gathered(stop)

        return run
