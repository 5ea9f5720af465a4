"""Formulas of one FLOAT16 tensor as lookup tables: the result for each of the 65,536 elements."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock

import numpy as np

from opwire.formulas import Expression
from opwire.tensor import Array, DataType

from ....execution import Stop

LEAST_TABULATED = 1 << 15
"""Number of elements from which a table is made."""

KEPT = 64
"""Number of most recently used tables kept."""

_PATTERNS = 1 << 16
_PIECE = 1 << 13
"""Table entries computed between two polls of ``stop``."""

_tables: OrderedDict[tuple[str, DataType], Array] = OrderedDict()
_lock = Lock()


class LookupTable:
    """The results of a formula.

    Args:
        expression: resolved expression of one tensor.
        name: name of the tensor.
        output: data type of the result.
        compute: computes the formula.
    """

    def __init__(
        self,
        expression: Expression,
        name: str,
        output: DataType,
        compute: Callable[[Mapping[str, Array], Array, Stop], None],
    ) -> None:
        self._key = repr(expression), output
        self._name = name
        self._output = output
        self._compute = compute

    def serves(self, count: int) -> bool:
        """Whether ``count`` elements are worth looking up."""
        return count >= LEAST_TABULATED or (self._key in _tables and count >= 256)

    def compute(self, given: Mapping[str, Array], target: Array, stop: Stop) -> None:
        """Looks up each element."""
        table = self.found(stop)
        place = target.view(table.dtype)
        source = given[self._name].view(np.uint16)
        if place.flags.c_contiguous:
            np.take(table, source, out=place, mode="clip")
        else:
            place[...] = table[source]

    def found(self, stop: Stop) -> Array:
        """Returns the results as bits, indexed by the elements' bits; makes the table if necessary."""
        with _lock:
            table = _tables.get(self._key)
            if table is not None:
                _tables.move_to_end(self._key)
        if table is None:
            table = self._made(stop)
            with _lock:
                _tables[self._key] = table
                if len(_tables) > KEPT:
                    _tables.popitem(last=False)
        return table

    def _made(self, stop: Stop) -> Array:
        patterns = np.arange(_PATTERNS, dtype=np.uint16).view(np.float16)
        results = np.empty(_PATTERNS, self._output.dtype)
        for start in range(0, _PATTERNS, _PIECE):
            part = slice(start, start + _PIECE)
            with np.errstate(all="ignore"):
                self._compute({self._name: patterns[part]}, results[part], stop)
        return results.view(f"<u{results.dtype.itemsize}")
