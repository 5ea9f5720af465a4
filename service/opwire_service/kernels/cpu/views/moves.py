"""Block moves as intrinsics: runs of bytes, single elements of any alignment, and transposed squares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types

from ..jit.compiler import inlined
from ..jit.element import ADDRESS, ask_for_line, intrinsic, pointer_to

VECTOR = 16
"""Size of a row of a small square, in bytes."""

REGISTER = 32
"""Size of the rows transposed at once, in bytes; two registers per row would not fit into the register file."""

LINE = 64
"""Size of a row of a square, in bytes: a cache line, which is read and written at once."""

BLOCK = 32
"""Bytes of a run that are moved at once."""

PART_ROWS, PART_ROW = 64, 1024
"""Number and size in bytes of the rows that are transposed in a buffer, unless a matrix is narrower."""

BUFFER = PART_ROWS * (PART_ROW + LINE)
"""Size of that buffer, in bytes; there is a cache line between rows."""

MOST_ACROSS = 16
"""Maximum number of elements in a row of a square, so that all rows are in registers."""


@intrinsic
def take(typing: Any, address: Any, index: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Loads the element ``index`` elements past an address, unaligned."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = pointer_to(builder, args[0], context.get_value_type(zero))
        return builder.load(builder.gep(pointer, [args[1]]), align=1)

    return zero(ADDRESS, ADDRESS, zero), code


@intrinsic
def put(typing: Any, address: Any, index: Any, value: Any) -> tuple[Any, Callable[..., Any]]:
    """Stores an element ``index`` elements past an address, unaligned."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = pointer_to(builder, args[0], context.get_value_type(value))
        builder.store(args[2], builder.gep(pointer, [args[1]]), align=1)
        return context.get_dummy_value()

    return types.void(ADDRESS, ADDRESS, value), code


def _mover(size: int) -> Any:
    @intrinsic
    def move(typing: Any, target: Any, source: Any) -> tuple[Any, Callable[..., Any]]:
        """Copies ``size`` bytes at once."""

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
    """Copies up to 32 bytes as two blocks that may overlap."""
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
    """Copies a run of at least one byte to memory that does not overlap it."""
    if size <= BLOCK:
        _move_short(target, source, size)
        return
    # All blocks but the first and the last are aligned in the target, so that none spans two cache lines. The system's
    # memcpy is slower if the target's page offset is slightly above the source's.
    _move32(target, source)
    for i in range(BLOCK - target % BLOCK, size - BLOCK, BLOCK):
        _move32(target + i, source + i)
    _move32(target + size - BLOCK, source + size - BLOCK)


@intrinsic
def _move32_past_cache(typing: Any, target: Any, source: Any) -> tuple[Any, Callable[..., Any]]:
    """Copies 32 bytes with a streaming store; the target is aligned to 32 bytes."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        block = ir.VectorType(ir.IntType(8), BLOCK)
        loaded = builder.load(pointer_to(builder, args[1], block), align=1)
        stored = builder.store(loaded, pointer_to(builder, args[0], block), align=BLOCK)
        stored.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
        return context.get_dummy_value()

    return types.void(ADDRESS, ADDRESS), code


@inlined
def move_run_past_cache(target: int, source: int, size: int) -> None:
    """Copies a run of at least one byte to memory that does not overlap it, with streaming stores."""
    # A line written in both ways would be read first and written twice.
    first = min(-target % LINE, size)
    last = first + (size - first) // LINE * LINE
    if first:
        move_run(target, source, first)
    for i in range(first, last, BLOCK):
        _move32_past_cache(target + i, source + i)
    if last < size:
        move_run(target + last, source + last, size - last)


@intrinsic
def buffer(typing: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the address of ``BUFFER`` bytes on the stack, aligned to cache lines."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        with builder.goto_entry_block():
            place = builder.alloca(ir.ArrayType(ir.IntType(8), BUFFER))
        place.align = LINE
        return builder.ptrtoint(place, context.get_value_type(ADDRESS))

    return ADDRESS(zero), code


def _across(zero: Any, row: int) -> int:
    return min(MOST_ACROSS, row * 8 // zero.bitwidth)


def _square_of(row: int) -> Any:
    @intrinsic
    def square_of(typing: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
        """Returns the number of elements in a row of a square."""

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return context.get_constant(ADDRESS, _across(zero, row))

        return ADDRESS(zero), code

    return square_of


def _square_mover(row: int) -> Any:
    """Returns an intrinsic that transposes squares with rows of at most ``row`` bytes and 16 elements."""

    @intrinsic
    def move_square(
        typing: Any, target: Any, pitch: Any, source: Any, pairs: Any, second: Any, zero: Any
    ) -> tuple[Any, Callable[..., Any]]:
        """Transposes a square of elements.

        Target rows are ``pitch`` bytes apart, pairs of source rows are ``pairs`` bytes apart, and the second row of
        each pair is ``second`` bytes from the first.
        """
        number = _across(zero, row)

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            element, index = context.get_value_type(zero), args[1].type
            at_once = min(number, REGISTER * 8 // zero.bitwidth)
            whole, part = ir.VectorType(element, number), ir.VectorType(element, at_once)

            def beginning(address: Any, step: Any, i: int) -> Any:
                return builder.add(address, builder.mul(step, ir.Constant(index, i)))

            firsts = [beginning(args[2], args[3], i) for i in range(number // 2)]
            sources = [place for first in firsts for place in (first, builder.add(first, args[4]))]
            if row == LINE:
                # The hardware prefetcher does not foresee the next square.
                for source_row in sources:
                    ask_for_line(builder, builder.add(source_row, ir.Constant(index, LINE)))
            for first in range(0, number, at_once):
                offset = ir.Constant(index, first * zero.bitwidth // 8)
                places = [builder.add(source_row, offset) for source_row in sources]
                rows = [builder.load(pointer_to(builder, place, part), align=1) for place in places]
                columns = _columns(builder, rows, VECTOR * 8 // zero.bitwidth)
                for i, each in enumerate(columns, first):
                    place = pointer_to(builder, beginning(args[0], args[1], i), whole)
                    builder.store(each, place, align=1)
            return context.get_dummy_value()

        return types.void(ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, zero), code

    return move_square


square_of, move_square = _square_of(LINE), _square_mover(LINE)
small_square_of, move_small_square = _square_of(VECTOR), _square_mover(VECTOR)


@intrinsic
def fence(typing: Any) -> tuple[Any, Callable[..., Any]]:
    """Memory fence after streaming stores."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), code


@intrinsic
def seconds_of(typing: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the number of elements that ``move_seconds`` moves."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.get_constant(ADDRESS, 2 * VECTOR * 8 // zero.bitwidth)

    return ADDRESS(zero), code


@intrinsic
def move_seconds(typing: Any, target: Any, index: Any, source: Any, zero: Any) -> tuple[Any, Callable[..., Any]]:
    """Copies every other of some contiguous elements; also reads the one after the last.

    Reads from ``2 * index`` elements past the source and writes to ``index`` elements past the target.
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
def move_pairs(
    typing: Any, target: Any, index: Any, source: Any, other: Any, zero: Any
) -> tuple[Any, Callable[..., Any]]:
    """Interleaves contiguous elements of two sources; writes as many elements as ``seconds_of`` returns.

    Reads from ``index`` elements past the sources and writes to ``2 * index`` elements past the target.
    """
    number = 2 * VECTOR * 8 // zero.bitwidth

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        element = context.get_value_type(zero)
        half, whole = ir.VectorType(element, number // 2), ir.VectorType(element, number)
        places = [builder.gep(pointer_to(builder, each, element), [args[1]]) for each in args[2:4]]
        one, two = (builder.load(builder.bitcast(each, half.as_pointer()), align=1) for each in places)
        there = builder.gep(pointer_to(builder, args[0], element), [builder.shl(args[1], ir.Constant(args[1].type, 1))])
        pairs = _chosen(builder, one, two, [i // 2 + i % 2 * (number // 2) for i in range(number)])
        builder.store(pairs, builder.bitcast(there, whole.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(ADDRESS, ADDRESS, ADDRESS, ADDRESS, zero), code


def _columns(builder: Any, rows: list[Any], lane: int) -> list[Any]:
    """Returns the columns of rows of the same type.

    Transposes within lanes of ``lane`` elements first, using shuffles that every processor has, then moves whole lanes.
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
    """Transposes squares within each lane, for as many rows as a lane has elements.

    Each pass is a perfect shuffle: it interleaves a row of the first half with one of the second half.
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
    """Returns the elements at some positions of two concatenated vectors."""
    mask = ir.Constant(ir.VectorType(ir.IntType(32), len(places)), list(places))
    return builder.shuffle_vector(one, other, mask)
