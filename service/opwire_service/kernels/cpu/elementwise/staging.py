"""Copies tiles between strided tensors and contiguous rows: element by element, or in transposed squares."""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir

from ..numbers.lanes import INT, LONG
from .loops import CountedLoop
from .machine_code import INTEGER, MachineCode, begin, compiled

OUTER, INNER, SOURCE, SOURCE_OUTER, SOURCE_INNER, TARGET, TARGET_OUTER, TARGET_INNER = range(8)
"""Slots of the arguments: number of elements in each direction, addresses, and strides in bytes."""


SQUARE = 16
"""Rows and columns of a square that is transposed in vectors."""


@cache
def copy_of(size: int) -> MachineCode:
    """Returns a function that copies elements of ``size`` bytes."""
    module, function = begin()
    builder: Any = ir.IRBuilder(function.append_basic_block("entry"))
    arguments = builder.inttoptr(function.args[0], LONG.as_pointer())
    given = [builder.load(builder.gep(arguments, [ir.Constant(INT, place)])) for place in range(8)]
    element = ir.IntType(8 * size)
    with CountedLoop(builder, function, given[OUTER], 1) as outer:
        source = builder.add(given[SOURCE], builder.mul(outer, given[SOURCE_OUTER]))
        target = builder.add(given[TARGET], builder.mul(outer, given[TARGET_OUTER]))
        with CountedLoop(builder, function, given[INNER], 1) as inner:
            here = builder.add(source, builder.mul(inner, given[SOURCE_INNER]))
            there = builder.add(target, builder.mul(inner, given[TARGET_INNER]))
            value = builder.load(builder.inttoptr(here, element.as_pointer()), align=1)
            builder.store(value, builder.inttoptr(there, element.as_pointer()), align=1)
    builder.ret(ir.Constant(INTEGER, 0))
    return compiled(module)


@cache
def transposition_of(size: int) -> MachineCode:
    """Like ``copy_of``, for at least ``SQUARE`` elements in each direction, where the inner ones are contiguous in the
    source and the outer ones in the target.

    The last squares overlap the ones before.
    """
    module, function = begin()
    builder: Any = ir.IRBuilder(function.append_basic_block("entry"))
    arguments = builder.inttoptr(function.args[0], LONG.as_pointer())
    given = [builder.load(builder.gep(arguments, [ir.Constant(INT, place)])) for place in range(8)]
    square, width = ir.Constant(INTEGER, SQUARE), ir.Constant(INTEGER, size)
    ends = [builder.sub(given[way], square) for way in (OUTER, INNER)]
    with (
        CountedLoop(builder, function, given[OUTER], SQUARE) as outer,
        CountedLoop(builder, function, given[INNER], SQUARE) as inner,
    ):
        starts = [
            builder.select(builder.icmp_signed("<", index, end), index, end)
            for index, end in zip((outer, inner), ends, strict=True)
        ]
        source = builder.add(given[SOURCE], builder.mul(starts[0], given[SOURCE_OUTER]))
        source = builder.add(source, builder.mul(starts[1], width))
        target = builder.add(given[TARGET], builder.mul(starts[1], given[TARGET_INNER]))
        target = builder.add(target, builder.mul(starts[0], width))
        _square(builder, size, (source, given[SOURCE_OUTER]), (target, given[TARGET_INNER]))
    builder.ret(ir.Constant(INTEGER, 0))
    return compiled(module)


def _square(builder: Any, size: int, source: tuple[Any, Any], target: tuple[Any, Any]) -> None:
    """Transposes a square, given addresses and row pitches in bytes."""
    kind = ir.VectorType(ir.IntType(8 * size), SQUARE)

    def row(address: Any, step: Any, number: int) -> Any:
        place = builder.add(address, builder.mul(step, ir.Constant(INTEGER, number)))
        return builder.inttoptr(place, kind.as_pointer())

    rows = [builder.load(row(*source, number), align=1) for number in range(SQUARE)]
    halves = [
        ir.Constant(ir.VectorType(INT, SQUARE), [first + i // 2 + i % 2 * SQUARE for i in range(SQUARE)])
        for first in (0, SQUARE // 2)
    ]
    for _ in range(SQUARE.bit_length() - 1):  # each pass interleaves rows half the square apart
        pairs = zip(rows[: SQUARE // 2], rows[SQUARE // 2 :], strict=True)
        rows = [builder.shuffle_vector(a, b, half) for a, b in pairs for half in halves]
    for number, vector in enumerate(rows):
        builder.store(vector, row(*target, number), align=1)
