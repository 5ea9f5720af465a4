"""All operators that have a formula, each computed in the cheapest exact way: see ``computation``."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from opwire.check import Plan
from opwire.formulas import Constant, Expression, InputElement, Operation
from opwire.operators import CATALOG
from opwire.operators.work import STEP
from opwire.tensor import BufferTensorDesc

from ....execution import Arrays, Bound, Stop, Stopped
from ...formulas.bounds import is_single
from ...formulas.formula import PlanFormula, formula_of
from ...views.view import View, copy
from ..jit.compiler import Kernel
from ..run.job import Job
from ..run.pool import Find, Pool
from ..views.job import CopyJob
from . import native
from .compiled import FEW_BYTES, LEAST_COMPILED, LEAST_RUN, LEAST_RUN_IN_ONE_PASS, CompiledFormula
from .computation import TABLE_BYTES, Computation, computation, in_own_type, is_on_bits, scale_of
from .planes import Planes, planes_of

KERNELS: tuple[Kernel, ...] = ()

UNUSUAL_VISITS = 8
"""Cost of an element whose result needs a bound of its own, in visits."""

MOST_USUAL = 2.0**40
"""Numbers of a formula are usual up to this, and from its reciprocal on."""


class ElementsJob(Job):
    """Computes a formula on the elements of a plan.

    Attributes:
        formula: the resolved formula.
        computation: how it is computed.
        output: name of the output.
        target: desc of the output.
        channels: tensors that stand for attributes, by name.

    Args:
        plan: the plan with the tensors.
        formula: replaces the formula of the plan's operator; it is computed in the tensors' own type.
    """

    def __init__(self, plan: Plan, formula: PlanFormula | None = None) -> None:
        is_composed = formula is not None and not isinstance(formula.expression, InputElement)
        self.formula = formula = formula or formula_of(plan)
        self.computation = in_own_type(formula) if is_composed else computation(formula)
        self.output = formula.output_name
        self.channels = formula.channels
        self.target = plan.outputs[self.output]
        self._count = self.target.element_count
        self._plan = plan

    @cached_property
    def _planes(self) -> Planes:
        return _planes(self._plan, self.formula, self.computation.tensors)

    @cached_property
    def _compiled(self) -> CompiledFormula | None:
        return _compiled(self._plan, self.formula, self.computation)

    @cached_property
    def _copy(self) -> CopyJob | None:
        """Job that copies the elements, if the formula only changes the layout."""
        expression = self.formula.expression
        if not isinstance(expression, InputElement) or len(self._plan.inputs) > 1 or self.target.data_type.is_packed:
            return None
        source = self._plan.inputs[expression.name]
        if source.data_type is not self.target.data_type or source.element_strides == self.target.element_strides:
            return None
        moved = copy(View.of(0, source), View.of(1, self.target))
        return CopyJob(self.target.data_type.bits // 8, [[moved]])

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return () if self._copy is None else self._copy.kernels

    @property
    def _is_compiled(self) -> bool:
        """Whether a kernel is used from the first run on."""
        return self._count > LEAST_COMPILED and self._compiled is not None

    @property
    def method(self) -> str:
        """See ``Job.method``; NumPy, used where a layout's tiles are too small for a kernel, is far slower."""
        if self._is_unusual:
            return "unusual"
        return "compiled" if self._is_compiled else ""

    @cached_property
    def _is_unusual(self) -> bool:
        """Whether numbers are so large or small that most elements may need bounds of their own."""
        return self.formula.output.is_float and _has_unusual(self.formula.expression)

    @property
    def visits(self) -> int:
        """See ``Job.visits``."""
        tiles = self._compiled.planes.units if self._is_compiled and self._compiled is not None else 0
        each = UNUSUAL_VISITS if self._is_unusual else 1
        return self._plan.work * each + tiles * STEP

    @property
    def is_composable(self) -> bool:
        """Whether it may be fused with other formulas with each part rounding as it does alone.

        That requires computing everything in one type without wider intermediate steps. A formula that reads a tensor
        more than once would duplicate the fused subexpression.
        """
        formula = self.formula
        if any(each is not formula.output for each in formula.inputs.values()) or formula.output.is_packed:
            return False
        if _is_truth(formula.expression) or not _reads_once(formula.expression, set()):
            return False
        if not formula.output.is_float:
            return not is_on_bits(formula.expression) and scale_of(formula.expression) is None
        return is_single(formula.expression, formula.output)

    @property
    def is_in_place(self) -> bool:
        """Whether the output may share memory with an input: elements are read only before they are overwritten."""
        return self.is_composable and self._copy is None and self._compiled is not None and self._compiled.is_in_place

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        if self._copy is not None:
            self._copy.run(inputs, outputs, find, pool, stop)
            return
        if stop():
            raise Stopped
        given = {**inputs, **self.channels} if self.channels else inputs
        target = outputs[self.output]
        few = LEAST_RUN_IN_ONE_PASS if self.computation.is_one_pass else LEAST_RUN
        table, compiled = self.computation.table, self._compiled if self._count >= few else None
        if table is not None and not table.serves(self._count):
            # The lookup kernel serves all tables, so it may be compiled before this table is made.
            table = compiled = None
        if compiled is not None and compiled.serves(self._count):
            compiled.bind(given, target, pool, find, None if table is None else table.found(stop))(stop)
            return
        if self._count <= self.computation.tile:
            with np.errstate(all="ignore"):
                (self.computation.compute if table is None else table.compute)(given, target, stop)
            return
        names, planes = self.computation.tensors, self._planes
        *sources, whole = planes.views([*(np.broadcast_to(given[name], target.shape) for name in names), target])
        compute = self.computation.compute if table is None else table.compute

        def piece(begin: int, end: int) -> None:
            with np.errstate(all="ignore"):
                for unit in range(begin, end):
                    for place in planes.pieces(unit, self.computation.tile):
                        if stop():
                            raise Stopped
                        taken = {name: source[place] for name, source in zip(names, sources, strict=True)}
                        compute(taken, whole[place], stop)

        pool.run(piece, planes.units, 1, stop)

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        if self._copy is not None:
            return self._copy.bind(inputs, outputs, find, pool)
        compiled = self._compiled
        otherwise = super().bind(inputs, outputs, find, pool)
        if compiled is None or self.computation.table is not None or (self._count < LEAST_RUN and compiled.is_staged):
            return otherwise
        return compiled.bind_if_it_serves({**inputs, **self.channels}, outputs[self.output], pool, find, otherwise)

    def scratch_bytes(self, threads: int) -> int:
        if self._copy is not None:
            return self._copy.scratch_bytes(threads)
        table = TABLE_BYTES if self.computation.table is not None else 0
        if self._count < LEAST_RUN:  # planned only if it is bound
            by_kernel = FEW_BYTES
        else:
            by_kernel = 0 if self._compiled is None else self._compiled.scratch_bytes(threads)
        if self._is_compiled:
            return table + by_kernel
        elements = min(self._count, self.computation.tile)
        units = 1 if elements == self._count else min(threads, self._planes.units)
        return table + max(units * elements * self.computation.bytes, by_kernel)


def _planes(plan: Plan, formula: PlanFormula, names: Iterable[str]) -> Planes:
    """Returns the layout of the named tensors and the output."""
    target = plan.outputs[formula.output_name]
    tensors = {name: (_steps(plan, formula, name), formula.inputs[name].bits // 8) for name in names}
    return planes_of(target.sizes, {**tensors, "": (byte_strides(target), target.data_type.bits // 8)})


def _steps(plan: Plan, formula: PlanFormula, name: str) -> tuple[int, ...]:
    """Returns the strides of a tensor in bytes."""
    if name in formula.channels:
        return np.broadcast_to(formula.channels[name], plan.outputs[formula.output_name].sizes).strides
    return byte_strides(plan.inputs[name])


def _compiled(plan: Plan, formula: PlanFormula, found: Computation) -> CompiledFormula | None:
    """Returns the kernel for a layout, if its tiles are large enough to pay off."""
    form = found.form()
    if form is None:
        return None
    planes = _planes(plan, formula, form.types)
    return CompiledFormula(form, planes) if planes.is_worth else None


def byte_strides(desc: BufferTensorDesc) -> tuple[int, ...]:
    """Returns the strides of a tensor in bytes."""
    size = desc.data_type.bits // 8
    return tuple(size * step for step in desc.element_strides)


def _has_unusual(expression: Expression) -> bool:
    match expression:
        case Constant(value):
            return value != 0 and not 1 / MOST_USUAL <= abs(value) <= MOST_USUAL
        case Operation(_, operands):
            return any(map(_has_unusual, operands))
    return False


def _is_truth(expression: Expression) -> bool:
    return isinstance(expression, Operation) and expression.primitive in native.TRUTHS


def _reads_once(expression: Expression, seen: set[str]) -> bool:
    """Whether no tensor occurs twice in an expression, or is in ``seen`` already."""
    match expression:
        case InputElement(name):
            is_new = name not in seen
            seen.add(name)
            return is_new
        case Operation(_, operands):
            return all(_reads_once(operand, seen) for operand in operands)
    return True


PREPARE = dict.fromkeys(
    (
        name
        for name, kind in CATALOG.items()
        if kind.family in ("arithmetic", "functions", "clipping", "logic", "bits", "activations")
    ),
    ElementsJob,
)
