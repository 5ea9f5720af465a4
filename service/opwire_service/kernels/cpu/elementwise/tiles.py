"""Runs tiles of planes without Python in between: the arguments of all machine-code calls are in one table.

Each tile has a row in it: staged inputs are copied, the kernel computes, and a staged output is copied back. Staged
data is in a buffer ("room"), of which each thread takes one.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cache, partial
from math import prod
from typing import Any

import numpy as np
from llvmlite import ir

from ....execution import Bound, Stop, Stopped
from ..numbers.lanes import INT, LONG
from ..run import sharing
from ..run.pool import Find, Pool, Task
from .kernel import SOURCES
from .kernel import TARGET as KERNEL_TARGET
from .loops import CountedLoop, long_of
from .machine_code import INTEGER, SIGNATURE, MachineCode, begin, compiled
from .planes import STAGED_ROWS, Plane, Planes
from .staging import SOURCE, SQUARE, TARGET, copy_of, transposition_of

ASKED = 1 << 20
"""Elements that the calling thread computes between two polls of ``stop``."""

TABLE, ROW, CALLS, MOVED, ROOMS, ROOM, ROOM_BYTES, LOCKS, LISTS = range(9)
"""Slots of the geometry: address of the table, bytes in a row, number of calls in a row, and number of arguments that
point into a room; number of rooms, address of the first, bytes in each, and address of their locks. Then follow the
offset of each call in a row, and, for each argument in a room, its offset in the row and its offset in the room."""

LOCK = 64
"""Bytes between locks, to avoid false sharing of cache lines."""


class FormulaTiles:
    """The tiles of some tensors.

    Args:
        planes: the tensors' layout.
        kernel: computes a tile.
        addresses: addresses of the tensors.
        numbers: address of the kernel's parameters.
        found: address of the list of undecided elements, or 0.
        threads: number of threads that take tiles.
    """

    def __init__(
        self, planes: Planes, kernel: MachineCode, addresses: Sequence[int], numbers: int, found: int, threads: int
    ) -> None:
        self._planes = planes
        self._kernel = kernel
        self._leaves_undecided = bool(found)
        self._calls: list[int] = []
        self._moved: list[int] = []
        self._row: list[Any] = [0]  # returned by the calls
        self._write_row(addresses, numbers, found)
        self.table = np.empty((planes.units, len(self._row)), np.int64)
        for place, value in enumerate(self._row):
            self.table[:, place] = value
        rooms = min(threads, planes.units) if self._moved else 0
        size = staged_bytes(planes)
        self._rooms, self._locks = np.empty(rooms * size, np.uint8), np.zeros(rooms * LOCK, np.uint8)
        places = self.table.ctypes.data, 8 * len(self._row), len(self._calls), len(self._moved) // 2
        about_rooms = rooms, self._rooms.ctypes.data, size, self._locks.ctypes.data
        self._geometry = array("q", (*places, *about_rooms, *self._calls, *self._moved))

    def _write_row(self, addresses: Sequence[int], numbers: int, found: int) -> None:
        """Writes the row of a tile: numbers, or arrays of them if there are several tiles."""
        planes = self._planes
        plane, row, column = planes.place(0 if planes.units == 1 else np.arange(planes.units))
        size = np.minimum(planes.tile[0], planes.rows - row), np.minimum(planes.tile[1], planes.columns - column)
        places: list[Any] = [
            address + row * tensor.row + column * tensor.column + sum(map(_product, plane, tensor.outer))
            for address, tensor in zip(addresses, planes.tensors, strict=True)
        ]
        room = 0
        arguments: list[Any] = [*size, 0, 0, numbers, found, *(0 for _ in 2 * planes.tensors[:-1])]
        rooms: list[tuple[int, int]] = []
        for number, (tensor, place) in enumerate(zip(planes.tensors, places, strict=True)):
            at = KERNEL_TARGET if number == len(places) - 1 else SOURCES + 2 * number
            arguments[at : at + 2] = [0, tensor.staged_row] if tensor.is_staged else [place, tensor.row]
            if tensor.is_staged:
                rooms.append((at, room))
                if at != KERNEL_TARGET:
                    self._call(*_copy(tensor, size, place, is_back=False), [(TARGET, room)])
                room += STAGED_ROWS * tensor.staged_row
        self._call(self._kernel.address, arguments, rooms)
        if planes.tensors[-1].is_staged:
            self._call(*_copy(planes.tensors[-1], size, places[-1], is_back=True), [(SOURCE, rooms[-1][1])])

    def _call(self, function: Any, arguments: Sequence[Any], rooms: Sequence[tuple[int, int]]) -> None:
        """Appends a call; ``rooms`` holds the positions of arguments that point into a room, and the offsets there."""
        self._calls.append(8 * len(self._row))
        self._row.append(function)
        for place, offset in rooms:
            self._moved += [8 * (len(self._row) + place), offset]
        self._row.extend(arguments)

    def bind(self, pool: Pool, find: Find, kept: object) -> Bound:
        """Returns a function that computes all tiles, one run at a time; ``kept`` owns the memory it uses."""
        units, (geometry, _) = self._planes.units, self._geometry.buffer_info()
        if units == 1 and not self._moved and not self._leaves_undecided:
            first = self.table.ctypes.data + self._calls[0] + 8
            return partial(_at_once, partial(self._kernel, first), (self, kept))
        piece = partial(caller(), 0, 0, 0, 0, 0, 0, geometry)
        if units == 1:
            return partial(_at_once, partial(piece, 0, 1), (self, kept))
        asked = max(1, ASKED // prod(self._planes.tile))
        task = Task(caller().address, False, self._geometry, units, 1, asked)
        shared: Bound | None = None

        def run(stop: Stop, _kept: object = (self, kept)) -> None:
            nonlocal shared
            if shared is None and all(kernel.is_loaded for kernel in sharing.KERNELS):
                shared = pool.bind(task, 0, 0, 0, find)
            if shared is None:  # the sharing kernels are not loaded yet
                pool.run(piece, units, 1, stop)
            else:
                shared(stop)

        return run


def staged_bytes(planes: Planes) -> int:
    """Returns the size of a room in bytes."""
    return sum(STAGED_ROWS * tensor.staged_row for tensor in planes.tensors if tensor.is_staged)


def table_bytes(planes: Planes) -> int:
    """Returns the size of the arguments of all tiles in bytes."""
    staged = sum(tensor.is_staged for tensor in planes.tensors)
    return 8 * planes.units * (2 + SOURCES + 2 * (len(planes.tensors) - 1) + 9 * staged)


def _product(a: Any, b: Any) -> Any:
    return a * b


def _at_once(call: partial[int], _kept: object, stop: Stop) -> None:
    if stop():
        raise Stopped
    call()


def _copy(tensor: Plane, size: tuple[Any, Any], place: Any, *, is_back: bool) -> tuple[Any, list[Any]]:
    """Returns the call that copies tiles of a tensor to contiguous rows, or back, along the tensor's smaller stride."""
    ways = [(size[0], tensor.row, tensor.staged_row), (size[1], tensor.column, tensor.size)]
    if tensor.column > tensor.row > 0:
        ways.reverse()
    (outer, outer_step, outer_staged), (inner, inner_step, inner_staged) = ways
    here, there = (place, outer_step, inner_step), (0, outer_staged, inner_staged)
    source, target = (there, here) if is_back else (here, there)
    is_square = (np.minimum(outer, inner) >= SQUARE) & (source[2] == target[1] == tensor.size)
    square = transposition_of(tensor.size).address if np.any(is_square) else 0
    other = 0 if np.all(is_square) else copy_of(tensor.size).address
    return np.where(is_square, square, other), [outer, inner, *source, *target]


@cache
def caller() -> MachineCode:
    """Returns the code that makes the calls of tiles, with the signature of a shared kernel and tiles as units."""
    pointer = ir.IntType(8).as_pointer()
    module, function = begin(ir.FunctionType(INT, [pointer, pointer, *[INTEGER] * 7]))
    builder: Any = ir.IRBuilder(function.append_basic_block("entry"))
    *_, geometry, first, end = function.args
    given = builder.inttoptr(geometry, LONG.as_pointer())
    numbers = [builder.load(builder.gep(given, [long_of(place)])) for place in range(LISTS)]
    room, lock, returned = (builder.alloca(INTEGER) for _ in range(3))
    _take_room(builder, function, numbers, room, lock)
    with CountedLoop(builder, function, builder.sub(end, first), 1) as number:
        row = builder.add(numbers[TABLE], builder.mul(builder.add(first, number), numbers[ROW]))
        with CountedLoop(builder, function, numbers[MOVED], 1) as moved:
            pair = builder.add(numbers[CALLS], builder.mul(moved, long_of(2)))
            place, offset = (_item(builder, given, builder.add(pair, long_of(LISTS + i))) for i in range(2))
            address = builder.inttoptr(builder.add(row, place), LONG.as_pointer())
            builder.store(builder.add(builder.load(room), offset), address)
        builder.store(long_of(0), returned)
        with CountedLoop(builder, function, numbers[CALLS], 1) as call:
            at = builder.add(row, _item(builder, given, builder.add(call, long_of(LISTS))))
            code = builder.load(builder.inttoptr(at, LONG.as_pointer()))
            found = builder.call(builder.inttoptr(code, SIGNATURE.as_pointer()), [builder.add(at, long_of(8))])
            builder.store(builder.or_(builder.load(returned), found), returned)
        builder.store(builder.load(returned), builder.inttoptr(row, LONG.as_pointer()))
    with builder.if_then(builder.icmp_signed("!=", builder.load(lock), long_of(0))):
        builder.store_atomic(long_of(0), builder.inttoptr(builder.load(lock), LONG.as_pointer()), "release", 8)
    builder.ret(ir.Constant(INT, 0))
    return compiled(module)


def _item(builder: Any, given: Any, place: Any) -> Any:
    return builder.load(builder.gep(given, [place]))


def _take_room(builder: Any, function: ir.Function, numbers: Sequence[Any], room: Any, lock: Any) -> None:
    """Acquires a room that no other thread uses; there are as many as threads."""
    for variable in (room, lock):
        builder.store(long_of(0), variable)
    with CountedLoop(builder, function, numbers[ROOMS], 1) as number:
        place = builder.add(numbers[LOCKS], builder.mul(number, long_of(LOCK)))
        with builder.if_then(builder.icmp_signed("==", builder.load(lock), long_of(0))):
            free = builder.inttoptr(place, LONG.as_pointer())
            is_taken = builder.extract_value(builder.cmpxchg(free, long_of(0), long_of(1), "acquire", "monotonic"), 1)
            with builder.if_then(is_taken):
                builder.store(place, lock)
                builder.store(builder.add(numbers[ROOM], builder.mul(number, numbers[ROOM_BYTES])), room)
