"""The gradient of max pooling, and max unpooling, element by element."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from opwire.check import Plan
from opwire.tensor import Array
from tests.oracles import Answer, Reals, oracle
from tests.oracles.windows import Coordinate, elements_of, every, of_sums


def _gradient(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Answer]:
    source, gradient = inputs["InputTensor"], inputs["InputGradientTensor"]
    won: dict[Coordinate, list[tuple[Any, Fraction]]] = {}
    for window in every(gradient.shape):
        having = [window[:2] + at for at in elements_of(plan.attributes, source.shape[2:], window[2:])]
        best = having[0]
        for place in having:
            if source[place] > source[best] or (np.isnan(source[best]) and not np.isnan(source[place])):
                best = place
        won.setdefault(best, []).append((gradient[window], Fraction(1)))
    return {"OutputGradientTensor": Reals(of_sums(source.shape, won))}


def _unpooled(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Answer]:
    source, indices, desc = inputs["InputTensor"], inputs["IndicesTensor"], plan.outputs["OutputTensor"]
    flat = [desc.data_type.dtype.type(0)] * desc.element_count
    for place in every(source.shape):
        if int(indices[place]) < len(flat):
            flat[int(indices[place])] = source[place]
    return {"OutputTensor": np.array(flat, desc.data_type.dtype).reshape(desc.sizes)}


def _draw_indices(draw: Any, plan: Plan) -> dict[str, Array]:
    """Draws indices that are mostly in range, some of them duplicated."""
    desc = plan.inputs["IndicesTensor"]
    top = plan.outputs["OutputTensor"].element_count
    numbers = st.integers(0, top - 1) | st.integers(0, min(2 * top, 2**32 - 1)) | st.just(2**32 - 1)
    drawn = draw(st.lists(numbers, min_size=desc.element_count, max_size=desc.element_count))
    return {"IndicesTensor": np.array(drawn, desc.data_type.dtype).reshape(desc.sizes)}


EXPECTED = {
    **dict.fromkeys(("MAX_POOLING", "MAX_POOLING1", "MAX_POOLING2"), oracle.pool),
    "MAX_POOLING_GRAD": _gradient,
    "MAX_UNPOOLING": _unpooled,
}

INPUTS = {"MAX_UNPOOLING": _draw_indices}
