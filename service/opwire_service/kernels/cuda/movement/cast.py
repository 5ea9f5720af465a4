"""CAST: a copy between views that converts each element on the way."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opwire.check import Plan

from ...views.movements import Movement
from ...views.view import View, copy
from ..job import LOAD_BYTES, TYPES, CudaJob, CudaMemory, KernelLaunch, Program
from .view import BATCH, COPY_HEAD, CopyJob, Units
from .walk import THREADS, CertainJob, Part, count_of, depth_macro, on_card, walk_type, write_walk


class CastJob(CertainJob):
    """The conversion of one type to another one."""

    def __init__(self, plan: Plan) -> None:
        source, target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
        whole = copy(View.of(0, source), View.of(1, target))
        units = Units.of(whole, LOAD_BYTES * 8 // max(source.data_type.bits, target.data_type.bits))
        parameter = np.zeros(1, [*COPY_HEAD, ("walk", walk_type(2))])
        write_walk(units.loops, parameter["walk"][0])
        types = ("SOURCE", TYPES[source.data_type]), ("TARGET", TYPES[target.data_type]), ("LANES", units.lanes)
        program = Program(
            ("scalars", "movement/walk", "movement/cast", "movement/view"),
            (("STEPS", 2), depth_macro(units.loops), ("FILL", 0), ("BAND", 0), *types),
        )
        self._part = Part(program, "copy_units", parameter, count_of(units.loops), THREADS * BATCH)
        self.programs = (program,)

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        return self._part.launches(memory.inputs["InputTensor"], memory.outputs["OutputTensor"])


def whole_copy(plan: Plan) -> CopyJob:
    """The job of a plan that copies its input as it is."""
    placed = on_card(plan)
    ((name, source),), ((into, target),) = placed.inputs.items(), placed.outputs.items()
    phases = [[copy(View.of(0, source), View.of(1, target))]]
    return CopyJob(Movement(source.data_type.bits // 8, phases), (name,), (into,))


def job(plan: Plan, processors: int) -> CudaJob:
    """The job of a plan of CAST."""
    if plan.inputs["InputTensor"].data_type is plan.outputs["OutputTensor"].data_type:
        return whole_copy(plan)
    return CastJob(on_card(plan))


JOBS = {"CAST": job}
