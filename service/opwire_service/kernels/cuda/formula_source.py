"""Generates C for NVRTC from formulas, using the cheapest method that computes each element exactly."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil, isinf

from opwire.formulas import Constant, Expression, InputElement, Operation
from opwire.tensor import DataType

from ..formulas.bounds import BINARY64, error_bound, is_single
from ..formulas.formula import PlanFormula, tensors
from ..formulas.resolve import SCALED, integer_range
from ..formulas.slopes import DISTANCES, SLOPES, VALUE, X
from .job import TYPES
from .pair_source import pair_lines
from .powers import rounded_once
from .primitives import TRUTHS, double, of_floats
from .quick_source import quick_lines
from .ramp_source import ramp_lines

ON_BITS = {
    "bit_and": "{0} & {1}",
    "bit_or": "{0} | {1}",
    "bit_xor": "{0} ^ {1}",
    "bit_not": "~{0}",
    "bit_count": "bits_count({0})",
    "shift_left": "bits_left({0}, {1})",
    "shift_right": "bits_right({0}, {1})",
}

INTEGERS = {
    "not_": "!{0}",
    "and_": "{0} && {1}",
    "or_": "{0} || {1}",
    "xor": "!{0} != !{1}",
    "select": "{0} ? {1} : {2}",
    SCALED: "scaled_integer({0}, {1}, {2})",
}
"""The integer primitives that do not correspond by name to a function of ``integer_primitives``."""

_MOVING = frozenset(("absolute", "negate"))


@dataclass
class Body:
    """The statements of a function; each subexpression is evaluated once, however often it is used.

    Attributes:
        lines: the statements.
        names: the variable of each subexpression, with the arithmetic it is computed in.
    """

    lines: list[str] = field(default_factory=list)
    names: dict[tuple[str, Expression], str] = field(default_factory=dict)

    def variable(self, kind: str, expression: Expression, declared: str, value: str) -> str:
        """Declares a new variable with a value and returns its name."""
        name = self.names[kind, expression] = f"t{len(self.names)}"
        self.lines.append(f"    {declared} {name} = {value};")
        return name


@dataclass(frozen=True)
class FormulaSource:
    """A formula as C source.

    Attributes:
        formula: the formula with its data types.
        names: names of the tensors it reads, in parameter order.
        in_pairs: whether pairs of FLOAT32 are faster than float64.
    """

    formula: PlanFormula
    names: tuple[str, ...]
    in_pairs: bool = False

    @classmethod
    def of(cls, formula: PlanFormula, *, in_pairs: bool = False) -> FormulaSource:
        if formula.output in (DataType.FLOAT32, DataType.FLOAT16):
            formula = replace(formula, expression=rounded_once(formula.expression))
        return cls(formula, tuple(sorted(tensors(formula.expression))), in_pairs)

    @property
    def is_always_settled(self) -> bool:
        """Whether the GPU decides every element, leaving none to the host."""
        return not self._is_certified

    def text(self, number: int) -> str:
        """Returns the functions ``quick_NUMBER`` and ``settle_NUMBER``, which take the elements and set the result."""
        quick, settle = f"quick_{number}", f"settle_{number}"
        if not self._is_certified:
            body = Body()
            body.lines.append(f"    result = {self._stored(self.formula.expression, body)};")
            body.lines.append("    return true;")
            arguments = ", ".join([*map(self._argument, self.names), "result"])
            return self.function(quick, body.lines) + self.function(settle, [f"    return {quick}({arguments});"])
        numbers, at_first = "", self.in_floats()
        if not at_first:
            numbers, at_first = quick_lines(self.formula, self.names, f"numbers_{number}")
        in_doubles = self._in_doubles()
        later = self._bounded_lines()
        if at_first and in_doubles:
            later = ["    {", *in_doubles[:-1], f"    if ({_returned(in_doubles)}) return true;", "    }", *later]
        first = at_first or in_doubles or ["    return false;"]
        return numbers + self.function(quick, first) + self.function(settle, later)

    def in_floats(self) -> list[str]:
        """Returns statements without float64 that settle most results; none if there is no such way."""
        found = self._but_overflow()
        if not found and self.in_pairs:
            found = pair_lines(self.formula, self.names) or ramp_lines(self.formula, self.names)
        return found

    @property
    def _is_certified(self) -> bool:
        """Whether results are rounded from a wider type and need certification."""
        return not self._is_single()

    def _is_single(self, *, but_overflow: bool = False) -> bool:
        """Whether the own type of the tensors yields the results, or those that are not NaN."""
        formula = self.formula
        types = {formula.inputs[name] for name in self.names}
        floats = {data_type for data_type in types if data_type.is_float}
        if not floats or isinstance(formula.expression, InputElement) or self._is_on_bits:
            return True
        if formula.output is DataType.FLOAT64:
            return True
        conditions = _conditions(formula.expression)
        unlike = {formula.inputs[name] for name in self.names if name not in conditions}
        if len(floats) > 1 or unlike != floats:
            return False
        return is_single(formula.expression, next(iter(floats)), fuses=True, but_overflow=but_overflow)

    def _but_overflow(self) -> list[str]:
        """Returns statements in the own type of the tensors, whose results are settled unless they are NaN."""
        if not self._is_single(but_overflow=True):
            return []
        body = Body()
        body.lines.append(f"    result = {self._stored(self.formula.expression, body)};")
        return [*body.lines, "    return widen(result) == widen(result);"]

    @property
    def _is_on_bits(self) -> bool:
        return isinstance(self.formula.expression, Operation) and self.formula.expression.primitive in ON_BITS

    def function(self, name: str, lines: list[str]) -> str:
        """Returns a function from the formula's elements to its result that returns whether the result is settled."""
        output = TYPES[self.formula.output]
        parameters = [f"{TYPES[self.formula.inputs[each]]} {self._argument(each)}" for each in self.names]
        head = f"static __device__ __forceinline__ bool {name}({', '.join([*parameters, f'{output} &result'])}) {{\n"
        return head + f"    typedef {output} Output;\n" + "\n".join(lines) + "\n}\n"

    def _argument(self, name: str) -> str:
        return f"x{self.names.index(name)}"

    def _stored(self, expression: Expression, body: Body) -> str:
        """Returns the stored element; where it is only moved, or its sign changed, its other bits are kept."""
        inputs, output = self.formula.inputs, self.formula.output
        match expression:
            case InputElement(name) if inputs[name] is output:
                return self._argument(name)
            case Operation("select", (condition, yes, no)):
                return f"({self._value(condition, body)} ? {self._stored(yes, body)} : {self._stored(no, body)})"
            case Operation(primitive, (InputElement(name),)) if primitive in _MOVING and inputs[name].is_float:
                return f"stored_{primitive}({self._argument(name)})"
            case Operation(primitive, operands) if primitive in ON_BITS:
                return self._of_bits(primitive, operands)
            case Operation("add", (Operation("multiply", (InputElement(name), scale)), bias)) if (
                output is DataType.FLOAT64
            ):
                return f"fma({self._argument(name)}, {double(scale)}, {double(bias)})"
            case _:
                pass
        value = self._value(expression, body)
        is_truth = isinstance(expression, Operation) and expression.primitive in TRUTHS
        return f"narrowed<Output>({value})" if output.is_float and not is_truth else f"(Output)({value})"

    def _of_bits(self, primitive: str, operands: tuple[Expression, ...]) -> str:
        given = (
            f"bits_of({self._argument(operand.name)})" for operand in operands if isinstance(operand, InputElement)
        )
        bits = ON_BITS[primitive].format(*given)
        return f"(Output)({bits})" if primitive == "bit_count" else f"made<Output>({bits})"

    def _value(self, expression: Expression, body: Body) -> str:
        """Returns the value in the tensors' own type; FLOAT16 is widened to FLOAT32, which rounds equally well."""
        if not any(data_type.is_float for data_type in self.formula.inputs.values()):
            return self._integer(expression, body)
        return self._float(expression, body)

    def _float(self, expression: Expression, body: Body) -> str:
        key = "float", expression
        if key in body.names:
            return body.names[key]
        match expression:
            case InputElement(name):
                return body.variable(*key, "auto", f"widen({self._argument(name)})")
            case Constant():
                return _single(expression)
            case Operation("maximum", (Constant() as low, Operation("minimum", (limited, Constant() as high)))):
                given = [self._float(operand, body) for operand in (limited, low, high)]
                return body.variable(*key, "float", f"limited_to({', '.join(given)})")
            case Operation("add", (Operation("multiply", factors), added)) if self.formula.output is DataType.FLOAT32:
                given = [self._float(operand, body) for operand in (*factors, added)]
                return body.variable(*key, "float", f"fmaf({', '.join(given)})")
            case Operation(primitive, operands):
                given = [self._float(operand, body) for operand in operands]
                declared = "bool" if primitive in TRUTHS else "float"
                return body.variable(*key, declared, of_floats(primitive, given))
            case _:
                pass
        raise TypeError(expression)

    def _integer(self, expression: Expression, body: Body) -> str:
        key = "integer", expression
        if key in body.names:
            return body.names[key]
        match expression:
            case InputElement(name):
                return self._argument(name)
            case Constant(number):
                return self._integer_constant(int(number))
            case Operation(primitive, operands) if primitive == SCALED:
                (operand, *numbers) = operands
                given = [self._integer(operand, body), *map(_single, numbers)]
                return body.variable(*key, "auto", INTEGERS[SCALED].format(*given))
            case Operation(primitive, operands):
                given = [self._integer(operand, body) for operand in operands]
                if primitive in INTEGERS:
                    value = INTEGERS[primitive].format(*given)
                else:
                    value = f"integer_{primitive}({', '.join(given)})"
                return body.variable(*key, "i32" if primitive in TRUTHS else "auto", value)
            case _:
                pass
        raise TypeError(expression)

    def _integer_constant(self, value: int) -> str:
        data_type = self.formula.inputs[self.names[0]]
        least, greatest = integer_range(data_type)
        if least <= value <= greatest:
            return f"({TYPES[data_type]}){value & (1 << 64) - 1}ull"
        return f"(i64)({value}ll)"

    def _in_doubles(self) -> list[str]:
        """Returns statements that evaluate the formula in double, rounding if settled; empty without an error bound."""
        formula = self.formula
        bound = error_bound(formula.expression, formula.inputs) if formula.output.is_float else None
        if bound is None:
            return []
        body = Body()
        value = self.double_value(formula.expression, body)
        reach = bound + 2 * BINARY64.unit
        slack = ceil(reach / BINARY64.unit) + 1
        settled = f"certainly({value}, {slack}, {reach.hex()}, result)"
        if _has_infinity(formula.expression):
            settled += f" && {value} == {value}"
        return [*body.lines, f"    return {settled};"]

    def double_value(self, expression: Expression, body: Body) -> str:
        """Returns the value in double, adding its statements to the body."""
        key = "double", expression
        if key in body.names:
            return body.names[key]
        match expression:
            case InputElement(name):
                return body.variable(*key, "double", f"(double)widen({self._argument(name)})")
            case Constant():
                return double(expression)
            case Operation("maximum", (Constant() as low, Operation("minimum", (limited, Constant() as high)))):
                given = [self.double_value(operand, body) for operand in (limited, low, high)]
                return body.variable(*key, "double", f"limited_to({', '.join(given)})")
            case Operation(primitive, operands):
                given = [self.double_value(operand, body) for operand in operands]
                declared = "bool" if primitive in TRUTHS else "double"
                return body.variable(*key, declared, of_floats(primitive, given))
            case _:
                pass
        raise TypeError(expression)

    def _bounded_lines(self) -> list[str]:
        body = Body()
        value = self._bounded(self.formula.expression, body)
        settled = f"settled({value}, result)"
        if _has_infinity(self.formula.expression):
            settled += f" && {value}.value == {value}.value"
        return [*body.lines, f"    return {settled};"]

    def _bounded(self, expression: Expression, body: Body) -> str:
        key = "bounded", expression
        if key in body.names:
            return body.names[key]
        match expression:
            case InputElement(name):
                value = f"exactly((double)widen({self._argument(name)}))"
            case Constant():
                value = f"exactly({double(expression)})"
            case Operation(primitive, (InputElement(name), *numbers)) if primitive == SCALED:
                scaled = INTEGERS[SCALED].format(self._argument(name), *map(_single, numbers))
                value = f"exactly((double){scaled})"
            case Operation("maximum", (Constant() as low, Operation("minimum", (limited, Constant() as high)))):
                value = f"bounded_limited({self._bounded(limited, body)}, {double(low)}, {double(high)})"
            case Operation(primitive, (operand,)) if primitive in SLOPES:
                value = _bounded_function(primitive, self._bounded(operand, body), body)
            case Operation(primitive, operands):
                given = ", ".join([self._bounded(operand, body) for operand in operands])
                value = f"bounded_{primitive}({given})"
            case _:
                raise TypeError(expression)
        return body.variable(*key, "Bounded", value)


def _bounded_function(primitive: str, operand: str, body: Body) -> str:
    """Returns a function of an operand with an error; adds its value to the body."""
    value = f"f{len(body.lines)}"
    body.lines.append(f"    double {value} = {primitive}({operand}.value);")
    known: dict[Expression, str] = {X: f"{operand}.value", VALUE: value}
    slope = _inline(SLOPES[primitive], known)
    if primitive == "tan":
        slope = f"{operand}.error * fabs({value}) > 0.01 ? UNKNOWN : {slope}"
    distance = _inline(DISTANCES[primitive], known) if primitive in DISTANCES else "UNKNOWN"
    more = f", 8 * UNIT * {operand}.value * {operand}.value" if primitive == "erfc" else ""
    return f"bounded_function({operand}, {value}, {operand}.error == 0 ? 0 : ({slope}), {distance}{more})"


def _inline(expression: Expression, known: Mapping[Expression, str]) -> str:
    """Returns an expression in double without variables of its own."""
    match expression:
        case Constant():
            return double(expression)
        case Operation(primitive, operands):
            return f"({of_floats(primitive, [_inline(operand, known) for operand in operands])})"
        case _:
            return known[expression]


def _single(constant: Expression) -> str:
    """Formats a constant as a float."""
    assert isinstance(constant, Constant)
    (bits,) = struct.unpack("<I", struct.pack("<f", constant.value))
    return f"__uint_as_float({bits:#x}u)"


def _conditions(expression: Expression) -> set[str]:
    """Returns the tensors used as truth values."""
    match expression:
        case Operation("select", (InputElement(name), _, _)):
            return {name}
        case _:
            pass
    return set()


def _returned(lines: list[str]) -> str:
    """Returns the expression that the last statement returns."""
    return lines[-1].strip().removeprefix("return ").removesuffix(";")


def _has_infinity(expression: Expression) -> bool:
    match expression:
        case Constant(value):
            return isinf(value)
        case Operation(_, operands):
            return any(map(_has_infinity, operands))
        case _:
            pass
    return False


def has_scale(expression: Expression) -> bool:
    """Returns whether a formula scales integers anywhere."""
    match expression:
        case Operation(primitive, operands):
            return primitive == SCALED or any(map(has_scale, operands))
        case _:
            pass
    return False
