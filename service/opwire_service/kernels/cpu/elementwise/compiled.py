"""Formulas by kernels of machine code: tiles of planes on all threads, and then the few elements that are open."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from opwire.tensor import Array

from ....execution import Bound, Stop, Stopped
from ..run.pool import Pool
from .forms import Form
from .kernel import MASK, SOURCES, TARGET, is_ready, kernel_of
from .machine_code import MachineCode
from .planes import STAGED_ROWS, Plane, Planes
from .recipe import CERTIFIED_WIDTH
from .staging import SQUARE, copy_of, transposition_of

WORTH = 1 << 15
"""More elements than these are worth compiling a kernel; no more are computed where answers are waited for."""

FEW = 1 << 8
"""Elements from which on a kernel that is compiled is faster than NumPy, which wants fewer words."""

OFTEN = 8
"""Runs on a few elements after which a kernel is compiled for those that may follow, beside them."""

MANY = 1 << 6
"""One in so many elements of a tile may be open; where there are more, NumPy computes the tile."""

STREAMED = 24 << 20
"""Bytes of tensors that push each other out of the caches: what is written then need not be read into them before."""

LONG = 1 << 12
"""Bytes of a row in which its ends take little of the time."""

WAITING = 1 << 13
"""Open elements that are decided together in the end."""

KEPT = 1 << 7
"""Tiles whose arguments are kept from one run to the next."""

PART = 1 << 13
"""Elements that NumPy computes at a time."""

PART_BYTES = 3 << 7
"""That it takes for each."""

_BESIDE = ThreadPoolExecutor(1, "opwire-formulas")

_WORD = np.dtype(f"u{CERTIFIED_WIDTH // 8}")
"""Of a mask: it has a bit for each element of a vector."""

Places = tuple[Any, ...]
"""Indices along each collapsed dimension."""


class CompiledFormula:
    """A formula on tensors of known layout.

    Args:
        form: the formula.
        planes: of the tensors.
    """

    def __init__(self, form: Form, planes: Planes) -> None:
        self.recipe = form.recipe(planes)
        self.numbers = form.numbers
        self.planes = planes
        self.certified = certified = form.certified
        self._kernel: MachineCode | None = None
        self._is_streamed = certified is None and _is_streamed(planes)
        self._asked = 0

    @property
    def is_in_place(self) -> bool:
        """Whether no element is read any more once one is written where it lies: no vector overlaps another one."""
        widths = (self.planes.columns, self.planes.tile[1])
        is_staged = any(plane.is_staged for plane in self.planes.tensors)
        return self.certified is None and not is_staged and not any(each % self.recipe.width for each in widths)

    def serves(self, count: int) -> bool:
        """Whether so many elements are worth a kernel, or there is one; it is made if that is asked often."""
        if count > WORTH or count < FEW:
            return count > WORTH
        if self._kernel is not None or is_ready(self.recipe):
            return True
        self._asked += 1
        if self._asked == OFTEN:
            _BESIDE.submit(kernel_of, self.recipe)
        return False

    def bind_if_it_serves(self, given: Mapping[str, Array], target: Array, pool: Pool, otherwise: Bound) -> Bound:
        """Like ``bind``; ``otherwise`` runs as long as the kernel does not serve."""
        count = prod(self.planes.shape)
        if self.serves(count):
            return self.bind(given, target, pool)
        bound: Bound | None = None

        def run(stop: Stop) -> None:
            nonlocal bound
            if bound is None:
                if not self.serves(count):
                    otherwise(stop)
                    return
                bound = self.bind(given, target, pool)
            bound(stop)

        return run

    def bind(self, given: Mapping[str, Array], target: Array, pool: Pool, table: Array | None = None) -> Bound:
        """What computes the output, any number of times, but one at a time.

        Args:
            given: the tensors by name.
            target: the output.
            pool: shares out the tiles.
            table: in place of the numbers of the formula.
        """
        sources = (given[source.name] for source in self.recipe.sources)
        # Most have the sizes of the output; the channels are to be broadcast.
        arrays = [
            source if source.shape == target.shape else np.broadcast_to(source, target.shape) for source in sources
        ]
        kernel = self._kernel_for(arrays, target)
        run = _Run(self, kernel, [*arrays, target], pool, self.numbers if table is None else table)
        is_plain = self.certified is None and not any(plane.is_staged for plane in self.planes.tensors)
        return run.one_call() if is_plain and self.planes.units == 1 else run

    def _kernel_for(self, arrays: list[Array], target: Array) -> MachineCode:
        # Where an input lies in the output's place, the caches have that place, and no vector may overlap another one.
        if self._is_streamed and not any(np.may_share_memory(array, target) for array in arrays):
            return kernel_of(replace(self.recipe, is_streamed=True))
        if self._kernel is None:
            self._kernel = kernel_of(self.recipe)
        return self._kernel

    def scratch_bytes(self, threads: int) -> int:
        """The most memory that a run takes besides its tensors."""
        working = min(threads, self.planes.units)
        staged = sum(STAGED_ROWS * plane.staged_row for plane in self.planes.tensors if plane.is_staged)
        decided = 0 if self.certified is None else min(PART, prod(self.planes.tile)) * PART_BYTES
        return working * (staged + _mask_bytes(self.planes) + decided) + decided


def _is_streamed(planes: Planes) -> bool:
    """Whether results had better pass the caches by; the ends of rows do not, which so must be long."""
    row = planes.tile[1] * planes.tensors[-1].size
    return planes.bytes > STREAMED and row >= LONG and not any(plane.is_staged for plane in planes.tensors)


def _mask_bytes(planes: Planes) -> int:
    rows, columns = planes.tile
    return rows * -(-columns // CERTIFIED_WIDTH) * _WORD.itemsize


class _Tile(NamedTuple):
    """A tile of the planes.

    Attributes:
        plane: which.
        start: its first row and column.
        size: its rows and columns.
        places: where it begins in each tensor.
        arguments: of the kernel.
    """

    plane: tuple[int, ...]
    start: tuple[int, int]
    size: tuple[int, int]
    places: list[int]
    arguments: ctypes.Array[ctypes.c_int64]


class _Run:
    """What threads share when they compute a formula on some arrays."""

    def __init__(
        self, formula: CompiledFormula, kernel: MachineCode, arrays: list[Array], pool: Pool, numbers: Array
    ) -> None:
        self._formula = formula
        self._kernel = kernel
        self._names = [source.name for source in formula.recipe.sources]
        self._arrays = arrays
        self._addresses = [array.ctypes.data for array in arrays]
        self._numbers = numbers
        self._number_address = numbers.ctypes.data
        self._pool = pool
        self._tiles: dict[int, _Tile] = {}
        self._free: list[_Workspace] = []

    def __call__(self, stop: Stop) -> None:
        """Computes the output.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        if stop():
            raise Stopped
        self._stop = stop
        self._waiting: list[Places] = []
        self._count = 0
        if self._formula.planes.units == 1:
            self._piece(0, 1)
        else:
            self._pool.run(self._piece, self._formula.planes.units, 1, stop)
        if self._waiting:
            self._decide(tuple(map(np.concatenate, zip(*self._waiting, strict=True))))

    def one_call(self) -> Bound:
        """What computes the only tile, where nothing is staged or left open."""
        arguments = self._tile(0).arguments
        call = partial(self._kernel, ctypes.addressof(arguments))
        return partial(_at_once, call, (arguments, self._arrays, self._numbers))

    def _piece(self, begin: int, end: int) -> None:
        """Computes some tiles."""
        try:
            workspace = self._free.pop()
        except IndexError:
            workspace = _Workspace(self._formula)
        for unit in range(begin, end):
            tile = self._tiles.get(unit) or self._tile(unit)
            if workspace.compute(self._kernel, tile):
                self._note(workspace.open_places(*tile.size), tile.plane, tile.start, tile.size)
        self._free.append(workspace)

    def _tile(self, unit: int) -> _Tile:
        planes = self._formula.planes
        plane, row, column = planes.place(unit)
        size = min(planes.tile[0], planes.rows - row), min(planes.tile[1], planes.columns - column)
        places = [
            address + row * tensor.row + column * tensor.column + sum(map(int.__mul__, plane, tensor.outer))
            for address, tensor in zip(self._addresses, planes.tensors, strict=True)
        ]
        *sources, target = zip(places, (tensor.row for tensor in planes.tensors), strict=True)
        numbers = *size, *target, self._number_address, 0, *(number for source in sources for number in source)
        tile = _Tile(plane, (row, column), size, places, (ctypes.c_int64 * len(numbers))(*numbers))
        if len(self._tiles) < KEPT:
            self._tiles[unit] = tile
        return tile

    def _note(self, found: Places, plane: tuple[int, ...], start: tuple[int, int], size: tuple[int, int]) -> None:
        """Keeps open elements of a tile for later, or decides them if they are many."""
        if found[0].size > max(MANY, prod(size) // MANY):
            self._by_numpy(plane, start, size)
            return
        places = self._collapsed(plane, found[0] + start[0], found[1] + start[1])
        if self._count > WAITING:
            self._decide(places)
        else:
            self._count += found[0].size
            self._waiting.append(places)

    def _collapsed(self, plane: tuple[Any, ...], rows: Any, columns: Any) -> Places:
        """An index for each collapsed dimension."""
        planes = self._formula.planes
        row, column = planes.axes
        outer = iter(plane)
        found = [
            rows if axis == row else columns if axis == column else next(outer) for axis in range(len(planes.shape))
        ]
        return tuple(np.full(rows.shape, each) if isinstance(each, int) else each for each in found)

    def _decide(self, places: Places) -> None:
        certified = self._formula.certified
        assert certified is not None
        *sources, target = self._views()
        with np.errstate(all="ignore"):
            certified.decide(dict(zip(self._names, sources, strict=True)), target, places, self._stop)

    def _views(self) -> list[Array]:
        planes = self._formula.planes
        return [
            as_strided(array, planes.shape, steps) for array, steps in zip(self._arrays, planes.strides, strict=True)
        ]

    def _by_numpy(self, plane: tuple[int, ...], start: tuple[int, int], size: tuple[int, int]) -> None:
        certified, planes = self._formula.certified, self._formula.planes
        assert certified is not None
        row, column = planes.axes
        views = self._views()
        width = min(size[1], PART)
        height = max(1, PART // width)
        with np.errstate(all="ignore"):
            for first in range(start[0], start[0] + size[0], height):
                for left in range(start[1], start[1] + size[1], width):
                    outer = iter(plane)
                    place = tuple(
                        slice(first, min(first + height, start[0] + size[0]))
                        if axis == row
                        else slice(left, min(left + width, start[1] + size[1]))
                        if axis == column
                        else next(outer)
                        for axis in range(len(planes.shape))
                    )
                    *sources, target = (view[place] for view in views)
                    certified.compute(dict(zip(self._names, sources, strict=True)), target, self._stop)


def _at_once(call: Callable[[], object], _kept: object, stop: Stop) -> None:
    if stop():
        raise Stopped
    call()


class _Workspace:
    """What one thread needs at a time."""

    def __init__(self, formula: CompiledFormula) -> None:
        planes = formula.planes
        self._planes = planes
        self._mask = np.empty(_mask_bytes(planes) // _WORD.itemsize if formula.certified is not None else 0, _WORD)
        self._mask_address = self._mask.ctypes.data
        self._staged = [
            (number, tensor, np.empty(STAGED_ROWS * tensor.staged_row, np.uint8))
            for number, tensor in enumerate(planes.tensors)
            if tensor.is_staged
        ]

    def compute(self, kernel: MachineCode, tile: _Tile) -> int:
        """Computes a tile; whether elements are open."""
        arguments, output = tile.arguments, len(tile.places) - 1
        arguments[MASK] = self._mask_address
        for number, tensor, room in self._staged:
            address = room.ctypes.data
            place = TARGET if number == output else SOURCES + 2 * number
            arguments[place : place + 2] = [address, tensor.staged_row]
            if number != output:
                _copy(tensor, tile.size, tile.places[number], address, is_back=False)
        is_open: int = kernel(ctypes.addressof(arguments))
        for number, tensor, room in self._staged:
            if number == output:
                _copy(tensor, tile.size, tile.places[number], room.ctypes.data, is_back=True)
        return is_open

    def open_places(self, rows: int, columns: int) -> Places:
        """The rows and the columns of open elements in the tile."""
        vectors = -(-columns // CERTIFIED_WIDTH)
        words = np.flatnonzero(self._mask[: rows * vectors])  # few: most vectors have no open element
        bits = np.unpackbits(self._mask[words].view(np.uint8), bitorder="little").reshape(-1, CERTIFIED_WIDTH)
        which, lanes = np.nonzero(bits)
        found, vector = np.divmod(words[which], vectors)
        return found, vector * CERTIFIED_WIDTH + lanes


def _copy(tensor: Plane, size: tuple[int, int], place: int, staged: int, *, is_back: bool) -> None:
    """Copies a tile of a tensor to where its rows are of neighbours, or back; along the tensor's nearest elements."""
    ways = [(size[0], tensor.row, tensor.staged_row), (size[1], tensor.column, tensor.size)]
    if tensor.column > tensor.row > 0:
        ways.reverse()
    (outer, outer_step, outer_staged), (inner, inner_step, inner_staged) = ways
    here, there = (place, outer_step, inner_step), (staged, outer_staged, inner_staged)
    source, target = (there, here) if is_back else (here, there)
    arguments = (ctypes.c_int64 * 8)(outer, inner, *source, *target)
    is_square = min(outer, inner) >= SQUARE and source[2] == target[1] == tensor.size
    (transposition_of if is_square else copy_of)(tensor.size)(ctypes.addressof(arguments))
