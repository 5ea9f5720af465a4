"""Formulas by kernels of machine code: tiles of planes on all threads, and then the few elements that are open."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from opwire.tensor import Array

from ....execution import Stop
from ...formulas.certified import Certified
from ..run.pool import Pool
from .forms import Form
from .kernel import CERTIFIED_WIDTH, SOURCES, Recipe, is_ready, kernel_of
from .machine_code import MachineCode
from .planes import STAGED_ROWS, Plane, Planes
from .staging import SQUARE, copy_of, transposition_of

WORTH = 1 << 14
"""Elements from which on a kernel is compiled."""

FEW = 1 << 8
"""Elements from which on a kernel that is compiled is faster than NumPy, which wants fewer words."""

MANY = 1 << 6
"""One in so many elements of a tile may be open; where there are more, NumPy computes the tile."""

WAITING = 1 << 13
"""Open elements that are decided together in the end."""

PART = 1 << 13
"""Elements that NumPy computes at a time."""

PART_BYTES = 1 << 10
"""That it takes for each."""

Places = tuple[Any, ...]
"""Indices along each collapsed dimension."""


@dataclass(frozen=True, slots=True)
class CompiledFormula:
    """A formula on tensors of known layout.

    Attributes:
        recipe: of its kernel.
        numbers: its parameters, as the kernel takes them.
        planes: of the tensors.
        certified: decides open elements; None where there are none.
    """

    recipe: Recipe
    numbers: Any
    planes: Planes
    certified: Certified | None

    @classmethod
    def of(cls, form: Form, planes: Planes) -> CompiledFormula:
        return cls(form.recipe(planes), form.numbers, planes, form.certified)

    def with_table(self, table: Array) -> CompiledFormula:
        """The formula with a table that is made."""
        return replace(self, numbers=table)

    def serves(self, count: int) -> bool:
        """Whether so many elements are worth a kernel."""
        return count >= WORTH or (count >= FEW and is_ready(self.recipe))

    def run(self, given: Mapping[str, Array], target: Array, pool: Pool, stop: Stop) -> None:
        """Computes the output.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        names = [source.name for source in self.recipe.sources]
        arrays = [*(np.broadcast_to(given[name], target.shape) for name in names), target]
        run = _Run(self, kernel_of(self.recipe), names, arrays, stop)
        if self.planes.units == 1:
            run.piece(0, 1)
        else:
            pool.run(run.piece, self.planes.units, 1, stop)
        run.decide_waiting()

    def scratch_bytes(self, threads: int) -> int:
        """The most memory that a run takes besides its tensors."""
        working = min(threads, self.planes.units)
        staged = sum(STAGED_ROWS * plane.staged_row for plane in self.planes.tensors if plane.is_staged)
        decided = 0 if self.certified is None else min(PART, prod(self.planes.tile)) * PART_BYTES
        return working * (staged + _mask_bytes(self.planes) + decided) + decided


def _mask_bytes(planes: Planes) -> int:
    rows, columns = planes.tile
    return rows * -(-columns // CERTIFIED_WIDTH) * (CERTIFIED_WIDTH // 8)


class _Run:
    """One run: what threads share."""

    def __init__(
        self, formula: CompiledFormula, kernel: MachineCode, names: Sequence[str], arrays: list[Array], stop: Stop
    ) -> None:
        self._formula = formula
        self._kernel = kernel
        self._names = names
        self._arrays = arrays
        self._addresses = [array.ctypes.data for array in arrays]
        self._stop = stop
        self._free: list[_Workspace] = []
        self._waiting: list[Places] = []
        self._count = 0

    def piece(self, begin: int, end: int) -> None:
        """Computes some tiles."""
        try:
            workspace = self._free.pop()
        except IndexError:
            workspace = _Workspace(self._formula)
        planes = self._formula.planes
        for unit in range(begin, end):
            plane, row, column = planes.place(unit)
            rows, columns = min(planes.tile[0], planes.rows - row), min(planes.tile[1], planes.columns - column)
            places = [
                address + row * tensor.row + column * tensor.column + sum(map(int.__mul__, plane, tensor.outer))
                for address, tensor in zip(self._addresses, planes.tensors, strict=True)
            ]
            if workspace.compute(self._kernel, places, rows, columns):
                self._note(workspace.open_places(rows, columns), plane, (row, column), (rows, columns))
        self._free.append(workspace)

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

    def decide_waiting(self) -> None:
        """Decides what was kept."""
        if self._waiting:
            self._decide(tuple(map(np.concatenate, zip(*self._waiting, strict=True))))

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


class _Workspace:
    """What one thread needs at a time."""

    def __init__(self, formula: CompiledFormula) -> None:
        planes = formula.planes
        self._planes = planes
        self._numbers = formula.numbers  # its address is among the arguments
        self._mask = np.empty(_mask_bytes(planes) // 2 if formula.certified is not None else 0, np.uint16)
        self._staged = [
            np.empty(STAGED_ROWS * tensor.staged_row, np.uint8) if tensor.is_staged else None
            for tensor in planes.tensors
        ]
        self._arguments = (ctypes.c_int64 * (SOURCES + 2 * (len(planes.tensors) - 1)))()
        self._address = ctypes.addressof(self._arguments)

    def compute(self, kernel: MachineCode, places: list[int], rows: int, columns: int) -> int:
        """Computes a tile whose tensors begin at some addresses; whether elements are open."""
        steps = [tensor.row for tensor in self._planes.tensors]
        found = list(places)
        for number, (tensor, room) in enumerate(zip(self._planes.tensors, self._staged, strict=True)):
            if room is not None:
                found[number], steps[number] = room.ctypes.data, tensor.staged_row
                if number < len(found) - 1:
                    _copy(tensor, rows, columns, places[number], found[number], is_back=False)
        *sources, target = zip(found, steps, strict=True)
        self._arguments[:] = [
            *(rows, columns, *target, self._numbers.ctypes.data, self._mask.ctypes.data),
            *(number for source in sources for number in source),
        ]
        is_open: int = kernel.call(self._address)
        if self._staged[-1] is not None:
            _copy(self._planes.tensors[-1], rows, columns, places[-1], found[-1], is_back=True)
        return is_open

    def open_places(self, rows: int, columns: int) -> Places:
        """The rows and the columns of open elements in the tile."""
        vectors = -(-columns // CERTIFIED_WIDTH)
        words = np.flatnonzero(self._mask[: rows * vectors])  # few: most vectors have no open element
        bits = np.unpackbits(self._mask[words].view(np.uint8), bitorder="little").reshape(-1, CERTIFIED_WIDTH)
        which, lanes = np.nonzero(bits)
        found, vector = np.divmod(words[which], vectors)
        return found, vector * CERTIFIED_WIDTH + lanes


def _copy(tensor: Plane, rows: int, columns: int, place: int, staged: int, *, is_back: bool) -> None:
    """Copies a tile of a tensor to where its rows are of neighbours, or back; along the tensor's nearest elements."""
    ways = [(rows, tensor.row, tensor.staged_row), (columns, tensor.column, tensor.size)]
    if tensor.column > tensor.row > 0:
        ways.reverse()
    (outer, outer_step, outer_staged), (inner, inner_step, inner_staged) = ways
    here, there = (place, outer_step, inner_step), (staged, outer_staged, inner_staged)
    source, target = (there, here) if is_back else (here, there)
    arguments = (ctypes.c_int64 * 8)(outer, inner, *source, *target)
    is_square = min(outer, inner) >= SQUARE and source[2] == target[1] == tensor.size
    (transposition_of if is_square else copy_of)(tensor.size).call(ctypes.addressof(arguments))
