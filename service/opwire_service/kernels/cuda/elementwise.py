"""Elementwise operators that have a formula, for tensors of any strides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from opwire.check import Plan
from opwire.operators import OPERATORS
from opwire.tensor import Array, BufferTensorDesc, DataType

from ...execution import Arrays, Stop, Stopped
from ..formulas.certified import Certified
from ..formulas.exact_formula import ExactFormula
from ..formulas.formula import PlanFormula, formula_of
from ..layout import Loop
from .element_source import Formula, Read, element_source
from .formula_source import FormulaSource, has_scale
from .job import LOAD_BYTES, MOST_UNDECIDED, TYPES, BaseJob, Card, CudaMemory, KernelLaunch, Program, device_desc
from .pair_source import PAIRS
from .reduction import loops_parameter
from .structures import structure
from .table_source import COPIES_TABLE, TABLE_BYTES, table_serves, table_source

THREADS = 128
TABLE_THREADS = 1024
BLOCKS = 16
"""Resident blocks per multiprocessor for compute-heavy formulas, which gives it the maximum number of threads."""

BATCH = 2
"""Loads of each input in flight per thread, where the computation takes few registers."""

TABLE_BATCH = 4
"""The same as ``BATCH`` where results come from a lookup table."""

TABLE_WORTH = 2**22
"""Minimum elements for a lookup table of FLOAT16 results, since building the table has a cost."""

LAUNCH_ELEMENTS = 2**28
"""Maximum elements per launch, so that it takes only a few milliseconds."""

HOST_AT_ONCE = 2**15
"""Elements that the host computes between two calls of ``stop``."""

MOST = 8
"""Maximum formulas of a chain, so that the description of its tensors fits the 4 KiB kernel parameter."""

_CHANNELS = 4


def _task(inputs: int, outputs: int) -> np.dtype[Any]:
    """Returns the dtype of the kernel parameter for these numbers of tensors."""
    return structure("Task", "loops", "elements", INPUTS=inputs, OUTPUTS=outputs, LOOPS=8)


class InputWalk(NamedTuple):
    """Traversal of an input alongside a contiguous output.

    Attributes:
        kind: the kind of walk, as named in ``elements.cu``.
        loops: outermost first, without the steps of the output.
    """

    kind: str
    loops: tuple[Loop, ...]


def input_walk(axes: list[tuple[int, int]], lanes: int) -> InputWalk:
    """Returns the walk of an input.

    Args:
        axes: sizes and input strides in the output's memory order, outermost first.
        lanes: adjacent output elements that are computed together.
    """
    loops: list[Loop] = []
    for size, step in axes:
        if loops and loops[-1].source == step * size:
            loops[-1] = Loop(loops[-1].size * size, step)
        else:
            loops.append(Loop(size, step))
    if all(loop.source == 0 for loop in loops):
        return InputWalk("SAME", ())
    inner = loops[-1]
    if len(loops) == 1 and inner.source == 1:
        return InputWalk("DENSE", ())
    if inner.size % lanes == 0:
        if inner.source == 0:
            return InputWalk("SAME", tuple(loops))
        if inner.source == 1 and not any(loop.source % lanes for loop in loops[:-1]):
            return InputWalk("ROWS", tuple(loops))
    return InputWalk("GATHER", tuple(loops))


class OperandSource(NamedTuple):
    """Tensor that formulas read.

    Attributes:
        name: its name in ``CudaMemory``.
        data_type: the type of its elements.
        strides: its strides along the dimensions of the outputs, in elements.
        channels: its elements, if it stands for per-channel numbers of a desc.
    """

    name: str
    data_type: DataType
    strides: tuple[int, ...]
    channels: Array | None = None


class CudaElementsJob(BaseJob):
    """Job that applies a formula, or a chain of formulas, to the elements of outputs of the same layout.

    Attributes:
        output: the name of the first output that is written.
        target: the desc of the outputs, with their strides on the GPU.
        sources: the tensors that the formulas read.
        formulas: the formulas, in order of evaluation.

    Args:
        targets: the names of the outputs that are written, indexed by the formulas' output numbers.
        processors: number of multiprocessors of the GPU; None disables lookup tables.
    """

    def __init__(
        self,
        target: BufferTensorDesc,
        sources: Sequence[OperandSource],
        formulas: Sequence[Formula],
        targets: Sequence[str],
        processors: int | None = None,
    ) -> None:
        self.target, self.sources, self.formulas, self._targets = target, sources, formulas, targets
        self.output = targets[0]
        order = sorted(range(target.rank), key=target.element_strides.__getitem__, reverse=True)
        self._axes = [axis for axis in order if target.sizes[axis] > 1]
        types = [*(source.data_type for source in sources), *(each.source.formula.output for each in formulas)]
        self._lanes = LOAD_BYTES // max(each.dtype.itemsize for each in types)
        self._walks = [
            input_walk([(target.sizes[axis], source.strides[axis]) for axis in self._axes], self._lanes)
            for source in sources
        ]
        self._count = target.element_count
        self._processors = processors
        self._has_table = self._is_worth_a_table()
        self._is_certain = self._has_table or all(each.source.is_always_settled for each in formulas)
        self._room = 0 if self._is_certain else min(self._count, MOST_UNDECIDED)

    @property
    def gathers(self) -> bool:
        """Whether adjacent output elements read scattered elements of an input."""
        return any(walk.kind == "GATHER" for walk in self._walks)

    def _is_worth_a_table(self) -> bool:
        if self._processors is None or len(self.formulas) > 1 or self._count < TABLE_WORTH:
            return False
        (source, _, _) = self.formulas[0]
        return table_serves(source.formula, source)

    @cached_property
    def _program(self) -> Program:
        channels = [source.channels is not None for source in self.sources]
        macros: tuple[tuple[str, str | int], ...] = (
            ("INPUTS", len(self.sources)),
            ("OUTPUTS", len(self._targets)),
            ("LANES", self._lanes),
            ("BATCH", self._batch),
            ("THREADS", self._threads),
            ("BLOCKS", self._blocks),
            ("GOES_ON", int(self._has_table)),
            ("CHANNELS", channels.index(True) if any(channels) else -1),
        )
        reads = [
            Read(TYPES[source.data_type], walk.kind, len(walk.loops))
            for source, walk in zip(self.sources, self._walks, strict=True)
        ]
        if self._has_table:
            source = self.formulas[0].source
            text = table_source(source.formula.expression, source)
            generated = element_source(reads, self.formulas, [text], [COPIES_TABLE])
            return Program(("scalars", "floats", "loops", "table", "elements"), macros, generated, ("elementwise",))
        pairs = PAIRS if any(each.source.in_pairs for each in self.formulas) else ()
        sources = ("scalars", "floats", "integer_primitives", "certified", "quick", *pairs, "bounded", "loops")
        sources = (*sources, "elements")
        return Program(sources, macros, element_source(reads, self.formulas), ("elementwise",))

    @property
    def _blocks(self) -> int:
        """Minimum number of resident blocks per multiprocessor."""
        return 1 if self._is_certain or len(self.formulas) > 1 else BLOCKS

    @property
    def _threads(self) -> int:
        return TABLE_THREADS if self._has_table else THREADS

    @property
    def _batch(self) -> int:
        if self._has_table:
            return TABLE_BATCH
        return BATCH if self._is_certain else 1

    @property
    def programs(self) -> tuple[Program, ...]:
        return (self._program,)

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        (task,) = whole = np.zeros(1, _task(len(self.sources), len(self._targets)))
        for number, (source, walk) in enumerate(zip(self.sources, self._walks, strict=True)):
            task["source"][number] = memory.inputs.get(source.name, 0)
            loops_parameter(walk.loops, task["loops"][number])
            if source.channels is not None:
                task["channels"][: source.channels.size] = source.channels
        task["target"] = [memory.outputs[name] for name in self._targets]
        task["undecided"], task["room"] = memory.undecided, self._room
        share = self._threads * self._batch * self._lanes
        for first in range(0, self._count, LAUNCH_ELEMENTS):
            part = whole.copy()
            count = min(LAUNCH_ELEMENTS, self._count - first)
            part["first"], part["count"] = first, count
            blocks, shared = -(-count // share), 0
            if self._has_table:
                blocks, shared = min(blocks, self._processors or blocks), TABLE_BYTES
            yield KernelLaunch(self._program, "compute", (blocks, 1), (self._threads, 1), part, shared)

    def settle(self, places: Array | None, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``CudaJob.settle``; a place is the index of an output element in memory order, and 0."""
        if places is not None:
            self._write(places[:, 0].astype(np.int64), inputs, outputs, exactly, stop)
            return
        for first in range(0, self._count, HOST_AT_ONCE):
            if stop():
                raise Stopped
            self._write(np.arange(first, min(first + HOST_AT_ONCE, self._count)), inputs, outputs, quickly, stop)

    def _write(self, places: Array, inputs: Arrays, outputs: Arrays, compute: Compute, stop: Stop) -> None:
        taken = {name: inputs[name][offsets] for name, offsets in self.offsets(places).items()}
        for name, results in self.results(taken, compute, stop, places).items():
            outputs[name][places] = results

    def offsets(self, places: Array) -> dict[str, Array]:
        """Returns, for each input, the offsets of the elements that the results at these places depend on."""
        indices = self._indices(places)
        return {source.name: self._along(source, indices) for source in self.sources if source.channels is None}

    def results(self, taken: Arrays, compute: Compute, stop: Stop, places: Array) -> dict[str, Array]:
        """Returns the results of the outputs that are written, by name.

        Args:
            taken: the elements of each input that the results depend on.
            compute: evaluates a formula.
            stop: called between pieces of work to check for cancellation.
            places: the indices of the results in the outputs' memory order.
        """
        indices = self._indices(places)
        given = [
            taken[source.name] if source.channels is None else source.channels[self._along(source, indices)]
            for source in self.sources
        ]
        found: dict[str, Array] = {}
        left: list[Array] = []
        for source, numbers, target in self.formulas:
            operands = [left[~number] if number < 0 else given[number] for number in numbers]
            left.append(compute(source.formula, dict(zip(source.names, operands, strict=True)), stop))
            if target is not None:
                found[self._targets[target]] = left[-1]
        return found

    def _indices(self, places: Array) -> tuple[Array, ...]:
        """Returns the indices of places along the dimensions that are walked."""
        return np.unravel_index(places, [self.target.sizes[axis] for axis in self._axes] or (1,))

    def _along(self, source: OperandSource, indices: tuple[Array, ...]) -> Array:
        steps = [source.strides[axis] for axis in self._axes] or [0]
        found: Array = sum(index * step for index, step in zip(indices, steps, strict=True))  # type: ignore[assignment]
        return found


Compute = Callable[[PlanFormula, Mapping[str, Array], Stop], Array]
"""Evaluates a formula on the given elements."""


def exactly(formula: PlanFormula, given: Mapping[str, Array], stop: Stop) -> Array:
    """Returns results by exact arithmetic, for a few elements."""
    return ExactFormula(formula.expression, formula.inputs, formula.output).of_all(given, stop)


def quickly(formula: PlanFormula, given: Mapping[str, Array], stop: Stop) -> Array:
    """Returns results by the method that is fastest for many elements."""
    if has_scale(formula.expression):
        return exactly(formula, given, stop)
    target = np.empty(next(iter(given.values())).shape, formula.output.dtype)
    with np.errstate(all="ignore"):
        Certified.of(formula.expression, formula.inputs, formula.output).compute(given, target, stop)
    return target


def job(plan: Plan, card: Card) -> CudaElementsJob:
    """Returns the job for the plan of an operator that has a formula."""
    formula = formula_of(plan)
    target = device_desc(plan.outputs[formula.output_name])
    source = FormulaSource.of(formula, in_pairs=card.prefers_pairs)
    sources = [_source(name, formula, plan, target) for name in source.names]
    return CudaElementsJob(
        target, sources, [Formula(source, tuple(range(len(sources))), 0)], [formula.output_name], card.processors
    )


def _source(name: str, formula: PlanFormula, plan: Plan, target: BufferTensorDesc) -> OperandSource:
    if name in plan.inputs:
        return OperandSource(name, formula.inputs[name], plan.inputs[name].element_strides)
    channels = formula.channels[name]
    steps = np.broadcast_to(channels, target.sizes).strides
    return OperandSource(
        name, formula.inputs[name], tuple(step // channels.itemsize for step in steps), channels.ravel()
    )


def is_chainable(job: object) -> TypeGuard[CudaElementsJob]:
    """Whether a job may be part of a chain: all of its sources must be tensors of the graph."""
    return isinstance(job, CudaElementsJob) and all(source.channels is None for source in job.sources)


JOBS = {name: job for name, operator in OPERATORS.items() if operator.formula is not None}
