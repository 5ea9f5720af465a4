"""Softmax, log-softmax and hardmax, by mpmath with many digits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

from opwire.check import Plan
from opwire.tensor import Array
from tests.oracles import Answer, Reals

mp = mpmath.MPContext()
mp.dps = 400

Coordinate = tuple[int, ...]


def blocks(plan: Plan) -> Iterator[list[Coordinate]]:
    """Yields the coordinates of each block, in row-major order."""
    sizes = plan.outputs["OutputTensor"].sizes
    axes = getattr(plan.attributes, "Axes", (len(sizes) - 1,))
    found: dict[Coordinate, list[Coordinate]] = {}
    for place in itertools.product(*map(range, sizes)):
        kept = tuple(0 if i in axes else at for i, at in enumerate(place))
        found.setdefault(kept, []).append(place)
    yield from found.values()


def _exponentials(values: Sequence[float]) -> list[Any]:
    """Returns exp(x - maximum); far below every float, any number that small will do."""
    greatest = max(values)
    return [mp.mpf(0) if value == -math.inf else mp.exp(mp.mpf(value) - mp.mpf(greatest)) for value in values]


def _shares(values: Sequence[float]) -> list[Any]:
    if len(set(values)) == 1:
        return [Fraction(1, len(values))] * len(values)
    powers = _exponentials(values)
    total = mp.fsum(powers)
    return [power / total for power in powers]


def _logarithms(values: Sequence[float]) -> list[Any]:
    greatest = max(values)
    # The sum of the others must not vanish: the difference alone may be a tie.
    rest = _exponentials(values)
    rest.remove(mp.mpf(1))
    others = mp.log1p(mp.fsum(rest)) if rest else mp.mpf(0)
    if any(value > -math.inf for value in values if value != greatest) or values.count(greatest) > 1:
        others = max(others, mp.mpf(10) ** -300)
    return [-math.inf if value == -math.inf else mp.mpf(value) - mp.mpf(greatest) - others for value in values]


def _each_block(function: Callable[[Sequence[float]], list[Any]]) -> Callable[[Plan, Mapping[str, Array]], Any]:
    def expected(plan: Plan, inputs: Mapping[str, Array]) -> Mapping[str, Answer]:
        source = inputs["InputTensor"]
        numbers = np.empty(source.shape, object)
        for places in blocks(plan):
            values = [float(source[place]) for place in places]
            undefined = any(map(math.isnan, values)) or max(values) == math.inf or max(values) == -math.inf
            for place, number in zip(places, [math.nan] * len(values) if undefined else function(values), strict=True):
                numbers[place] = number
        return {"OutputTensor": Reals(numbers)}

    return expected


def _hardmax(plan: Plan, inputs: Mapping[str, Array]) -> Mapping[str, Answer]:
    source = inputs["InputTensor"]
    found = np.zeros(source.shape, source.dtype)
    for places in blocks(plan):
        winner = places[0]
        for place in places[1:]:
            if source[place] > source[winner]:  # never beside NaN
                winner = place
        found[winner] = 1
    return {"OutputTensor": found}


EXPECTED = {
    **dict.fromkeys(("ACTIVATION_SOFTMAX", "ACTIVATION_SOFTMAX1"), _each_block(_shares)),
    **dict.fromkeys(("ACTIVATION_LOG_SOFTMAX", "ACTIVATION_LOG_SOFTMAX1"), _each_block(_logarithms)),
    **dict.fromkeys(("ACTIVATION_HARDMAX", "ACTIVATION_HARDMAX1"), _hardmax),
}
