"""All operators that have a formula, each by the cheapest way that is exact: see ``computation``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from opwire.check import Plan
from opwire.formulas import Call, Constant, Expression, Tensor
from opwire.operators import CATALOG
from opwire.operators.work import STEP
from opwire.tensor import Array, BufferTensorDesc, DataType

from ....execution import Arrays, Bound, Stop, Stopped
from ...formulas.bounds import is_single
from ...formulas.certified import Certified
from ...formulas.formula import PlanFormula, formula_of, tensors
from ...formulas.resolve import SCALED, integer_range
from ...views.view import View, copy
from ..jit.compiler import Kernel
from ..run.job import Job
from ..run.pool import Find, Pool
from ..views.job import CopyJob
from . import native
from .compiled import FEW, WORTH, CompiledFormula
from .forms import Form, certified_form, form_of, table_form
from .kernel import Way
from .planes import planes_of
from .tables import Table
from .walk import Walk, walk_of

KERNELS: tuple[Kernel, ...] = ()

WIDE_TILE = 1 << 13
"""Elements of a tile in float64: with some intermediate results it fits the second cache."""

TILE = 1 << 15
"""Elements of a tile in the tensors' own type."""

LONG_TILE = 1 << 18
"""Where nothing is kept between, a call of NumPy may be as long as a thread can do without being asked to stop."""

WIDE_BYTES = 3 << 7
"""Bytes of all intermediate results of an element, where some at a time take the way with a bound for each."""

BYTES, ONE_PASS_BYTES = 1 << 6, 1 << 4
"""Those in the tensors' own type, and those of a single function."""

TABLE_BYTES = WIDE_TILE * WIDE_BYTES
"""That making a table takes."""

Compute = Callable[[Mapping[str, Array], Array, Stop], None]
"""Fills an array from the tensors by name, of any shape to which they broadcast."""


@dataclass(frozen=True, slots=True)
class Computation:
    """How a formula is computed.

    Attributes:
        compute: on a tile.
        tile: its elements.
        tensors: the names of those that it reads.
        bytes: that it takes for each element of a tile.
        table: in place of all that where there are many elements, if there is one.
        form: makes what a kernel needs that takes the place of all that where there are many, if there is code for it.
    """

    compute: Compute
    tile: int
    tensors: tuple[str, ...]
    bytes: int = BYTES
    table: Table | None = None
    form: Callable[[], Form | None] = lambda: None


class ElementsJob(Job):
    """A formula on the elements of a plan.

    Attributes:
        formula: resolved.
        computation: of the formula.
        output: the name of its output.
        target: the desc of that.
        channels: tensors that stand for attributes, by name.

    Args:
        plan: with the tensors.
        formula: in place of that of the plan's operator; it is computed in the tensors' own type.
    """

    def __init__(self, plan: Plan, formula: PlanFormula | None = None) -> None:
        is_composed = formula is not None and not isinstance(formula.expression, Tensor)
        self.formula = formula = formula or formula_of(plan)
        self.computation = in_own_type(formula) if is_composed else computation(formula)
        self.output = formula.output_name
        self.channels = formula.channels
        self.target = plan.outputs[self.output]
        self._count = self.target.element_count
        self._plan = plan

    @cached_property
    def _walk(self) -> Walk:
        return _walk(self._plan, self.formula, self.computation)

    @cached_property
    def _compiled(self) -> CompiledFormula | None:
        return _compiled(self._plan, self.formula, self.computation) if self._count >= FEW else None

    @cached_property
    def _copy(self) -> CopyJob | None:
        """What moves the elements, if they only change places."""
        expression = self.formula.expression
        if not isinstance(expression, Tensor) or len(self._plan.inputs) > 1 or self.target.data_type.is_packed:
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
        """Whether a kernel serves from the first run on."""
        return self._count > WORTH and self._compiled is not None

    @property
    def method(self) -> str:
        """See ``Job.method``: NumPy, where the tiles of a layout are too small for a kernel, takes far longer."""
        return "compiled" if self._is_compiled else ""

    @property
    def visits(self) -> int:
        """See ``Job.visits``."""
        tiles = self._compiled.planes.units if self._is_compiled and self._compiled is not None else 0
        return self._plan.work + tiles * STEP

    @property
    def is_composable(self) -> bool:
        """Whether it may stand in another formula, or another one in it, and each part rounds as it does alone.

        So it is if all is computed in one type without wider steps. A formula that reads a tensor more than once would
        repeat what stands there.
        """
        formula = self.formula
        if any(each is not formula.output for each in formula.inputs.values()) or formula.output.is_packed:
            return False
        if _is_truth(formula.expression) or not _reads_once(formula.expression, set()):
            return False
        if not formula.output.is_float:
            return not _is_on_bits(formula.expression) and _scale(formula.expression) is None
        return is_single(formula.expression, formula.output)

    @property
    def is_in_place(self) -> bool:
        """Whether an output may lie where an input does: elements are read only before they are written."""
        return self.is_composable and self._copy is None and self._compiled is not None and self._compiled.is_in_place

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        if self._copy is not None:
            self._copy.run(inputs, outputs, find, pool, stop)
            return
        if stop():
            raise Stopped
        given = {**inputs, **self.channels} if self.channels else inputs
        target = outputs[self.output]
        table = self.computation.table
        if table is not None and not table.serves(self._count):
            table = None
        if self._compiled is not None and self._compiled.serves(self._count):
            self._compiled.bind(given, target, pool, None if table is None else table.found(stop))(stop)
            return
        if self._count <= self.computation.tile:
            with np.errstate(all="ignore"):
                (self.computation.compute if table is None else table.compute)(given, target, stop)
            return
        names, walk = self.computation.tensors, self._walk
        arrays = [np.broadcast_to(given[name], target.shape) for name in names]
        *sources, whole = walk.views([*arrays, target])
        compute = self.computation.compute if table is None else table.compute

        def piece(begin: int, end: int) -> None:
            with np.errstate(all="ignore"):
                for unit in range(begin, end):
                    place = walk.place(unit)
                    compute(
                        {name: source[place] for name, source in zip(names, sources, strict=True)}, whole[place], stop
                    )

        pool.run(piece, walk.units, 1, stop)

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        if self._copy is not None:
            return self._copy.bind(inputs, outputs, find, pool)
        compiled = self._compiled
        otherwise = super().bind(inputs, outputs, find, pool)
        if compiled is None or self.computation.table is not None:
            return otherwise
        return compiled.bind_if_it_serves({**inputs, **self.channels}, outputs[self.output], pool, otherwise)

    def scratch_bytes(self, threads: int) -> int:
        if self._copy is not None:
            return self._copy.scratch_bytes(threads)
        table = TABLE_BYTES if self.computation.table is not None else 0
        by_kernel = 0 if self._compiled is None else self._compiled.scratch_bytes(threads)
        if self._compiled is not None and self._count > WORTH:  # then it serves
            return table + by_kernel
        elements = min(self._count, self.computation.tile)
        units = 1 if elements == self._count else min(threads, self._walk.units)
        return table + max(units * elements * self.computation.bytes, by_kernel)


def _walk(plan: Plan, formula: PlanFormula, found: Computation) -> Walk:
    target = plan.outputs[formula.output_name]
    strides = {name: _steps(plan, formula, name) for name in found.tensors}
    return walk_of(target.sizes, {**strides, "": byte_strides(target)}, found.tile)


def _steps(plan: Plan, formula: PlanFormula, name: str) -> tuple[int, ...]:
    """The strides of a tensor in bytes."""
    if name in formula.channels:
        return np.broadcast_to(formula.channels[name], plan.outputs[formula.output_name].sizes).strides
    return byte_strides(plan.inputs[name])


def _compiled(plan: Plan, formula: PlanFormula, found: Computation) -> CompiledFormula | None:
    """The kernel for a layout, if it has tiles that are worth it."""
    form = found.form()
    if form is None:
        return None
    target = plan.outputs[formula.output_name]
    tensors = {name: (_steps(plan, formula, name), formula.inputs[name].bits // 8) for name in form.types}
    planes = planes_of(target.sizes, {**tensors, "": (byte_strides(target), target.data_type.bits // 8)})
    return CompiledFormula(form, planes) if planes.is_worth else None


def byte_strides(desc: BufferTensorDesc) -> tuple[int, ...]:
    """The strides of a tensor in bytes."""
    size = desc.data_type.bits // 8
    return tuple(size * step for step in desc.element_strides)


def computation(formula: PlanFormula) -> Computation:
    """The cheapest way to compute a formula that is exact."""
    expression, inputs, output = formula.expression, formula.inputs, formula.output
    names = tuple(sorted(tensors(expression)))
    types = {name: inputs[name] for name in names}
    if _is_on_bits(expression):
        form = partial(form_of, expression, _as_bits(types), _bits(output), Way.INTEGERS)
        return Computation(partial(_on_bits, expression), *_tile(expression, native.INTEGERS, names), form=form)
    if _scale(expression) is not None:
        return Computation(_scaled_first(formula), WIDE_TILE, names, WIDE_BYTES)
    if not any(data_type.is_float for data_type in types.values()):
        return in_own_type(formula)
    if isinstance(expression, Tensor):
        form = partial(form_of, expression, _as_bits(types), _bits(output), Way.INTEGERS)
        return Computation(partial(_copied, expression.name), LONG_TILE, names, ONE_PASS_BYTES, form=form)
    floats = {data_type for data_type in types.values() if data_type.is_float}
    unlike = {inputs[name] for name in names if name not in _conditions(expression)}
    if len(floats) == 1 and unlike == floats and is_single(expression, next(iter(floats))):
        return in_own_type(formula)
    certified = Certified.of(expression, types, output)
    if list(types.values()) == [DataType.FLOAT16]:
        table = Table(expression, names[0], output, certified.compute)
        return Computation(
            certified.compute, WIDE_TILE, names, WIDE_BYTES, table, partial(table_form, names[0], output)
        )
    return Computation(certified.compute, WIDE_TILE, names, WIDE_BYTES, form=partial(certified_form, certified))


def in_own_type(formula: PlanFormula) -> Computation:
    """How a formula of integers, or of one type of floats, is computed in that type."""
    expression, output = formula.expression, formula.output
    names = tuple(sorted(tensors(expression)))
    types = {name: formula.inputs[name] for name in names}
    floats = [data_type for data_type in types.values() if data_type.is_float]
    if not floats:
        constant = partial(_integer_constant, next(iter(types.values())))
        compute = partial(_natively, expression, native.INTEGERS, constant)
        form = partial(form_of, expression, types, output, Way.INTEGERS)
        return Computation(compute, *_tile(expression, native.INTEGERS, names), form=form)
    compute = partial(_natively, expression, native.FLOATS, floats[0].dtype.type)
    form = partial(form_of, expression, types, output, Way.FLOATS)
    return Computation(compute, *_tile(expression, native.FLOATS, names), form=form)


def _as_bits(types: Mapping[str, DataType]) -> dict[str, DataType]:
    """The unsigned integers that hold the bits of elements."""
    return {name: _bits(data_type) for name, data_type in types.items()}


def _bits(data_type: DataType) -> DataType:
    return DataType[f"UINT{data_type.bits}"]


def _tile(
    expression: Expression, functions: Mapping[str, native.Function], names: tuple[str, ...]
) -> tuple[int, tuple[str, ...], int]:
    """The elements of a tile, the tensors, and what it takes for each element."""
    is_one_pass = native.is_one_pass(expression, functions)
    return (LONG_TILE, names, ONE_PASS_BYTES) if is_one_pass else (TILE, names, BYTES)


def _is_truth(expression: Expression) -> bool:
    return isinstance(expression, Call) and expression.primitive in native.TRUTHS


def _reads_once(expression: Expression, seen: set[str]) -> bool:
    """Whether no tensor stands twice in an expression, nor among those that were seen."""
    match expression:
        case Tensor(name):
            is_new = name not in seen
            seen.add(name)
            return is_new
        case Call(_, operands):
            return all(_reads_once(operand, seen) for operand in operands)
    return True


def _is_on_bits(expression: Expression) -> bool:
    return isinstance(expression, Call) and expression.primitive in native.ON_BITS


def _conditions(expression: Expression) -> set[str]:
    """The tensors that are truth values."""
    match expression:
        case Call("select", (Tensor(name), _, _)):
            return {name}
    return set()


def _scale(expression: Expression) -> Call | None:
    """The part of a formula that is ScaleBias of integers."""
    match expression:
        case Call(primitive, operands):
            if primitive == SCALED:
                return expression
            return next((found for operand in operands if (found := _scale(operand)) is not None), None)
    return None


def _copied(name: str, given: Mapping[str, Array], target: Array, stop: Stop) -> None:
    target[...] = given[name]


def _natively(
    expression: Expression,
    functions: Mapping[str, native.Function],
    constant: native.Function,
    given: Mapping[str, Array],
    target: Array,
    stop: Stop,
) -> None:
    native.evaluate_into(expression, given, functions, constant, target)


def _on_bits(expression: Expression, given: Mapping[str, Array], target: Array, stop: Stop) -> None:
    stored = {name: array.view(f"<u{array.dtype.itemsize}") for name, array in given.items()}
    place = target if target.dtype.kind == "u" else target.view(f"<u{target.dtype.itemsize}")
    native.evaluate_into(expression, stored, native.INTEGERS, int, place)


def _integer_constant(data_type: DataType, value: int) -> object:
    least, greatest = integer_range(data_type)
    # What lies outside is only compared with, which NumPy does for integers of Python.
    return data_type.dtype.type(value) if least <= value <= greatest else value


def _scaled_first(formula: PlanFormula) -> Compute:
    """ScaleBias of integers into an array of theirs, and then what is computed from it."""
    scale = _scale(formula.expression)
    assert scale is not None
    (operand, factor, bias) = scale.operands
    assert isinstance(operand, Tensor)
    data_type = formula.inputs[operand.name]
    types = {operand.name: data_type}
    first = Certified(scale, types, data_type, operand * factor + bias, None, False)
    rest = _replaced(formula.expression, scale, operand)
    if isinstance(rest, Tensor):
        return first.compute
    second = computation(replace(formula, expression=rest)).compute

    def compute(given: Mapping[str, Array], target: Array, stop: Stop) -> None:
        between = np.empty(given[operand.name].shape, data_type.dtype)
        first.compute({operand.name: given[operand.name]}, between, stop)
        second({**given, operand.name: between}, target, stop)

    return compute


def _replaced(expression: Expression, part: Expression, by: Expression) -> Expression:
    match expression:
        case Call(primitive, operands) if expression != part:
            return Call(primitive, tuple(_replaced(operand, part, by) for operand in operands))
        case Constant():
            return expression
    return by if expression == part else expression


PREPARE = dict.fromkeys(
    (
        name
        for name, kind in CATALOG.items()
        if kind.family in ("arithmetic", "functions", "clipping", "logic", "bits", "activations")
    ),
    ElementsJob,
)
