"""Generates lookup tables for formulas of one FLOAT16 tensor, with the results for all 65,536 elements."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from opwire.formulas import Expression
from opwire.tensor import Array, DataType

from ..formulas.certified import Certified
from ..formulas.formula import PlanFormula
from .formula_source import FormulaSource

TABLE_BYTES = 2 << 16

KEPT = 64
"""Size of the least-recently-used cache of tables."""

_PIECE = 1 << 13
"""Patterns computed at once."""


COPIES_TABLE = "copy_table(table)"
"""The statement at the start of a block."""


def table_serves(formula: PlanFormula, source: FormulaSource) -> bool:
    """Returns whether a formula can have a lookup table, and needs one."""
    types = [formula.output, *(formula.inputs[name] for name in source.names)]
    return types == [DataType.FLOAT16] * 2 and not source.is_always_settled


def table_source(expression: Expression, source: FormulaSource) -> str:
    """Returns the table, and the functions ``quick_0`` and ``settle_0``, which look up an element."""
    words = _results(expression, source.names[0]).view("<u8")
    numbers = ",".join(f"{word:#x}" for word in words.tolist())
    table = f"static __device__ const u64 table[] __attribute__((aligned(16))) = {{{numbers}}};\n"
    looked_up = ["    result = looked_up(table, x0);", "    return true;"]
    return table + source.function("quick_0", looked_up) + source.function("settle_0", looked_up)


@lru_cache(KEPT)
def _results(expression: Expression, name: str) -> Array:
    """Returns the results, indexed by the bits of the element."""
    patterns = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    results = np.empty_like(patterns)
    certified = Certified.of(expression, {name: DataType.FLOAT16}, DataType.FLOAT16)
    for first in range(0, patterns.size, _PIECE):
        part = slice(first, first + _PIECE)
        with np.errstate(all="ignore"):
            certified.compute({name: patterns[part]}, results[part], lambda: False)
    return results
