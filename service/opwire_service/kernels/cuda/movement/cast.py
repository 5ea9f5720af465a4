"""CAST: a copy between views that converts each element."""

from __future__ import annotations

from collections.abc import Iterator

from opwire.check import Plan

from ...views.movements import Movement
from ...views.view import View, copy
from ..job import LOAD_BYTES, TYPES, BaseJob, Card, CudaJob, CudaMemory, KernelLaunch
from .view import CudaCopyJob, Units, strided_part
from .walk import on_card


class CudaCastJob(BaseJob):
    """The conversion from one type to another."""

    def __init__(self, plan: Plan) -> None:
        source, target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
        whole = copy(View.of(0, source), View.of(1, target))
        units = Units.of(whole, LOAD_BYTES * 8 // max(source.data_type.bits, target.data_type.bits))
        types = ("SOURCE", TYPES[source.data_type]), ("TARGET", TYPES[target.data_type]), ("LANES", units.lanes)
        self._part = strided_part(units.loops, ("scalars", "movement/walk", "movement/cast"), types)
        self.programs = (self._part.program,)

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        return self._part.launches(memory.inputs["InputTensor"], memory.outputs["OutputTensor"])


def whole_copy(plan: Plan) -> CudaCopyJob:
    """Returns the job of a plan that copies its input unchanged."""
    placed = on_card(plan)
    ((name, source),), ((into, target),) = placed.inputs.items(), placed.outputs.items()
    phases = [[copy(View.of(0, source), View.of(1, target))]]
    return CudaCopyJob(Movement(source.data_type.bits // 8, phases), (name,), (into,))


def job(plan: Plan, card: Card) -> CudaJob:
    """Returns the job of a CAST plan."""
    if plan.inputs["InputTensor"].data_type is plan.outputs["OutputTensor"].data_type:
        return whole_copy(plan)
    return CudaCastJob(on_card(plan))


JOBS = {"CAST": job}
