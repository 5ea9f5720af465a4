"""NONZERO_COORDINATES: counts tile by tile, then writes each tile after the previous ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opwire.check import Plan

from ..job import BaseJob, Card, CudaJob, CudaMemory, KernelLaunch, Program
from ..structures import constant, structure
from .view import UNITS
from .walk import PIECE, THREADS, SplitLaunch, depth_macro, merged, on_card, write_walk

SHARE = constant("SHARE", "movement/nonzero")
"""Elements examined, and numbers cleared, per thread."""

_NONZERO = structure("Nonzero", "movement/walk", "movement/nonzero", STEPS=1)


class CudaNonzeroJob(BaseJob):
    """The coordinates of nonzero elements, and their number."""

    def __init__(self, plan: Plan) -> None:
        source, rows = plan.inputs["InputTensor"], plan.outputs["OutputCoordinatesTensor"]
        columns = rows.sizes[-1]
        tiles = -(-source.element_count // (THREADS * SHARE))
        loops = merged(zip(source.sizes, source.element_strides, strict=True), 1)
        task = np.zeros(1, _NONZERO)
        task["elements"], task["tiles"], task["columns"] = source.element_count, tiles, columns
        task["row_step"], task["column_step"] = rows.element_strides[-2:]
        write_walk(loops, task["walk"][0])
        write_walk([(size, 0) for size in source.sizes], task["coordinates"][0])
        data_type = source.data_type
        macros = ("UNIT", UNITS[data_type.bits // 8]), ("REAL", int(data_type.is_float)), ("STEPS", 1)
        program = Program(
            ("scalars", "movement/walk", "movement/plain", "movement/nonzero"), (*macros, depth_macro(loops))
        )
        self.programs = (program,)
        at_once = PIECE // (THREADS * SHARE)
        self._parts = (
            SplitLaunch(program, "count_tiles", task, tiles, 1, at_once),
            SplitLaunch(program, "sum_tiles", task, 1, 1),
            SplitLaunch(program, "write_rows", task, tiles, 1, at_once),
            SplitLaunch(program, "clear_rows", task, rows.sizes[-2] * columns, THREADS * SHARE),
        )
        self.scratch_bytes = 4 * tiles

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        rows, total = memory.outputs["OutputCoordinatesTensor"], memory.outputs["OutputCountTensor"]
        for part in self._parts:
            yield from part.launches(memory.inputs["InputTensor"], memory.scratch, rows, total)


def job(plan: Plan, card: Card) -> CudaJob:
    """Returns the job of a NONZERO_COORDINATES plan."""
    return CudaNonzeroJob(on_card(plan))


JOBS = {"NONZERO_COORDINATES": job}
