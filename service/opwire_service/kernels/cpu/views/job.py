"""Prepares copies to run: in phases, each of steps for one kernel."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import groupby

from opwire.tensor import Array

from ....execution import Arrays, Bound, Stop
from ...views.view import Copy, Phases
from ..jit.compiler import Kernel
from ..jit.element import INT8, INT16, INT32, INT64
from ..run.job import Job, KernelStep, ScratchBytes
from ..run.pool import Find, Pool
from . import copies as kernels
from .geometry import RUNS, CopyForm, copy_form, encode

ITEMS = {1: INT8, 2: INT16, 4: INT32, 8: INT64}
"""Element types by size in bytes."""

KERNELS = (Kernel(kernels.runs, INT8), *(Kernel(kernels.items, element) for element in ITEMS.values()))


def steps_of(copies: Iterable[Copy], item: int) -> list[KernelStep]:
    """Returns the steps that make copies of elements of ``item`` bytes, in any order."""
    formed = sorted(((copy, copy_form(copy, item)) for copy in copies), key=lambda pair: _which(pair[1]))
    return [_step(list(group), which, item) for which, group in groupby(formed, key=lambda pair: _which(pair[1]))]


def _which(form: CopyForm) -> tuple[bool, int]:
    return form.kind != RUNS, form.item


def _step(copies: Sequence[tuple[Copy, CopyForm]], which: tuple[bool, int], item: int) -> KernelStep:
    function = kernels.items if which[0] else kernels.runs
    return KernelStep(Kernel(function, ITEMS[which[1]]), *encode(copies, item))


class CopyJob(Job):
    """Copies between the tensors of a plan.

    Args:
        item: bytes of an element.
        phases: the copies; tensors are numbered from 0, inputs first, then outputs, then the constants.
        constants: elements to write.
    """

    def __init__(self, item: int, phases: Phases, constants: Array | None = None) -> None:
        self._steps = [step for copies in phases for step in steps_of(copies, item)]
        self._constants = constants
        self._kernels = tuple(dict.fromkeys(step.kernel for step in self._steps))
        self._scratch = ScratchBytes(shared=sum(step.geometry.itemsize * len(step.geometry) for step in self._steps))

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        tensors = [*inputs.values(), *outputs.values()]
        if self._constants is not None:
            tensors.append(self._constants)
        return bind_steps(self._steps, tensors, find, pool)


def bind_steps(steps: Sequence[KernelStep], tensors: Sequence[Array], find: Find, pool: Pool) -> Bound:
    """Returns a function that runs steps on tensors, one after the other."""
    addresses = array("q", [tensor.ctypes.data for tensor in tensors])
    table, _ = addresses.buffer_info()
    kept = addresses, *tensors
    bound = [step.bind(table, 0, 0, find, pool, kept) for step in steps]
    return bound[0] if len(bound) == 1 else partial(each, bound)


def each(steps: Sequence[Bound], stop: Stop) -> None:
    """Runs bound steps one after the other."""
    for step in steps:
        step(stop)
