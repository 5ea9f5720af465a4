"""Copies blocks of a tensor to contiguous memory, on the thread that processes them next."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from opwire.tensor import Array

from ...views.view import StridedDimension, View, copy
from ..jit.compiler import Kernel
from ..run.job import KernelStep
from ..run.pool import Find
from .job import steps_of


class Packing:
    """Copies blocks that differ only in their first size.

    Args:
        heights: the possible first sizes.
        sizes: the other sizes.
        steps: strides of all dimensions, in elements.
        item: bytes of an element.
    """

    def __init__(self, heights: Iterable[int], sizes: Sequence[int], steps: Sequence[int], item: int) -> None:
        self._steps = {height: _step((height, *sizes), steps, item) for height in heights}

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return tuple(dict.fromkeys(step.kernel for step in self._steps.values()))

    def bind(self, source: Array, target: Array, find: Find) -> Callable[[], object]:
        """Returns a function that copies a block, any number of times."""
        step, tensors = self._steps[source.shape[0]], array("q", (source.ctypes.data, target.ctypes.data))
        call = partial(find(step.kernel).call, 0, tensors.buffer_info()[0], 0, 0, step.geometry.buffer_info()[0])
        kept = tensors, source, target

        def run(_kept: object = kept) -> None:
            call(0, step.units)

        return run


def _step(sizes: Sequence[int], steps: Sequence[int], item: int) -> KernelStep:
    dimensions, packed, step = tuple(map(StridedDimension, sizes, steps)), [], 1
    for size in reversed(sizes):
        packed.append(StridedDimension(size, step))
        step *= size
    [found] = steps_of([copy(View(0, 0, dimensions), View(1, 0, tuple(reversed(packed))))], item)
    return found
