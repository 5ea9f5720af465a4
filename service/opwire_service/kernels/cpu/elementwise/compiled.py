"""Runs formulas by compiled kernels: tiles of planes on all threads, then the few undecided elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from opwire.tensor import Array

from ....execution import Bound, Stop, Stopped
from ..run.pool import Find, Pool
from .forms import Form
from .kernel import ARGUMENTS, BITS, COLUMN, COUNT, RECORD, RECORDS, ROOM, ROW, is_ready, kernel_of
from .machine_code import MachineCode
from .planes import Planes
from .recipe import CERTIFIED_WIDTH
from .tiles import FormulaTiles, staged_bytes, table_bytes

LEAST_COMPILED = 1 << 15
"""Number of elements above which a kernel is compiled while the caller waits."""

LEAST_RUN, LEAST_RUN_IN_ONE_PASS = 1 << 8, 1 << 12
"""Numbers of elements from which an already compiled kernel that is not bound yet is faster than NumPy, and where NumPy
computes the formula in one pass."""

FEW_BYTES = 1 << 18
"""Maximum memory of a kernel on fewer elements that copies no tensor, in bytes."""

OFTEN = 8
"""Runs on few elements after which a kernel is compiled in the background for those that may follow."""

STREAMED = 24 << 20
"""Size of tensors, in bytes, that evict each other from the caches: results are then written with streaming stores."""

STREAMED_ROW = 1 << 12
"""Length of a row, in bytes, from which its unaligned ends take little of the time."""

WAITING = 1 << 11
"""Vectors with undecided elements that the list holds at least; NumPy recomputes the tiles of others."""

EACH_LISTED = 32
"""Vectors for each one in the list, where that makes more than ``WAITING``."""

PART = 1 << 13
"""Elements that NumPy computes at once."""

LISTED_AT_ONCE = 1 << 10
"""Vectors in the list that are looked at together."""

PART_BYTES = 3 << 7
"""Memory that NumPy needs per element, in bytes."""

_BACKGROUND = ThreadPoolExecutor(1, "opwire-formulas")
"""Compiles kernels in the background."""

Places = tuple[Any, ...]
"""Indices along each collapsed dimension."""


class CompiledFormula:
    """A formula on tensors of a known layout.

    Args:
        form: the formula.
        planes: the tensors' layout.
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
    def is_staged(self) -> bool:
        """Whether tiles of a tensor are copied."""
        return any(plane.is_staged for plane in self.planes.tensors)

    @property
    def is_in_place(self) -> bool:
        """Whether it can run in place: as vectors do not overlap, no element is read after it is overwritten."""
        widths = (self.planes.columns, self.planes.tile[1])
        return self.certified is None and not self.is_staged and not any(each % self.recipe.width for each in widths)

    def serves(self, count: int) -> bool:
        """Whether to use a kernel for ``count`` elements; compiles one in the background if called often."""
        if count > LEAST_COMPILED:
            return True
        if self._kernel is not None or is_ready(self.recipe):
            return True
        self._asked += 1
        if self._asked == OFTEN:
            _BACKGROUND.submit(kernel_of, self.recipe)
        return False

    def bind_if_it_serves(
        self, given: Mapping[str, Array], target: Array, pool: Pool, find: Find, otherwise: Bound
    ) -> Bound:
        """Like ``bind``, but runs ``otherwise`` until the kernel should be used."""
        count = prod(self.planes.shape)
        if self.serves(count):
            return self.bind(given, target, pool, find)
        bound: Bound | None = None

        def run(stop: Stop) -> None:
            nonlocal bound
            if bound is None:
                if not self.serves(count):
                    otherwise(stop)
                    return
                bound = self.bind(given, target, pool, find)
            bound(stop)

        return run

    def bind(
        self, given: Mapping[str, Array], target: Array, pool: Pool, find: Find, table: Array | None = None
    ) -> Bound:
        """Returns a function that computes the output, any number of times but not concurrently.

        Args:
            given: the tensors by name.
            target: the output.
            pool: distributes the tiles.
            find: returns the kernels that distribute them.
            table: lookup table in place of the formula's numbers.
        """
        sources = (given[source.name] for source in self.recipe.sources)
        # Most have the output's sizes already; channels must be broadcast.
        arrays = [
            source if source.shape == target.shape else np.broadcast_to(source, target.shape) for source in sources
        ]
        kernel = self._kernel_for(arrays, target)
        arrays.append(target)
        numbers = self.numbers if table is None else table
        found = _list_of_undecided(self.planes) if self.certified is not None else None
        addresses = [array.ctypes.data for array in arrays]
        where = 0 if found is None else found.ctypes.data
        tiles = FormulaTiles(self.planes, kernel, addresses, numbers.ctypes.data, where, pool.threads)
        bound = tiles.bind(pool, find, (arrays, numbers, found))
        return bound if found is None else _Certified(self, bound, tiles.table, arrays, found, pool)

    def _kernel_for(self, arrays: list[Array], target: Array) -> MachineCode:
        # Inputs that share memory with the output are already in the caches, and their vectors must not overlap.
        if self._is_streamed and not any(np.may_share_memory(array, target) for array in arrays):
            return kernel_of(replace(self.recipe, is_streamed=True))
        if self._kernel is None:
            self._kernel = kernel_of(self.recipe)
        return self._kernel

    def scratch_bytes(self, threads: int) -> int:
        """Returns the maximum memory of a run besides its tensors, in bytes."""
        working = min(threads, self.planes.units)
        fixed, decided = table_bytes(self.planes), 0
        if self.certified is not None:
            fixed += 8 * (RECORDS + RECORD * _room(self.planes))
            decided = min(PART, prod(self.planes.tile)) * PART_BYTES
        return fixed + working * (staged_bytes(self.planes) + decided) + decided


def _is_streamed(planes: Planes) -> bool:
    """Whether to write results with streaming stores; the ends of rows are not streamed, so rows must be long."""
    row = planes.tile[1] * planes.tensors[-1].size
    return planes.bytes > STREAMED and row >= STREAMED_ROW and not any(plane.is_staged for plane in planes.tensors)


def _room(planes: Planes) -> int:
    """Returns the capacity of the list of undecided elements, in vectors."""
    rows, columns = planes.tile
    vectors = planes.units * rows * -(-columns // CERTIFIED_WIDTH)
    return min(vectors, max(WAITING, vectors // EACH_LISTED))


def _list_of_undecided(planes: Planes) -> Array:
    found = np.empty(RECORDS + RECORD * _room(planes), np.int64)
    found[ROOM] = _room(planes)
    return found


class _Certified:
    """Computes the output of a formula that leaves elements undecided, and settles those.

    Args:
        formula: the formula.
        tiles: computes all tiles.
        table: has a row for each tile; the first number is nonzero if the tile has undecided elements that did not fit
            into the list.
        arrays: the tensors.
        found: the list of undecided elements.
        pool: distributes the tiles that NumPy recomputes.
    """

    def __init__(
        self, formula: CompiledFormula, tiles: Bound, table: Array, arrays: Sequence[Array], found: Array, pool: Pool
    ) -> None:
        self._formula = formula
        self._planes = formula.planes
        self._names = [source.name for source in formula.recipe.sources]
        self._tiles = tiles
        self._table = table
        self._arrays = arrays
        self._found = found
        self._pool = pool

    def __call__(self, stop: Stop) -> None:
        """Computes the output.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        self._stop = stop
        self._found[COUNT] = 0
        self._tiles(stop)
        if not self._found[COUNT]:
            return
        recomputed = np.flatnonzero(self._table[:, 0])
        self._settle_listed(recomputed)
        self._recomputed = recomputed.tolist()
        self._pool.run(self._recompute, len(self._recomputed), 1, stop)

    def _settle_listed(self, recomputed: Array) -> None:
        """Settles the elements in the list, except those of tiles that are recomputed."""
        count = min(self._found[COUNT], self._found[ROOM])
        records = self._found[RECORDS:][: RECORD * count].reshape(-1, RECORD)
        units = (records[:, ARGUMENTS] - self._table.ctypes.data) // self._table.strides[0]
        if recomputed.size:
            is_listed = ~np.isin(units, recomputed)
            records, units = records[is_listed], units[is_listed]
        for first in range(0, len(units), LISTED_AT_ONCE):
            part = slice(first, first + LISTED_AT_ONCE)
            which, lanes = np.nonzero(records[part, BITS, np.newaxis] >> np.arange(CERTIFIED_WIDTH) & 1)
            plane, row, column = self._planes.place(units[part][which])
            if self._stop():
                raise Stopped
            self._settle(
                self._planes.indices(
                    plane, row + records[part, ROW][which], column + records[part, COLUMN][which] + lanes
                )
            )

    def _settle(self, places: Places) -> None:
        certified = self._formula.certified
        assert certified is not None
        *sources, target = self._planes.views(self._arrays)
        with np.errstate(all="ignore"):
            certified.settle(dict(zip(self._names, sources, strict=True)), target, places, self._stop)

    def _recompute(self, begin: int, end: int) -> None:
        """Recomputes tiles that have too many undecided elements."""
        for unit in self._recomputed[begin:end]:
            for places in self._planes.pieces(unit, PART):
                self._compute(places)

    def _compute(self, places: Places) -> None:
        certified = self._formula.certified
        assert certified is not None
        *sources, target = (view[places] for view in self._planes.views(self._arrays))
        with np.errstate(all="ignore"):
            certified.compute(dict(zip(self._names, sources, strict=True)), target, self._stop)
