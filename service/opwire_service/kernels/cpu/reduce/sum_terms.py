"""The terms of float sums: elements, magnitudes or squares as float64, which holds each of them exactly."""

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
"""FLOAT16 values are multiples of 2**-24 up to 2**16: so many of them sum up to less than 2**53 multiples."""

MAGNITUDES = {DataType.FLOAT32: 0x7FFFFFFF, DataType.FLOAT16: 0x7FFF}
"""The mask for sums of magnitudes: all bits but the sign. For other sums it is -1."""


class Terms(NamedTuple):
    """What is added up.

    Attributes:
        mask: the bits of an element that count.
        kind: as in ``parameters``. A loop over terms is compiled once for each kind that it is told as a constant.
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
    """Leaves the exact sum of terms ``begin`` to ``end`` in limbs whose carries are propagated."""
    step, terms = at(geometry, g.STEP), terms_of(geometry)
    clear_limbs(limbs)
    i = begin
    while i < end:
        address, size = run_from(geometry, base, i, end, zero)
        for j in range(size):
            add_value(limbs, term(zero, address, j * step, terms))
        i += size
    propagate_carries(limbs)
