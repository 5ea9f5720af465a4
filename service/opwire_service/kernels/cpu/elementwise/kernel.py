"""Kernels of single formulas: one for each formula structure, types and broadcast pattern, compiled on demand."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from functools import reduce
from threading import Lock
from typing import Any

from llvmlite import ir

from opwire.formulas import Expression, InputElement
from opwire.tensor import DataType

from ...formulas.formula import primitives
from ...formulas.quick import GUARD, is_last_alone, is_worth
from ..numbers.lanes import DOUBLE, INT, LONG, Lanes, Vector
from . import code
from .certified_code import SPECIAL, CertifiedCode
from .code import KernelParameter, stored_type
from .conversions import converted, of_floats
from .loops import CountedLoop, long_of
from .machine_code import INTEGER, MachineCode, begin, compiled, has_sixteenths
from .recipe import CERTIFIED_WIDTH, IN_FLOAT64, Recipe, Way, constant_type

KEPT = 512
"""Number of most recently compiled kernels kept in memory, some 20 KB each."""

ROWS, COLUMNS, TARGET, TARGET_STEP, NUMBERS, UNDECIDED, SOURCES = range(7)
"""Slots of the arguments, followed by the address and row pitch in bytes of each source."""

COUNT, ROOM, RECORDS = range(3)
"""Slots of the list of undecided elements, in int64: number of records wanted, capacity in records, first record."""

ARGUMENTS, ROW, COLUMN, BITS, RECORD = range(5)
"""Slots of a record: address of the kernel's arguments, position of a vector, and a bit for each undecided element.
A kernel that finds the list full returns 1."""

_kernels: OrderedDict[Recipe, MachineCode] = OrderedDict()
_lock = Lock()


def kernel_of(recipe: Recipe) -> MachineCode:
    """Returns the kernel of a recipe, compiling it if it is new."""
    found = _kernels.get(recipe)
    if found is None:
        is_narrow = recipe.way in (Way.FLOATS, Way.INTEGERS, Way.TABLE)
        found = compiled(module_of(recipe), is_narrow=is_narrow)
        with _lock:
            _kernels[recipe] = found
            if len(_kernels) > KEPT:
                _kernels.popitem(last=False)
    return found


def is_ready(recipe: Recipe) -> bool:
    """Whether the kernel of a recipe is compiled."""
    return recipe in _kernels


def module_of(recipe: Recipe, looks_up: bool | None = None) -> ir.Module:
    """Returns the LLVM module of a kernel.

    Args:
        recipe: the recipe.
        looks_up: whether to use lookup tables in registers; by default if the processor supports it.
    """
    module, function = begin()
    _Writer(recipe, function, has_sixteenths() if looks_up is None else looks_up).write()
    return module


class _Writer:
    """Writes the loops of a kernel: over rows, and over vectors of their elements.

    The last vector of a row is shifted back to be whole, so it recomputes some elements. Rows shorter than a vector are
    copied to the stack. Streamed vectors are aligned to their size; the ends of the row are computed in a vector on the
    stack.
    """

    def __init__(self, recipe: Recipe, function: ir.Function, looks_up: bool) -> None:
        self._recipe = recipe
        self._function = function
        self._builder: Any = ir.IRBuilder(function.append_basic_block("entry"))
        self._v = Lanes(self._builder, recipe.width, looks_up)

    def write(self) -> None:
        builder, recipe = self._builder, self._recipe
        arguments = builder.inttoptr(self._function.args[0], LONG.as_pointer())
        self._arguments = [
            builder.load(builder.gep(arguments, [ir.Constant(INT, place)]))
            for place in range(SOURCES + 2 * len(recipe.sources))
        ]
        self._sizes = [source.data_type.bits // 8 for source in recipe.sources]
        self._size = recipe.output.bits // 8
        self._spaces = [self._space(size) for size in (*self._sizes, self._size)]
        self._parameters = [self._parameter(place) for place in range(recipe.parameters)]
        if recipe.way is Way.CERTIFIED:
            low, high = (self._number(recipe.parameters + place, DOUBLE) for place in range(2))
            self._reach = low, high
        self._overflows = self._variable(INTEGER)
        with self._loop(self._arguments[ROWS], 1) as row:
            self._row(row)
        if recipe.is_streamed:
            builder.fence("seq_cst")  # complete streaming stores before other threads learn that the results are there
        builder.ret(builder.load(self._overflows))

    def _variable(self, kind: Any) -> Any:
        place = self._builder.alloca(kind)
        self._builder.store(ir.Constant(kind, 0), place)
        return place

    def _space(self, size: int) -> Any:
        """Allocates space for a vector on the stack; returns its address."""
        kind = ir.ArrayType(ir.IntType(8), size * self._recipe.width)
        return self._builder.ptrtoint(self._builder.alloca(kind), INTEGER)

    def _number(self, place: int, element: Any) -> Vector:
        address = self._builder.add(self._arguments[NUMBERS], ir.Constant(INTEGER, 8 * place))
        return self._v.spread(self._builder.load(self._builder.inttoptr(address, element.as_pointer())))

    def _parameter(self, place: int) -> Vector:
        if self._recipe.way in IN_FLOAT64:
            return self._number(place, DOUBLE)
        return self._number(place, stored_type(constant_type(self._recipe)))

    def _loop(self, count: Any, step: int) -> CountedLoop:
        return CountedLoop(self._builder, self._function, count, step)

    def _row(self, row: Any) -> None:
        builder, arguments = self._builder, self._arguments
        self._row_number = row
        target = builder.add(arguments[TARGET], builder.mul(row, arguments[TARGET_STEP]))
        places = []
        for number in range(len(self._recipe.sources)):
            address, step = arguments[SOURCES + 2 * number : SOURCES + 2 * number + 2]
            places.append(builder.add(address, builder.mul(row, step)))
        spread: dict[Expression, Vector] = {}
        for source, place in zip(self._recipe.sources, places, strict=True):
            if source.is_spread:
                pointer = builder.inttoptr(place, stored_type(source.data_type).as_pointer())
                spread[InputElement(source.name)] = self._v.spread(builder.load(pointer, align=1))
        columns, width = arguments[COLUMNS], long_of(self._recipe.width)
        is_short = builder.icmp_signed("<", columns, width)
        packed = [number for number, source in enumerate(self._recipe.sources) if not source.is_spread]
        with builder.if_then(is_short, likely=False):
            for number in packed:
                self._copy(self._spaces[number], places[number], builder.mul(columns, long_of(self._sizes[number])))
        here = {number: builder.select(is_short, self._spaces[number], places[number]) for number in packed}
        there = builder.select(is_short, self._spaces[-1], target)
        last = builder.select(is_short, long_of(0), builder.sub(columns, width))
        if self._recipe.is_streamed:
            columns = self._streamed(target, here, spread)
        with self._loop(columns, self._recipe.width) as column:
            start = builder.select(builder.icmp_signed("<", column, last), column, last)
            self._vector(column, start, here, there, spread)
        with builder.if_then(is_short, likely=False):
            self._copy(target, self._spaces[-1], builder.mul(arguments[COLUMNS], long_of(self._size)))

    def _streamed(self, target: Any, here: dict[int, Any], spread: Mapping[Any, Vector]) -> Any:
        """Streams a row except its unaligned ends; returns the number of elements left for the regular loop.

        That is none, or all if no element is aligned to the vector size.
        """
        builder, columns, size = self._builder, self._arguments[COLUMNS], long_of(self._size)
        width, whole = long_of(self._recipe.width), self._recipe.width * self._size
        before = builder.and_(builder.neg(target), long_of(whole - 1))
        is_whole = builder.icmp_signed("==", builder.and_(before, long_of(self._size - 1)), long_of(0))
        can_be = builder.and_(is_whole, builder.icmp_signed(">=", columns, long_of(2 * self._recipe.width)))
        with builder.if_then(can_be):
            first = builder.udiv(before, size)
            vectors = builder.udiv(builder.sub(columns, first), width)
            after = builder.add(first, builder.mul(vectors, width))
            with self._loop(vectors, 1) as number:
                start = builder.add(first, builder.mul(number, width))
                self._vector(start, start, here, target, spread, is_streamed=True)
            with self._loop(long_of(2), 1) as end:
                is_first = builder.icmp_signed("==", end, long_of(0))
                start = builder.select(is_first, long_of(0), builder.sub(columns, width))
                begin = builder.select(is_first, long_of(0), after)
                count = builder.sub(builder.select(is_first, first, columns), begin)
                space = builder.sub(self._spaces[-1], builder.mul(start, size))
                self._vector(start, start, here, space, spread)
                there, made = (builder.add(each, builder.mul(begin, size)) for each in (target, space))
                self._copy(there, made, builder.mul(count, size))
        return builder.select(can_be, long_of(0), columns)

    def _vector(
        self,
        column: Any,
        start: Any,
        here: dict[int, Any],
        there: Any,
        spread: Mapping[Any, Vector],
        *,
        is_streamed: bool = False,
    ) -> None:
        builder = self._builder
        leaves = dict(spread)
        for number, address in here.items():
            source, size = self._recipe.sources[number], long_of(self._sizes[number])
            place = builder.add(address, builder.mul(start, size))
            leaves[InputElement(source.name)] = self._load(place, stored_type(source.data_type))
        target = builder.add(there, builder.mul(start, long_of(self._size)))
        if self._recipe.way is not Way.CERTIFIED:
            self._store(self._result(leaves), target, is_streamed=is_streamed)
            return
        value, certified = self._certified(leaves)
        if not self._recipe.slack:
            self._store(certified.rounded(value, self._recipe.output), target)
            if certified.undecided:
                self._note(reduce(builder.or_, certified.undecided), column, start)
            return
        if not is_worth(self._recipe.expression):
            self._settle(value, certified, target, column, start)
            return
        element = certified.nearly_rounded(value, self._recipe.output)
        self._store(element, target)
        undecided = certified.is_undecided(value, element, self._recipe.slack)
        with builder.if_then(self._is_any(undecided), likely=False):
            undecided = certified.unless_far(undecided, value)
            with builder.if_then(self._is_any(undecided), likely=False):
                if self._special:
                    value, certified = self._certified(leaves, SPECIAL)
                self._settle(value, certified, target, column, start)

    @property
    def _special(self) -> bool:
        """Whether a function of the formula leaves special numbers undecided at first."""
        named = {primitive.removeprefix(GUARD) for primitive in primitives(self._recipe.expression)}
        return not named.isdisjoint(SPECIAL)

    def _settle(self, value: Vector, certified: CertifiedCode, target: Any, column: Any, start: Any) -> None:
        """Stores a vector that has elements between midpoints, or subnormal ones, and notes those left undecided."""
        v, builder, output = self._v, self._builder, self._recipe.output
        low, high = (certified.rounded(v.multiply(value, each), output) for each in self._reach)
        undecided = builder.icmp_signed("!=", low, high)
        if is_worth(self._recipe.expression) and not is_last_alone(self._recipe.expression):
            undecided = builder.or_(undecided, v.not_(v.compare("<", v.absolute(value), v.infinity)))
        for each in certified.undecided:
            undecided = builder.or_(undecided, each)
        self._store(high, target)
        self._note(undecided, column, start)

    def _is_any(self, truths: Vector) -> Any:
        word = self._builder.bitcast(truths, ir.IntType(CERTIFIED_WIDTH))
        return self._builder.icmp_unsigned("!=", word, ir.Constant(word.type, 0))

    def _certified(
        self, leaves: Mapping[Expression, Vector], functions: Mapping[str, Any] | None = None
    ) -> tuple[Vector, CertifiedCode]:
        """Returns the value in FLOAT64, and the code object that knows which lanes are undecided."""
        parameters: dict[Expression, Vector] = {KernelParameter(i): each for i, each in enumerate(self._parameters)}
        certified = CertifiedCode(self._v, parameters, functions)
        certified.know(
            {
                InputElement(each.name): certified.widened(leaves[InputElement(each.name)], each.data_type)
                for each in self._recipe.sources
            }
        )
        return certified.last(self._recipe.expression), certified

    def _result(self, leaves: dict[Expression, Vector]) -> Vector:
        recipe, v = self._recipe, self._v
        parameters: dict[Expression, Vector] = {KernelParameter(i): each for i, each in enumerate(self._parameters)}
        if recipe.way is Way.FLOAT32:
            for source in recipe.sources:
                tensor = InputElement(source.name)
                leaves[tensor] = converted(v, leaves[tensor], source.data_type, DataType.FLOAT32)
        if recipe.way in (Way.FLOATS, Way.FLOAT32):
            floats = code.NativeFloats(v, {**leaves, **parameters})
            return floats.stored(floats.of(recipe.expression), recipe.output)
        if recipe.way is Way.INTEGERS:
            is_signed = recipe.sources[0].data_type.is_signed
            integers = code.NativeIntegers(v, {**leaves, **parameters}, is_signed=is_signed)
            return integers.stored(integers.of(recipe.expression), recipe.output)
        if recipe.way is Way.TABLE:
            return self._looked_up(leaves[recipe.expression])
        if recipe.way is Way.UNROUNDED:
            return self._certified(leaves)[0]
        return self._converted(leaves)

    def _converted(self, leaves: dict[Expression, Vector]) -> Vector:
        recipe = self._recipe
        if isinstance(recipe.expression, InputElement):
            return converted(self._v, leaves[recipe.expression], recipe.sources[0].data_type, recipe.output)
        value = self._certified(leaves)[0]
        return of_floats(self._v, value, recipe.output)

    def _looked_up(self, patterns: Vector) -> Vector:
        """Looks up the table entry for each FLOAT16."""
        builder, element = self._builder, stored_type(self._recipe.output)
        result = ir.Constant(self._v.of(element), ir.Undefined)
        for place in range(self._recipe.width):
            pattern = builder.zext(builder.extract_element(patterns, ir.Constant(INT, place)), INTEGER)
            address = builder.add(self._arguments[NUMBERS], builder.mul(pattern, long_of(self._size)))
            entry = builder.load(builder.inttoptr(address, element.as_pointer()))
            result = builder.insert_element(result, entry, ir.Constant(INT, place))
        return result

    def _note(self, undecided: Vector, column: Any, start: Any) -> None:
        """Records a vector of truth values if any is true, ignoring elements before its column and past the row."""
        builder = self._builder
        bits = builder.zext(builder.bitcast(undecided, ir.IntType(CERTIFIED_WIDTH)), INTEGER)
        left = builder.sub(self._arguments[COLUMNS], start)
        fewer = builder.select(builder.icmp_signed("<", left, long_of(CERTIFIED_WIDTH)), left, long_of(CERTIFIED_WIDTH))
        bits = builder.and_(bits, builder.sub(builder.shl(long_of(1), fewer), long_of(1)))
        bits = builder.lshr(bits, builder.sub(column, start))
        with builder.if_then(builder.icmp_signed("!=", bits, long_of(0)), likely=False):
            found = builder.inttoptr(self._arguments[UNDECIDED], LONG.as_pointer())
            number = builder.atomic_rmw("add", found, long_of(1), "monotonic")
            room = builder.load(builder.gep(found, [long_of(ROOM)]))
            with builder.if_else(builder.icmp_signed("<", number, room)) as (recorded, full):
                with recorded:
                    first = builder.add(builder.mul(number, long_of(RECORD)), long_of(RECORDS))
                    for place, value in enumerate((self._function.args[0], self._row_number, column, bits)):
                        builder.store(value, builder.gep(found, [builder.add(first, long_of(place))]))
                with full:
                    builder.store(long_of(1), self._overflows)

    def _load(self, address: Any, element: Any) -> Vector:
        return self._builder.load(self._builder.inttoptr(address, self._v.of(element).as_pointer()), align=1)

    def _store(self, value: Vector, address: Any, *, is_streamed: bool = False) -> None:
        builder, size = self._builder, self._recipe.width * self._size
        place = builder.inttoptr(address, value.type.as_pointer())
        stored = builder.store(value, place, align=size if is_streamed else 1)
        if is_streamed:
            stored.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(INT, 1)]))

    def _copy(self, target: Any, source: Any, count: Any) -> None:
        """Copies ``count`` bytes."""
        builder, byte = self._builder, ir.IntType(8).as_pointer()
        name = "llvm.memcpy.p0.p0.i64"
        kind = ir.FunctionType(ir.VoidType(), [byte, byte, INTEGER, ir.IntType(1)])
        function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        addresses = (builder.inttoptr(each, byte) for each in (target, source))
        builder.call(function, [*addresses, count, ir.Constant(ir.IntType(1), 0)])
