"""Blocks of memory that are moved: runs of bytes, single elements of any alignment, and squares that are transposed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from ..jit.compiler import inlined
from ..jit.element import ADDRESS, ask_for_line, intrinsic, pointer_to

VECTOR = 16
"""Bytes of a row of small squares."""

LINE = 64
"""Bytes of a row of squares: a line of the cache, which is read at once and written at once."""

BLOCK = 32
"""Bytes of a run that are moved at once."""

MOST_ACROSS = 16
"""Elements of a row of squares: all rows of one are in registers."""


@intrinsic
def take(typing: Any, address: Any, index: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """The element ``index`` elements after an address, aligned or not."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = pointer_to(builder, args[0], context.get_value_type(zero))
        return builder.load(builder.gep(pointer, [args[1]]), align=1)

    return zero(ADDRESS, ADDRESS, zero), code


@intrinsic
def put(typing: Any, address: Any, index: Any, value: Any) -> tuple[Any, Callable[..., Any]]:
    """Writes an element ``index`` elements after an address, aligned or not."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = pointer_to(builder, args[0], context.get_value_type(value))
        builder.store(args[2], builder.gep(pointer, [args[1]]), align=1)
        return context.get_dummy_value()

    return types.void(ADDRESS, ADDRESS, value), code


def _mover(size: int) -> Any:
    @intrinsic
    def move(typing: Any, target: Any, source: Any) -> tuple[Any, Callable[..., Any]]:
        """Copies so many bytes at once."""

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            block = ir.VectorType(ir.IntType(8), size) if size > 8 else ir.IntType(8 * size)
            loaded = builder.load(pointer_to(builder, args[1], block), align=1)
            builder.store(loaded, pointer_to(builder, args[0], block), align=1)
            return context.get_dummy_value()

        return types.void(ADDRESS, ADDRESS), code

    return move


_move1, _move2, _move4, _move8, _move16, _move32 = map(_mover, (1, 2, 4, 8, 16, 32))


@inlined
def _move_short(target: int, source: int, size: int) -> None:
    """Copies up to 32 bytes: two blocks that may overlap."""
    if size >= 16:
        _move16(target, source)
        _move16(target + size - 16, source + size - 16)
    elif size >= 8:
        _move8(target, source)
        _move8(target + size - 8, source + size - 8)
    elif size >= 4:
        _move4(target, source)
        _move4(target + size - 4, source + size - 4)
    elif size >= 2:
        _move2(target, source)
        _move2(target + size - 2, source + size - 2)
    else:
        _move1(target, source)


@inlined
def move_run(target: int, source: int, size: int) -> None:
    """Copies a run of bytes, at least one, to where none of them lies."""
    if size <= BLOCK:
        _move_short(target, source, size)
        return
    # All but the first and the last block are aligned in the target, so that none is in two lines of the cache. The
    # system's own copy takes longer where the target begins shortly after the source, both counted within their pages.
    _move32(target, source)
    for i in range(BLOCK - target % BLOCK, size - BLOCK, BLOCK):
        _move32(target + i, source + i)
    _move32(target + size - BLOCK, source + size - BLOCK)


def _across(zero: Any, row: int) -> int:
    return min(MOST_ACROSS, row * 8 // zero.bitwidth)


def _square_of(row: int) -> Any:
    @intrinsic
    def square_of(typing: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
        """Elements of a row of a square."""

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return context.get_constant(ADDRESS, _across(zero, row))

        return ADDRESS(zero), code

    return square_of


def _square_mover(row: int, *, past_cache: bool = False) -> Any:
    """What moves squares whose rows have at most so many bytes, and at most 16 elements.

    ``past_cache`` takes targets whose rows are whole lines, and does not read what it replaces.
    """

    @intrinsic
    def move_square(
        typing: Any, target: Any, pitch: Any, source: Any, source_pitch: Any, zero: Any
    ) -> tuple[Any, Callable[..., Any]]:
        """Copies a square of elements: its rows become columns. The pitches are bytes from row to row."""
        number = _across(zero, row)

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector = ir.VectorType(context.get_value_type(zero), number)
            index = args[1].type

            def beginning(address: Any, step: Any, i: int) -> Any:
                return builder.add(address, builder.mul(step, ir.Constant(index, i)))

            def place(address: Any, step: Any, i: int) -> Any:
                return pointer_to(builder, beginning(address, step, i), vector)

            rows = [builder.load(place(args[2], args[3], i), align=1) for i in range(number)]
            if row == LINE:
                # The processor does not foresee that the squares beside this one come soon.
                for i in range(number):
                    ask_for_line(builder, builder.add(beginning(args[2], args[3], i), ir.Constant(index, LINE)))
            for _ in range(number.bit_length() - 1):
                rows = _interleaved(builder, rows)
            for i, each in enumerate(rows):
                stored = builder.store(each, place(args[0], args[1], i), align=row if past_cache else 1)
                if past_cache:
                    stored.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
            return context.get_dummy_value()

        return types.void(ADDRESS, ADDRESS, ADDRESS, ADDRESS, zero), code

    return move_square


square_of, move_square = _square_of(LINE), _square_mover(LINE)
small_square_of, move_small_square = _square_of(VECTOR), _square_mover(VECTOR)
move_square_past_cache = _square_mover(LINE, past_cache=True)


@intrinsic
def fence(typing: Any) -> tuple[Any, Callable[..., Any]]:
    """Lets nothing after it be seen before what was written past the cache."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), code


@intrinsic
def seconds_of(typing: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Elements that ``move_seconds`` moves."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.get_constant(ADDRESS, 2 * VECTOR * 8 // zero.bitwidth)

    return ADDRESS(zero), code


@intrinsic
def move_seconds(typing: Any, target: Any, index: Any, source: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Copies every second element of some that lie side by side; the one after the last is read too.

    The first comes from ``2 * index`` elements after the source and goes to ``index`` elements after the target.
    """
    number = 2 * VECTOR * 8 // zero.bitwidth

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        element = context.get_value_type(zero)
        here = builder.gep(pointer_to(builder, args[2], element), [builder.shl(args[1], ir.Constant(args[1].type, 1))])
        there = builder.gep(pointer_to(builder, args[0], element), [args[1]])
        loaded = builder.load(builder.bitcast(here, ir.VectorType(element, 2 * number).as_pointer()), align=1)
        mask = ir.Constant(ir.VectorType(ir.IntType(32), number), [2 * i for i in range(number)])
        chosen = builder.shuffle_vector(loaded, loaded, mask)
        builder.store(chosen, builder.bitcast(there, ir.VectorType(element, number).as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(ADDRESS, ADDRESS, ADDRESS, zero), code


@intrinsic
def move_twice(typing: Any, target: Any, index: Any, source: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Copies elements that lie side by side, each to two places; as many as ``seconds_of`` tells are written.

    The first comes from ``index`` elements after the source and goes to ``2 * index`` elements after the target.
    """
    number = 2 * VECTOR * 8 // zero.bitwidth

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        element = context.get_value_type(zero)
        here = builder.gep(pointer_to(builder, args[2], element), [args[1]])
        there = builder.gep(pointer_to(builder, args[0], element), [builder.shl(args[1], ir.Constant(args[1].type, 1))])
        loaded = builder.load(builder.bitcast(here, ir.VectorType(element, number // 2).as_pointer()), align=1)
        mask = ir.Constant(ir.VectorType(ir.IntType(32), number), [i // 2 for i in range(number)])
        doubled = builder.shuffle_vector(loaded, loaded, mask)
        builder.store(doubled, builder.bitcast(there, ir.VectorType(element, number).as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(ADDRESS, ADDRESS, ADDRESS, zero), code


def _interleaved(builder: Any, rows: list[Any]) -> list[Any]:
    """Rows whose elements are taken in turn from one of the first half and one of the second: a perfect shuffle."""
    number, half = len(rows), len(rows) // 2
    integer = ir.IntType(32)
    found = []
    for one, other in zip(rows[:half], rows[half:], strict=True):
        for first in (0, half):
            places = [first + i // 2 + (i % 2) * number for i in range(number)]
            mask = ir.Constant(ir.VectorType(integer, number), places)
            found.append(builder.shuffle_vector(one, other, mask))
    return found
