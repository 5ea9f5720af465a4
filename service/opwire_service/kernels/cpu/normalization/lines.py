"""Cuts tensors into the lines that the normalization kernel processes: some of the innermost dimensions in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from opwire.tensor import Array, BufferTensorDesc, DataType

from ....execution import Bound, Stop, Stopped
from ...views.view import View, copy
from ..jit.compiler import Kernel
from ..run.arranged import Arrangement
from ..run.job import KernelStep
from ..run.pool import Find, Pool
from ..run.tiles import TILE, Slices
from ..views.job import bind_steps, steps_of
from . import affine as g

SHORTEST_LINE = 16
"""Minimum length of a line; shorter ones are not worth the overhead."""

SPARSITY = 8
"""At most one in this many elements may be a parameter."""

Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a plan's tensors, as the kernel traverses them.

    Attributes:
        kernel: the kernel.
        geometry: its geometry without addresses.
        shape: dimensions outside the lines; each index into them is a line.
        length: elements in a line.
        rank: rank of the tensors.
        parameters: number of elements in all parameters.
        copies: steps that first copy the input to the output, to be normalized there; none if the input has suitable
            lines.
    """

    kernel: Kernel
    geometry: g.Affine
    shape: Sizes
    length: int
    rank: int
    parameters: int
    copies: tuple[KernelStep, ...]

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return (self.kernel, *dict.fromkeys(step.kernel for step in self.copies))

    @property
    def units(self) -> int:
        return prod(self.shape)

    @property
    def scratch_bytes(self) -> int:
        """Memory, in bytes, of a run's states and of the parameters while they are computed."""
        return 8 * self.units + 64 * self.parameters

    def bind(
        self,
        source: Array,
        target: Array,
        parameters: Sequence[Array],
        again: Callable[[Slices, Stop], None],
        find: Find,
        pool: Pool,
    ) -> Bound:
        """Returns a function that normalizes all lines, any number of times but not concurrently.

        Args:
            source, target: the arranged tensors.
            parameters: float64, C-contiguous, in the shapes that the lines were made for.
            again: recomputes a line in which a result was too close to 0.
            find, pool: see ``Job``.
        """
        states = np.empty(self.units, np.int64)
        geometry = self.geometry.replaced(addresses=[each.ctypes.data for each in parameters])
        step = KernelStep(self.kernel, geometry, self.units, self.length)
        kept = source, target, states, *parameters
        walked = target if self.copies else source
        bound = step.bind(walked.ctypes.data, target.ctypes.data, states.ctypes.data, find, pool, kept)
        copied = bind_steps(self.copies, (source, target), find, pool) if self.copies else None

        def run(stop: Stop) -> None:
            if copied is not None:
                copied(stop)
            bound(stop)
            if not states.any():
                return
            for unit in np.flatnonzero(states).tolist():
                if stop():
                    raise Stopped
                again(self._place(unit), stop)

        return run

    def _place(self, unit: int) -> Slices:
        """Returns the slices of a line."""
        place = map(int, np.unravel_index(unit, self.shape)) if self.shape else ()
        ends = [slice(k, k + 1) for k in place]
        return (*ends, *(slice(None) for _ in range(self.rank - len(ends))))


def anew(bound: Bound, renew: Callable[[], None], stop: Stop) -> None:
    """Renews the parameters, then runs what is bound to them."""
    renew()
    bound(stop)


def lines_of(
    layout: Arrangement,
    source: BufferTensorDesc,
    target: BufferTensorDesc,
    parameters: Sequence[Sizes],
    *,
    kind: int = g.GIVEN,
    uses: int = 0,
    epsilon: float = 0.0,
) -> Lines | None:
    """Returns the lines of a plan, or None if there are none that pay off.

    Args:
        layout: arrangement of the input; if it has rows, lines must be these.
        source, target: the input and the output.
        parameters: arranged sizes of the parameters; dimensions of size 1 are broadcast.
        kind, uses, epsilon: see the kernel.
    """
    order = layout.order
    sizes = [source.sizes[i] for i in order]
    steps = [[desc.element_strides[i] for i in order] for desc in (source, target)]
    steps += [_packed(each) for each in parameters]
    first, line = _line(sizes, list(zip(*steps, strict=True)), layout)
    copies: list[KernelStep] = []
    if line is None or line[0] != 1:
        # The output may have suitable lines where the input has none.
        steps[0] = steps[1]
        first, line = _line(sizes, list(zip(*steps, strict=True)), layout)
        copies = steps_of([copy(View.of(0, source), View.of(1, target))], source.data_type.bits // 8)
    length = prod(sizes[first:])
    count = sum(map(prod, parameters))
    if line is None or length < SHORTEST_LINE or count * SPARSITY > prod(sizes) + 64 * SPARSITY:
        return None
    if (copies or kind != g.GIVEN) and line[0] != 1:
        return None
    varying = line[2:]
    vary = 0 if not any(varying) else 1 if all(step in (0, 1) for step in varying) else 2
    geometry = g.Affine(
        rank=first,
        length=length,
        source=line[0],
        target=line[1],
        vary=vary,
        kind=kind,
        uses=uses,
        epsilon=epsilon,
        steps=varying,
        loops=[(sizes[i], *(each[i] for each in steps)) for i in range(first)],
    )
    kernel = g.AFFINE[source.data_type is DataType.FLOAT16]
    return Lines(kernel, geometry, tuple(sizes[:first]), length, len(sizes), count, tuple(copies))


def layout_of(source: BufferTensorDesc, target: BufferTensorDesc, axes: Iterable[int] = ()) -> Arrangement:
    """Returns the arrangement by the output's strides if its lines are contiguous; else by the input's."""
    by_target = Arrangement.of(target, axes)
    return by_target if _has_lines(by_target, target) else Arrangement.of(source, axes)


def _has_lines(layout: Arrangement, desc: BufferTensorDesc) -> bool:
    last = next((i for i in reversed(layout.order) if desc.sizes[i] > 1), layout.order[-1])
    return desc.element_strides[last] == 1 and (layout.neighbors or not layout.axes)


def _packed(sizes: Sizes) -> list[int]:
    """Returns the strides of a C-contiguous array, with 0 for dimensions of size 1."""
    return [0 if size == 1 else prod(sizes[i + 1 :]) for i, size in enumerate(sizes)]


def _line(
    sizes: Sequence[int], steps: Sequence[tuple[int, ...]], layout: Arrangement
) -> tuple[int, tuple[int, ...] | None]:
    """Returns the first dimension of the lines, and the steps along them, which must continue across dimensions."""
    rank = len(sizes)
    wanted = min(layout.axes) if layout.axes else 0
    if layout.axes and not layout.neighbors:
        return rank, None
    first, length, along = rank, 1, (0,) * len(steps[0])
    while first > wanted:
        size, each = sizes[first - 1], steps[first - 1]
        if size > 1 and length > 1 and any(a != b * length for a, b in zip(each, along, strict=True)):
            break
        if length * size > TILE:
            break
        along = each if size > 1 and length == 1 else along
        first, length = first - 1, length * size
    return first, along if first == wanted or not layout.axes else None
