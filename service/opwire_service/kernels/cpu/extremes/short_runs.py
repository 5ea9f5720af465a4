"""The first winner of a short run: each lane of a vector keeps its best rank and where that is.

There is no branch on what elements are, so the processor reads the next run while it ends this one.
"""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.element import choose
from .names import least_name, name_all, name_of_equal, name_of_greater, next_name
from .ranks import greater, is_half, lowest_rank
from .vectors import equal_lanes, first_bit, greatest_lane, wide, wide_lanes, wide_ranks

_NAMES = 120
"""Names that a byte holds, and one that stands for none."""

_NOBODY = -1


@inner
def is_short(zero: int, count: int) -> bool:
    """Whether ``first_winner`` knows what to do with so many elements, and is the best for it.

    The greatest rank of FLOAT16 is found much sooner without names.
    """
    if is_half(zero):
        return False
    return 2 * wide_lanes(zero) <= count < _NAMES * 2 * wide_lanes(zero)


@inner
def first_winner(zero: int, address: int, count: int, invert: int) -> tuple[int, int]:
    """The greatest rank of a run without gaps and where it is first; -1 if no rank is above the lowest one."""
    lanes = wide_lanes(zero)
    a = b = wide(lowest_rank(zero), zero)
    named_a = named_b = name_all(_NOBODY, a)
    name = name_all(0, a)
    i = 0
    while i + 2 * lanes <= count:
        here, there = wide_ranks(address, i, invert, zero), wide_ranks(address, i + lanes, invert, zero)
        named_a, named_b = name_of_greater(here, a, name, named_a), name_of_greater(there, b, name, named_b)
        a, b = greater(here, a), greater(there, b)
        name = next_name(name)
        i += 2 * lanes
    # Of the last vectors, lanes that are taken twice do not win against themselves.
    end = count - 2 * lanes
    here, there = wide_ranks(address, end, invert, zero), wide_ranks(address, end + lanes, invert, zero)
    named_a, named_b = name_of_greater(here, a, name, named_a), name_of_greater(there, b, name, named_b)
    a, b = greater(here, a), greater(there, b)
    best = greatest_lane(greater(a, b))
    equal, none = wide(best, zero), name_all(_NAMES, a)
    named_a, named_b = name_of_equal(a, equal, named_a, none), name_of_equal(b, equal, named_b, none)
    least_a, least_b = least_name(named_a), least_name(named_b)
    least = min(least_a, least_b)
    if least < 0:
        return best, -1
    named = name_all(least, a)
    lanes_a, lanes_b = equal_lanes(named_a, named), equal_lanes(named_b, named)
    in_a = least_a <= least_b
    lane = choose(in_a, 0, lanes) + first_bit(choose(in_a, lanes_a, lanes_b))
    return best, min(least * 2 * lanes, end) + lane
