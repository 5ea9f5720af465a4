"""GEMM: matrix products, optionally followed by a softmax."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from opwire.check import Plan
from opwire.enums import MatrixTransform
from opwire.tensor import BufferTensorDesc

from ..job import TYPES, BaseJob, Card, CudaMemory, KernelLaunch, Launch, Program, device_desc
from ..structures import structure
from .batches import Batches
from .launching import ACTIVATED, ROUNDED, UNROUNDED, Launching, float_program
from .remainders import RemainderLaunching, suits, tiling_of
from .tiles import ALIGNMENT, NOWHERE, TENSORS, BatchedProduct, ProductTiling, Scratch, Strides

SOFTMAX = ("ACTIVATION_SOFTMAX", "ACTIVATION_SOFTMAX1")

SOFTMAX_THREADS = 512
VISITED = 1 << 28
"""Maximum number of elements that one launch normalizes, unless a single block has more."""

RANK = 4
_SOFTMAX = structure("Softmax", "products/softmax")


def _steps(strides: tuple[int, ...], *, transposed: bool) -> Strides:
    """Returns the steps of a matrix whose lines are its rows, or its columns if it is transposed."""
    outer, inner, row, column = (0,) * (RANK - len(strides)) + strides
    return Strides(outer, inner, column, row) if transposed else Strides(outer, inner, row, column)


class _Softmax:
    """A softmax after a product, over blocks of the output along some axes.

    Args:
        target: the output with its GPU layout.
        axes: the axes of a block.
    """

    def __init__(self, target: BufferTensorDesc, axes: tuple[int, ...]) -> None:
        missing = RANK - target.rank
        self._sizes = (1,) * missing + target.sizes
        self._strides = (0,) * missing + target.element_strides
        self._joined = sorted({axis + missing for axis in axes})
        self._kept = [axis for axis in range(RANK) if axis not in self._joined]
        self._program = Program(("scalars", "products/softmax"), (("INPUT", TYPES[target.data_type]),))
        self.bytes = -(-8 * target.element_count // ALIGNMENT) * ALIGNMENT

    @property
    def program(self) -> Program:
        return self._program

    @property
    def steps(self) -> Strides:
        """The layout of the doubles before the softmax, in which blocks are contiguous."""
        order = [*self._kept, *self._joined]
        steps = dict(zip(order, (prod(self._sizes[axis] for axis in order[i + 1 :]) for i in range(RANK)), strict=True))
        return Strides(*(steps[axis] for axis in range(RANK)))

    def launches(self, values: int, target: int) -> Iterator[KernelLaunch]:
        (task,) = whole = np.zeros(1, _SOFTMAX)
        task["values"], task["target"] = values, target
        for name, axes in (("kept", self._kept), ("joined", self._joined)):
            missing = RANK - len(axes)
            task[name] = [*(1,) * missing, *(self._sizes[axis] for axis in axes)]
            task[f"{name}_step"] = [*(0,) * missing, *(self._strides[axis] for axis in axes)]
        block, blocks = (prod(self._sizes[axis] for axis in axes) for axes in (self._joined, self._kept))
        task["block"] = block
        several = max(1, VISITED // max(block, SOFTMAX_THREADS))
        for first in range(0, blocks, several):
            task["first"], task["blocks"] = first, min(several, blocks - first)
            yield KernelLaunch(self._program, "normalize", (int(task["blocks"]), 1), (SOFTMAX_THREADS, 1), whole.copy())


class Gemm(BaseJob):
    """The job of a matrix product."""

    def __init__(self, plan: Plan, card: Card) -> None:
        attributes, target = plan.attributes, device_desc(plan.outputs["OutputTensor"])
        fused = attributes.FusedActivation
        self._softmax: _Softmax | None = None
        if fused is not None and fused.name in SOFTMAX:
            self._softmax, fused = _Softmax(target, fused.values.get("Axes", (target.rank - 1,))), None
        finish = UNROUNDED if self._softmax else ACTIVATED if fused is not None else ROUNDED
        data_type = target.data_type
        program = float_program(data_type, has_window=False, finish=finish, activation=fused)
        item_bytes: dict[str, int] = dict.fromkeys(TENSORS, data_type.dtype.itemsize)
        if self._softmax is not None:
            item_bytes["target"] = 8
        products = matrix_products(plan, target)
        if self._softmax is not None:
            products = replace(products, target=self._softmax.steps)
        launching: Launching
        if suits(products, data_type, card):
            launching = by_parts = RemainderLaunching(program, item_bytes, card.processors, data_type)
            tiling = tiling_of(products)
            scratch, record = by_parts.scratch(products, tiling), by_parts.by_remainders
        else:
            launching = Launching(program, item_bytes, card.processors, has_window=False)
            tiling = ProductTiling.of(products)
            scratch, record = Scratch.of(products, tiling, is_direct=False), launching.multiplied
        self._launching = launching
        self.scratch_bytes = scratch.size + (0 if self._softmax is None else self._softmax.bytes)
        self._batches = Batches(partial(record, products, tiling))
        self._has_addend = "CTensor" in plan.inputs

    @property
    def programs(self) -> tuple[Program, ...]:
        first = (self._launching.program,)
        return first if self._softmax is None else (*first, self._softmax.program)

    def launches(self, memory: CudaMemory) -> Iterator[Launch]:
        """See ``CudaJob.launches``."""
        scratch, target = memory.scratch, memory.outputs["OutputTensor"]
        values = target if self._softmax is None else scratch
        addresses = {"left": memory.inputs["ATensor"], "right": memory.inputs["BTensor"], "target": values}
        if self._has_addend:
            addresses["addend"] = memory.inputs["CTensor"]
        if self._softmax is not None:
            scratch += self._softmax.bytes
        for batch in self._batches:
            yield from batch.placed(self._launching.program, addresses, scratch)
        if self._softmax is not None:
            yield from self._softmax.launches(values, target)


def matrix_products(plan: Plan, target: BufferTensorDesc) -> BatchedProduct:
    """Returns the matrix products of a plan whose output is laid out as ``target``."""
    attributes = plan.attributes
    a, b, addend = (
        plan.inputs["ATensor"],
        plan.inputs["BTensor"],
        plan.inputs.get("CTensor", plan.inputs.get("BiasTensor")),
    )
    is_turned = [getattr(attributes, name, None) is MatrixTransform.TRANSPOSE for name in ("TransA", "TransB")]
    outer, inner, rows, columns = (1,) * (RANK - target.rank) + target.sizes
    return BatchedProduct(
        outer=outer,
        inner=inner,
        rows=rows,
        columns=columns,
        depth=a.sizes[-2 if is_turned[0] else -1],
        left=_steps(a.element_strides, transposed=is_turned[0]),
        right=_steps(b.element_strides, transposed=not is_turned[1]),
        addend=NOWHERE if addend is None else _steps(addend.element_strides, transposed=False),
        target=_steps(target.element_strides, transposed=False),
        alpha=getattr(attributes, "Alpha", 1.0),
        beta=getattr(attributes, "Beta", 1.0),
    )


JOBS = {"GEMM": Gemm}
