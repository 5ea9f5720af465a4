"""SOFTMAX, LOG_SOFTMAX and HARDMAX, along the last dimension or jointly along several axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Context, Decimal
from math import inf, isnan, nan, prod

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array

from ...execution import Arrays, Stop
from ..decimals import DIGITS, Bounds, context, round_bounds
from ..exact import FORMATS, Float, FloatFormat, round_ratio
from .elements import Elements, groups
from .extreme import FIRST_GREATEST
from .places import places

CHUNK = 128
"""Elements per chunk, whose exponentials take a few milliseconds."""

COMPARED, ALONE = 16, 8
"""Number of comparisons that cost as much as starting a block; of 1-element blocks, as much as an exponential."""

_LEAST_LOGARITHM = Decimal("1e-100")
"""Lower bound for a logarithm: subtracting it still moves a number off a tie of floats, but no further."""

_EXACT = context(2 * DIGITS)
"""Enough digits for the exact difference of two floats."""


@dataclass
class Block:
    """A block of elements, some of them finite and the others negative infinity.

    Attributes:
        elements: the elements.
        greatest: the maximum.
        least: the minimum of the finite elements.
        count: number of finite elements.
    """

    elements: Elements
    greatest: float
    least: float
    count: int
    _others: dict[int, Decimal] = field(default_factory=dict)

    def softmax(self, value: float, to: FloatFormat) -> Float:
        if value == -inf:
            return to.of(0)
        if self.least == self.greatest:  # the only case where a share is rational and may be a tie
            return round_ratio(1, self.count, to)
        return round_bounds(lambda within: self._share(value, within), to)

    def log_softmax(self, value: float, to: FloatFormat) -> Float:
        if value == -inf or self.count == 1:
            return to.of(value - self.greatest)
        return round_bounds(lambda within: self._logarithm(value, within), to)

    def _share(self, value: float, within: Context) -> Bounds:
        total = within.add(self._sum_of_others(within), 1)
        return _around(within.divide(self._exponential(value, within), total), within)

    def _logarithm(self, value: float, within: Context) -> Bounds:
        """Returns x - greatest - ln(1 + others); the logarithm is positive, however small."""
        others = self._sum_of_others(within)
        if others.adjusted() < -within.prec:
            least, most = _around(others, within)
        else:
            wide = context(2 * within.prec)
            least, most = _around(wide.ln(wide.add(others, 1)), within)
        difference = _EXACT.subtract(Decimal(value), Decimal(self.greatest))
        exact = context(_EXACT.prec + within.prec)
        low, high = (exact.subtract(difference, max(bound, _LEAST_LOGARITHM)) for bound in (most, least))
        return low, high

    def _sum_of_others(self, within: Context) -> Decimal:
        """Returns the sum of e**(x - greatest), leaving out one maximum, whose term is 1."""
        if within.prec not in self._others:
            total, skipped = Decimal(0), 0
            for values in self.elements:
                for value, count in zip(*np.unique(values[values > -inf], return_counts=True), strict=True):
                    others = int(count)
                    if not skipped and value == self.greatest:
                        others, skipped = others - 1, 1
                    total = within.fma(self._exponential(float(value), within), others, total)
            self._others[within.prec] = total
        return self._others[within.prec]

    def _exponential(self, value: float, within: Context) -> Decimal:
        return within.exp(_EXACT.subtract(Decimal(value), Decimal(self.greatest)))


def _around(number: Decimal, within: Context) -> Bounds:
    """Returns bounds of a number computed with up to 2**32 roundings."""
    margin = number.copy_abs().scaleb(15 - within.prec, within)
    return within.subtract(number, margin), within.add(number, margin)


def block_of(view: Array, stop: Stop) -> Block | None:
    """Returns the block of elements, or None if its results are NaN."""
    greatest, least, count = -inf, inf, 0
    for values in Elements(view, stop):
        if np.isnan(values).any():
            return None
        finite = values[values > -inf]
        if finite.size:
            greatest, least = max(greatest, float(finite.max())), min(least, float(finite.min()))
            count += finite.size
    return (
        None
        if isnan(greatest) or greatest in (inf, -inf)
        else Block(Elements(view, stop, CHUNK), greatest, least, count)
    )


Share = Callable[[Block, float, FloatFormat], Float]

SOFTMAX: Share = Block.softmax
LOG_SOFTMAX: Share = Block.log_softmax


def _exponentials(share: Share) -> Callable[[Plan, Arrays, Arrays, Stop], None]:
    def run(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        of = FORMATS[plan.inputs["InputTensor"].data_type]
        for view, target in groups(axes_of(plan), inputs["InputTensor"], outputs["OutputTensor"]):
            block = block_of(view, stop)
            for place in places(view.shape, stop):
                target[place] = of.of(nan) if block is None else share(block, float(view[place]), of)

    return run


def hardmax(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    """Writes 1 at the first maximum of each block, 0 elsewhere. Nothing is greater than NaN at the first place."""
    for view, target in groups(axes_of(plan), inputs["InputTensor"], outputs["OutputTensor"]):
        winner = 0 if np.isnan(view[(0,) * view.ndim]) else FIRST_GREATEST.winner(Elements(view, stop))[0]
        for position, place in enumerate(places(view.shape, stop)):
            target[place] = position == winner


def axes_of(plan: Plan) -> tuple[int, ...]:
    """Returns the dimensions that form a block."""
    last: tuple[int, ...] = (plan.inputs["InputTensor"].rank - 1,)
    axes: tuple[int, ...] = getattr(plan.attributes, "Axes", last)
    return axes


def _turns(plan: Plan) -> int:
    """Elements; fewer if each is a block of its own, which needs no exponential."""
    count = plan.outputs["OutputTensor"].element_count
    return count if _length(plan) > 1 else -(-count // ALONE)


def _turns_of_hardmax(plan: Plan) -> int:
    """Blocks, plus the comparisons of their elements at a lower cost."""
    count = plan.outputs["OutputTensor"].element_count
    return count // _length(plan) + count // COMPARED


def _length(plan: Plan) -> int:
    """Returns the number of elements in a block."""
    return prod(plan.inputs["InputTensor"].sizes[axis] for axis in axes_of(plan))


KERNELS = {
    "ACTIVATION_HARDMAX": hardmax,
    "ACTIVATION_HARDMAX1": hardmax,
    **dict.fromkeys(("ACTIVATION_SOFTMAX", "ACTIVATION_SOFTMAX1"), _exponentials(SOFTMAX)),
    **dict.fromkeys(("ACTIVATION_LOG_SOFTMAX", "ACTIVATION_LOG_SOFTMAX1"), _exponentials(LOG_SOFTMAX)),
}

TURNS = {kernel: _turns_of_hardmax if kernel is hardmax else _turns for kernel in KERNELS.values()}
