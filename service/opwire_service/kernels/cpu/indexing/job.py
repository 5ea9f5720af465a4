"""Prepares moves by index to run: copies first, then the indexed step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from opwire.tensor import Array

from ....execution import Arrays, Bound, Stop
from ...picking import Component, Point
from ..jit.compiler import Kernel
from ..jit.element import INT8
from ..run.job import Job, KernelStep, ScratchBytes
from ..run.pool import Find, Pool
from ..views.job import bind_steps, each
from . import geometry as g
from .geometry import collapse, encode
from .points import move_points

MOVE = Kernel(move_points, INT8)

MOST_POINTS = 1 << 18
"""Points processed in sequence between two polls of ``stop``, because later ones may overwrite earlier ones."""


@dataclass(frozen=True, slots=True)
class Indices:
    """The indices that a point reads.

    Attributes:
        type: type of an index.
        components: components of a tuple.
    """

    type: int
    components: tuple[Component, ...]


def gather_step(item: int, indices: Indices, points: Iterable[Point]) -> KernelStep:
    """Returns the step that gathers elements of ``item`` bytes; the points may be visited in any order."""
    loops, run = _with_run(_by_target(points), item)
    return _step(g.GATHER, indices, run, loops[:-2], loops[-2:])


def scatter_step(item: int, indices: Indices, ordered: Iterable[Point], free: Iterable[Point]) -> KernelStep:
    """Returns the step that scatters elements; points of ordered loops, which may collide, keep their order."""
    loops, run = _with_run(_by_target(free), item)
    return _step(g.SCATTER, indices, run, loops[:-2] + collapse(ordered), loops[-2:])


def reverse_step(item: int, indices: Indices, along: Point, points: Iterable[Point]) -> KernelStep:
    """Returns the step that reverses sequences along a loop."""
    loops = _by_target(points)
    if not loops or along.target < loops[-1].target:
        return _step(g.REVERSE_LINES, indices, item, loops[:-1], [*loops[-1:], along])
    return _step(g.REVERSE, indices, item, [*loops[:-2], along], loops[-2:])


def _by_target(points: Iterable[Point]) -> list[Point]:
    return collapse(sorted(points, key=lambda point: point.target, reverse=True))


def _with_run(loops: list[Point], item: int) -> tuple[list[Point], int]:
    """Splits off the loop over contiguous elements, if any; returns the other loops and the bytes of a run."""
    if loops and loops[-1][1:] == (0, item, item):
        return loops[:-1], item * loops[-1].size
    return loops, item


def _step(mode: int, indices: Indices, run: int, outer: Sequence[Point], tiles: Sequence[Point]) -> KernelStep:
    return KernelStep(MOVE, *encode(mode, indices.type, run, indices.components, outer, tiles))


Choose = Callable[[Arrays, Arrays], Sequence[Array]]
"""Returns the source, the target and the indices among the tensors of a plan."""


class IndexJob(Job):
    """Makes copies, if any, then one step by index.

    Args:
        step: the move by index.
        choose: returns its tensors.
        copies: steps to run first, on the plan's tensors in order.
    """

    _scratch = ScratchBytes()

    def __init__(self, step: KernelStep, choose: Choose, copies: Sequence[KernelStep] = ()) -> None:
        self._step = step
        self._choose = choose
        self._copies = copies
        self._kernels = (MOVE, *dict.fromkeys(step.kernel for step in copies))

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        chosen = self._choose(inputs, outputs)
        copied = [bind_steps(self._copies, [*inputs.values(), *outputs.values()], find, pool)] if self._copies else []

        def run_long(stop: Stop) -> None:
            for copy in copied:
                copy(stop)
            for step in self._pieces():
                bind_steps((step,), chosen, find, pool)(stop)

        if self._is_long:
            return run_long
        moved = bind_steps((self._step,), chosen, find, pool)
        return partial(each, (*copied, moved)) if copied else moved

    @property
    def _is_long(self) -> bool:
        return bool(self._step.geometry.mode == g.SCATTER and self._step.geometry.last > MOST_POINTS)

    def _pieces(self) -> Iterator[KernelStep]:
        """Splits the step into several, because its points must be visited in order."""
        for first in range(0, self._step.geometry.last, MOST_POINTS):
            geometry = self._step.geometry
            piece = geometry.replaced(first=first, last=min(first + MOST_POINTS, geometry.last))
            yield self._step._replace(geometry=piece)
