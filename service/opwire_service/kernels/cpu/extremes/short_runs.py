"""The first winner of a short run: each lane of a vector keeps its best rank and that rank's position.

There is no branch on element values, so the processor can start reading the next run while it finishes this one.
"""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.element import choose
from .labels import label_all, label_of_equal, label_of_greater, least_label, next_label
from .rank_vectors import equal_lanes, first_bit, greatest_lane, wide, wide_lanes, wide_ranks
from .ranks import greater, is_half, lowest_rank

_LABELS = 120
"""Labels that fit into a byte, and the one that means none."""

_NOBODY = -1
"""Label of a lane without a winner."""


@inner
def is_short(zero: int, count: int) -> bool:
    """Whether ``first_winner`` supports a number of elements, and is the fastest method for it.

    The greatest rank of FLOAT16 is found much sooner without labels.
    """
    if is_half(zero):
        return False
    return 2 * wide_lanes(zero) <= count < _LABELS * 2 * wide_lanes(zero)


@inner
def first_winner(zero: int, address: int, count: int, invert: int) -> tuple[int, int]:
    """Returns the greatest rank of a contiguous run and its first position; -1 if no rank is above the lowest one."""
    lanes = wide_lanes(zero)
    a = b = wide(lowest_rank(zero), zero)
    labels_a = labels_b = label_all(_NOBODY, a)
    label = label_all(0, a)
    i = 0
    while i + 2 * lanes <= count:
        here, there = wide_ranks(address, i, invert, zero), wide_ranks(address, i + lanes, invert, zero)
        labels_a, labels_b = label_of_greater(here, a, label, labels_a), label_of_greater(there, b, label, labels_b)
        a, b = greater(here, a), greater(there, b)
        label = next_label(label)
        i += 2 * lanes
    # The last vectors overlap others; lanes visited twice do not win against themselves.
    end = count - 2 * lanes
    here, there = wide_ranks(address, end, invert, zero), wide_ranks(address, end + lanes, invert, zero)
    labels_a, labels_b = label_of_greater(here, a, label, labels_a), label_of_greater(there, b, label, labels_b)
    a, b = greater(here, a), greater(there, b)
    best = greatest_lane(greater(a, b))
    equal, none = wide(best, zero), label_all(_LABELS, a)
    labels_a, labels_b = label_of_equal(a, equal, labels_a, none), label_of_equal(b, equal, labels_b, none)
    least_a, least_b = least_label(labels_a), least_label(labels_b)
    least = min(least_a, least_b)
    if least < 0:
        return best, -1
    labeled = label_all(least, a)
    lanes_a, lanes_b = equal_lanes(labels_a, labeled), equal_lanes(labels_b, labeled)
    in_a = least_a <= least_b
    lane = choose(in_a, 0, lanes) + first_bit(choose(in_a, lanes_a, lanes_b))
    return best, min(least * 2 * lanes, end) + lane
