"""All operators that have a formula: each element from those at its place, whatever strides the tensors have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np

from opwire.check import Plan
from opwire.operators import OPERATORS
from opwire.tensor import Array, BufferTensorDesc

from ...execution import Arrays, Stop, Stopped
from ..formulas.certified import Certified
from ..formulas.exactly import ExactFormula
from ..formulas.formula import formula_of, primitives
from ..layout import Loop
from .formula_source import FormulaSource, has_scale
from .job import LOAD_BYTES, TYPES, CudaMemory, KernelLaunch, Program, device_desc
from .reduction import LOOPS, loops_parameter
from .table_source import TABLE_BYTES, table_serves, table_source

THREADS = 256
TABLE_THREADS = 1024
BLOCKS = 8
"""That share a multiprocessor where much is computed: then it has all the threads that it can."""

FEWER_BLOCKS = 6
LARGER = frozenset(("sin", "cos", "sinh", "expm1"))
"""Functions whose threads would not have enough registers, and as many blocks as share it with these."""

BATCH = 2
"""Loads of each input that a thread has in flight, where what it computes takes few registers."""

TABLE_WORTH = 2**22
"""Elements from which on results of FLOAT16 are looked up; a table costs as much as some of them."""

LAUNCH_ELEMENTS = 2**28
"""Elements of one launch at most: some milliseconds."""

UNCERTAIN = 2**20
"""The most places of uncertain results that a card lists; if there are more, all are computed again."""

HOST_AT_ONCE = 2**15
"""Elements that the host computes between two questions whether to stop."""

INPUTS = 3
"""The most inputs of a formula, among them numbers of the desc for each channel."""

_CHANNELS = 4
_TASK = np.dtype(
    [
        ("source", "<u8", (INPUTS,)),
        *((name, "<u8") for name in ("target", "uncertain")),
        *((name, "<u4") for name in ("first", "count", "room", "unused")),
        ("channels", "<f4", (_CHANNELS,)),
        ("loops", LOOPS, (INPUTS,)),
    ]
)


class InputWalk(NamedTuple):
    """How an input is walked beside an output that lies densely.

    Attributes:
        kind: of ``elementwise.cu``.
        loops: outermost first; the steps of the output are left out.
    """

    kind: str
    loops: tuple[Loop, ...]


def input_walk(axes: list[tuple[int, int]], lanes: int) -> InputWalk:
    """The walk of an input.

    Args:
        axes: the sizes and the input's strides in the order of the output's memory, outermost first.
        lanes: neighbours in the output's memory that are computed together.
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


class Elements:
    """The job of a plan of an operator that has a formula."""

    scratch_bytes = 0
    state_bytes = 0

    def __init__(self, plan: Plan, processors: int) -> None:
        self._formula = formula_of(plan)
        self._source = FormulaSource.of(self._formula)
        self._target = device_desc(plan.outputs[self._formula.output_name])
        self._channels = next(iter(self._formula.channels), None)
        order = sorted(range(self._target.rank), key=self._target.element_strides.__getitem__, reverse=True)
        self._axes = [axis for axis in order if self._target.sizes[axis] > 1]
        self._strides = {name: self._strides_of(name, plan.inputs) for name in self._source.names}
        types = [self._formula.inputs[name] for name in self._source.names]
        self._lanes = LOAD_BYTES // max(each.dtype.itemsize for each in (*types, self._formula.output))
        self._walks = [
            input_walk([(self._target.sizes[axis], self._strides[name][axis]) for axis in self._axes], self._lanes)
            for name in self._source.names
        ]
        self._count = self._target.element_count
        self._processors = processors
        self._types = types
        self._has_table = self._count >= TABLE_WORTH and table_serves(self._formula, self._source)

    def _strides_of(self, name: str, inputs: Mapping[str, BufferTensorDesc]) -> tuple[int, ...]:
        if name in inputs:
            return inputs[name].element_strides
        channels = self._formula.channels[name]
        steps = np.broadcast_to(channels, self._target.sizes).strides
        return tuple(step // channels.itemsize for step in steps)

    @cached_property
    def _program(self) -> Program:
        names, types = self._source.names, self._types
        macros: list[tuple[str, str | int]] = [
            ("OUTPUT", TYPES[self._formula.output]),
            ("INPUTS", len(names)),
            ("LANES", self._lanes),
            ("BATCH", self._batch),
            ("THREADS", self._threads),
            ("BLOCKS", self._blocks),
            ("GOES_ON", int(self._has_table)),
            ("CHANNELS", -1 if self._channels is None else names.index(self._channels)),
        ]
        for number in range(INPUTS):
            is_there = number < len(names)
            macros += [
                (f"SOURCE{number}", TYPES[types[number]] if is_there else "u8"),
                (f"WALK{number}", self._walks[number].kind if is_there else "SAME"),
                (f"DEPTH{number}", len(self._walks[number].loops) if is_there else 0),
            ]
        if self._has_table:
            text = table_source(self._formula.expression, self._source)
            return Program(("scalars", "floats", "loops", "table", "elementwise"), tuple(macros), text)
        sources = ("scalars", "floats", "wholes", "certified", "quick", "bounded", "loops", "elementwise")
        return Program(sources, tuple(macros), self._source.text)

    @property
    def _is_certain(self) -> bool:
        return self._has_table or self._source.is_certain

    @property
    def _blocks(self) -> int:
        """Of a multiprocessor."""
        if self._is_certain:
            return 1
        return BLOCKS if LARGER.isdisjoint(primitives(self._formula.expression)) else FEWER_BLOCKS

    @property
    def _threads(self) -> int:
        return TABLE_THREADS if self._has_table else THREADS

    @property
    def _batch(self) -> int:
        return BATCH if self._is_certain else 1

    @property
    def programs(self) -> tuple[Program, ...]:
        return (self._program,)

    @property
    def uncertain_bytes(self) -> int:
        return 0 if self._is_certain else 8 + 8 * self._room

    @property
    def _room(self) -> int:
        return min(self._count, UNCERTAIN)

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """See ``CudaJob.launches``."""
        (task,) = whole = np.zeros(1, _TASK)
        for number, (name, walk) in enumerate(zip(self._source.names, self._walks, strict=True)):
            task["source"][number] = memory.inputs.get(name, 0)
            loops_parameter(walk.loops, task["loops"][number])
        if self._channels is not None:
            numbers = self._formula.channels[self._channels].ravel()
            task["channels"][: numbers.size] = numbers
        task["target"], task["uncertain"] = memory.outputs[self._formula.output_name], memory.uncertain
        task["room"] = self._room
        share = self._threads * self._batch * self._lanes
        for first in range(0, self._count, LAUNCH_ELEMENTS):
            part = whole.copy()
            count = min(LAUNCH_ELEMENTS, self._count - first)
            part["first"], part["count"] = first, count
            blocks, shared = -(-count // share), 0
            if self._has_table:
                blocks, shared = min(blocks, self._processors), TABLE_BYTES
            yield KernelLaunch(self._program, "compute", (blocks, 1), (self._threads, 1), part, shared)

    def recompute(self, places: Array | None, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``CudaJob.recompute``; a place is that of the element in the order of the output's memory, and 0."""
        target = outputs[self._formula.output_name]
        given = {**inputs, **{name: array.ravel() for name, array in self._formula.channels.items()}}
        if places is not None:
            self._exactly(places[:, 0].astype(np.int64), given, target, stop)
            return
        for first in range(0, self._count, HOST_AT_ONCE):
            if stop():
                raise Stopped
            self._all(np.arange(first, min(first + HOST_AT_ONCE, self._count)), given, target, stop)

    def _taken(self, places: Array, given: Arrays) -> dict[str, Array]:
        """The elements of the inputs at places."""
        sizes = [self._target.sizes[axis] for axis in self._axes]
        indices = np.unravel_index(places, sizes or (1,))
        taken = {}
        for name, strides in self._strides.items():
            steps = [strides[axis] for axis in self._axes] or [0]
            taken[name] = given[name][sum(index * step for index, step in zip(indices, steps, strict=True))]
        return taken

    def _exactly(self, places: Array, given: Arrays, target: Array, stop: Stop) -> None:
        exact = ExactFormula(self._formula.expression, self._formula.inputs, self._formula.output)
        taken = self._taken(places, given)
        target[places] = exact.of_all(taken, stop)

    def _all(self, places: Array, given: Arrays, target: Array, stop: Stop) -> None:
        if has_scale(self._formula.expression):
            self._exactly(places, given, target, stop)
            return
        certified = Certified.of(self._formula.expression, self._formula.inputs, self._formula.output)
        with np.errstate(all="ignore"):
            certified.compute(self._taken(places, given), target[places[0] : places[-1] + 1], stop)


JOBS = {name: Elements for name, operator in OPERATORS.items() if operator.formula is not None}
