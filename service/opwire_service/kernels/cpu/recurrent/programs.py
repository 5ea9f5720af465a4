"""Activations as programs, from their formulas."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opwire.fields.member import NestedOperator
from opwire.formulas import Constant, Expression, InputElement, Operation
from opwire.tensor import Array

from ...formulas.float64 import evaluate
from ...formulas.resolve import activated_expression
from .geometry import CHUNK, Instruction, Program
from .primitives import CODES

_NUMBERS = InputElement("Values")


class Programs:
    """The programs of some activations, which share registers.

    Attributes:
        all: the programs.
        registers: the registers before the first program, ``[registers, CHUNK]``: constants fill them, and stay.
    """

    def __init__(self, activations: Sequence[NestedOperator]) -> None:
        self._constants: dict[Expression, int] = {}
        expressions = [activated_expression(each, _NUMBERS) for each in activations]
        for each in expressions:
            self._find_constants(each)
        self._most = len(self._constants)
        self.all = [self._program(each) for each in expressions]
        self.registers: Array = np.zeros((self._most, CHUNK))
        for constant, register in self._constants.items():
            self.registers[register - 1] = evaluate(constant, {})

    def _find_constants(self, expression: Expression) -> None:
        if _is_constant(expression):
            self._constants.setdefault(expression, len(self._constants) + 1)
        elif isinstance(expression, Operation):
            for operand in expression.operands:
                self._find_constants(operand)

    def _program(self, expression: Expression) -> Program:
        if expression == _NUMBERS:
            return Program()
        written: list[Instruction] = []
        known = {**self._constants, _NUMBERS: 0}
        result = self._write(expression, written, known)
        if written and result == written[-1].target:
            written[-1].target = 0
        else:
            raise TypeError(expression)
        return Program(count=len(written), instructions=written)

    def _write(self, expression: Expression, written: list[Instruction], known: dict[Expression, int]) -> int:
        """Appends the instructions of an expression; returns the register of its value."""
        if expression not in known:
            assert isinstance(expression, Operation)
            code, is_turned = CODES[expression.primitive]
            operands = [self._write(each, written, known) for each in expression.operands]
            target = len(self._constants) + len(written) + 1
            places = dict(
                zip(("first", "second", "third"), reversed(operands) if is_turned else operands, strict=False)
            )
            written.append(Instruction(code=code, target=target, **places))
            known[expression] = target
            self._most = max(self._most, target)
        return known[expression]


def _is_constant(expression: Expression) -> bool:
    if isinstance(expression, Operation):
        return all(map(_is_constant, expression.operands))
    return isinstance(expression, Constant)
