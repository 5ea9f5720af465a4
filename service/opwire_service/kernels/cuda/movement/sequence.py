"""FILL_VALUE_SEQUENCE: computes each element from its index, rounded once."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

import numpy as np

from opwire.check import Plan
from opwire.tensor import packed_strides

from ..job import LOAD_BYTES, TYPES, BaseJob, Card, CudaJob, CudaMemory, KernelLaunch, Program
from ..structures import constant, structure
from .walk import THREADS, SplitLaunch, count_of, depth_macro, merged, on_card, write_walk

BATCH = constant("BATCH", "movement/sequence")
"""Items per thread."""

_SEQUENCE = structure("Sequence", "movement/walk", "movement/sequence", STEPS=1)


class CudaSequenceJob(BaseJob):
    """The elements of a sequence."""

    def __init__(self, plan: Plan) -> None:
        target, attributes = plan.outputs["OutputTensor"], plan.attributes
        data_type = target.data_type
        numbers = zip(target.element_strides, target.sizes, packed_strides(target.sizes), strict=True)
        loops = merged((loop for _, *loop in sorted(numbers, reverse=True)), 1)
        *outer, (size, step) = loops
        lanes = gcd(LOAD_BYTES * 8 // data_type.bits, size) if step == 1 else 1
        loops = merged([*outer, (size // lanes, step * lanes)], 1)
        task = np.zeros(1, _SEQUENCE)
        if data_type.is_float:
            task["start"], task["delta"] = attributes.ValueStart, attributes.ValueDelta
        else:
            task["start_bits"], task["delta_bits"] = (
                int(attributes.ValueStart) % 2**64,
                int(attributes.ValueDelta) % 2**64,
            )
        write_walk(loops, task["walk"][0])
        kind = TYPES[data_type] if data_type.is_float else f"u{data_type.bits}"
        macros = ("TYPE", kind), ("REAL", int(data_type.is_float)), ("LANES", lanes), ("STEPS", 1)
        program = Program(("scalars", "rounding", "movement/walk", "movement/sequence"), (*macros, depth_macro(loops)))
        self._part = SplitLaunch(program, "write_terms", task, count_of(loops), THREADS * BATCH)
        self.programs = (program,)

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        return self._part.launches(memory.outputs["OutputTensor"])


def job(plan: Plan, card: Card) -> CudaJob:
    """Returns the job of a FILL_VALUE_SEQUENCE plan."""
    return CudaSequenceJob(on_card(plan))


JOBS = {"FILL_VALUE_SEQUENCE": job}
