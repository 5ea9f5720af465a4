"""Blocks of memory that are moved: runs of bytes, single elements of any alignment, and squares that are transposed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types

from ..jit.compiler import inlined
from ..jit.element import ADDRESS, ask_for_line, intrinsic, pointer_to

VECTOR = 16
"""Bytes of a row of small squares."""

REGISTER = 32
"""Bytes of the rows of a square that are turned at once: those of two registers of each row would not be held."""

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
            element, index = context.get_value_type(zero), args[1].type
            at_once = min(number, REGISTER * 8 // zero.bitwidth)
            whole, part = ir.VectorType(element, number), ir.VectorType(element, at_once)

            def beginning(address: Any, step: Any, i: int) -> Any:
                return builder.add(address, builder.mul(step, ir.Constant(index, i)))

            if row == LINE:
                # The processor does not foresee that the squares beside this one come soon.
                for i in range(number):
                    ask_for_line(builder, builder.add(beginning(args[2], args[3], i), ir.Constant(index, LINE)))
            for first in range(0, number, at_once):
                offset = ir.Constant(index, first * zero.bitwidth // 8)
                places = [builder.add(beginning(args[2], args[3], i), offset) for i in range(number)]
                rows = [builder.load(pointer_to(builder, place, part), align=1) for place in places]
                columns = _columns(builder, rows, VECTOR * 8 // zero.bitwidth)
                for i, each in enumerate(columns, first):
                    place = pointer_to(builder, beginning(args[0], args[1], i), whole)
                    stored = builder.store(each, place, align=row if past_cache else 1)
                    if past_cache:
                        once = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
                        stored.set_metadata("nontemporal", once)
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


def _columns(builder: Any, rows: list[Any], lane: int) -> list[Any]:
    """The columns of rows of the same type.

    First within lanes of ``lane`` elements, whose shuffles every processor has, then whole lanes move.
    """
    lanes = rows[0].type.count // lane
    groups = [_interleaved(builder, rows[i : i + lane], lane) for i in range(0, len(rows), lane)]
    found = []
    for number in range(lanes):
        for column in zip(*groups, strict=True):
            parts = [_chosen(builder, part, part, range(number * lane, (number + 1) * lane)) for part in column]
            while len(parts) > 1:
                both = range(2 * parts[0].type.count)
                parts = [_chosen(builder, *two, both) for two in zip(parts[::2], parts[1::2], strict=True)]
            found.append(parts[0])
    return found


def _interleaved(builder: Any, rows: list[Any], lane: int) -> list[Any]:
    """As many rows as a lane has elements, whose elements change places with them within each lane.

    Again and again one is taken from a row of the first half and one from a row of the second: a perfect shuffle.
    """
    count, half = rows[0].type.count, lane // 2
    for _ in range(lane.bit_length() - 1):
        found = []
        for one, other in zip(rows[:half], rows[half:], strict=True):
            for first in (0, half):
                places = [first + i % lane // 2 + i // lane * lane + i % 2 * count for i in range(count)]
                found.append(_chosen(builder, one, other, places))
        rows = found
    return rows


def _chosen(builder: Any, one: Any, other: Any, places: Sequence[int]) -> Any:
    """The elements at some places of two vectors, counted through both."""
    mask = ir.Constant(ir.VectorType(ir.IntType(32), len(places)), list(places))
    return builder.shuffle_vector(one, other, mask)
