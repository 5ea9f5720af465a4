"""Terms of float sums: elements, magnitudes or squares, each exactly representable in float64."""

from __future__ import annotations

from typing import NamedTuple

from opwire.tensor import DataType

from ..jit.compiler import inlined, inner
from ..jit.element import read
from ..numbers.accumulator import add_value, clear_limbs, propagate_carries
from ..numbers.formats import masked
from ..run import geometry as g
from ..run.geometry import at, run_from
from . import parameters as p
from .parameters import SQUARES

EXACT_TERMS = 8192
"""FLOAT16 values are multiples of 2**-24 below 2**16, so the sum of this many stays below 2**53 units and is exact."""

MAGNITUDES = {DataType.FLOAT32: 0x7FFFFFFF, DataType.FLOAT16: 0x7FFF}
"""Masks for sums of magnitudes: all bits but the sign. Other sums use -1."""


class Terms(NamedTuple):
    """The terms of a sum.

    Attributes:
        mask: bits of an element that count.
        kind: as in ``parameters``. Loops over terms are compiled once for each kind passed as a constant.
    """

    mask: int
    kind: int


@inlined
def terms_of(geometry: int) -> Terms:
    return Terms(at(geometry, p.MASK), at(geometry, p.KIND))


@inner
def term(zero: float, address: int, index: int, terms: Terms) -> float:
    value = masked(read(address, index, zero), terms.mask)
    return value * value if terms.kind == SQUARES else value


@inner
def add_terms(zero: float, base: int, geometry: int, begin: int, end: int, limbs: int) -> None:
    """Stores the exact sum of terms ``begin`` to ``end`` in limbs with carries propagated."""
    step, terms = at(geometry, g.STEP), terms_of(geometry)
    clear_limbs(limbs)
    i = begin
    while i < end:
        address, size = run_from(geometry, base, i, end, zero)
        for j in range(size):
            add_value(limbs, term(zero, address, j * step, terms))
        i += size
    propagate_carries(limbs)
