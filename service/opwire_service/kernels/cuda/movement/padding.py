"""PADDING: pads rows along the last dimension, then the other dimensions by copying whole rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opwire.check import Plan
from opwire.enums import PaddingMode

from ...reference.moves import bits
from ...views import phases
from ...views.movements import MOVEMENTS
from ..job import BaseJob, Card, CudaJob, CudaMemory, KernelLaunch, Program
from ..structures import structure
from .view import PLAIN, UNITS, CudaCopyJob, RowBlocks, copies
from .walk import PIECE, SplitLaunch, count_of, depth_macro, merged, on_card, write_walk

MODES = (PaddingMode.CONSTANT, PaddingMode.EDGE, PaddingMode.REFLECTION, PaddingMode.SYMMETRIC, PaddingMode.WRAP)
"""Indexed by their numbers in the kernel."""

_PADDING = structure("Padding", "movement/walk", "movement/padding", STEPS=2)


class PaddingJob(BaseJob):
    """Rows padded along the last dimension, and copies for the other dimensions.

    Args:
        plan: the plan with its GPU layout.
        blocks: how thread blocks share the rows.
    """

    def __init__(self, plan: Plan, blocks: RowBlocks) -> None:
        source, target, attributes = plan.inputs["InputTensor"], plan.outputs["OutputTensor"], plan.attributes
        movement = MOVEMENTS[plan.operator.name](plan)
        assert movement.constants is not None
        here, there = source.element_strides, target.element_strides
        steps = zip(source.sizes[:-1], here[:-1], there[:-1], strict=True)
        loops = merged(sorted(steps, key=lambda loop: loop[2], reverse=True), 2)
        task = np.zeros(1, _PADDING)
        task["value"] = int(bits(movement.constants))
        task["width"], task["size"], task["start"] = target.sizes[-1], source.sizes[-1], attributes.StartPadding[-1]
        task["step"], task["target_step"] = here[-1], there[-1]
        write_walk(loops, task["walk"][0])
        macros = ("STEPS", 2), depth_macro(loops), ("UNIT", UNITS[movement.item])
        program = Program((*PLAIN, "movement/padding"), (*macros, ("MODE", MODES.index(attributes.PaddingMode))))
        piece = max(blocks.rows, PIECE // target.sizes[-1])
        self._rows = SplitLaunch(
            program, "pad_rows", task, count_of(loops), blocks.rows, piece, blocks.threads, blocks.layers
        )
        # The first row of the input comes after the padding of the other dimensions.
        starts = zip(attributes.StartPadding[:-1], there[:-1], strict=True)
        self._first = movement.item * sum(start * step for start, step in starts)
        others = movement._replace(phases=phases.padding(plan, rows=False))
        self._others = CudaCopyJob(others, tuple(plan.inputs), tuple(plan.outputs))
        self.programs = tuple(dict.fromkeys((program, *self._others.programs)))

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        target = memory.outputs["OutputTensor"] + self._first
        yield from self._rows.launches(memory.inputs["InputTensor"], target)
        yield from self._others.launches(memory)


def job(plan: Plan, card: Card) -> CudaJob:
    """Returns the job of a PADDING plan."""
    placed, attributes = on_card(plan), plan.attributes
    target = placed.outputs["OutputTensor"]
    blocks = RowBlocks.of(target.sizes[-1])
    if blocks is None or not (attributes.StartPadding[-1] or attributes.EndPadding[-1]):
        return copies(plan, MOVEMENTS[plan.operator.name])
    return PaddingJob(placed, blocks)


JOBS = dict.fromkeys(("PADDING", "PADDING1"), job)
