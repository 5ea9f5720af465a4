"""What sums and products of elements are, in fractions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array
from tests import oracle
from tests.oracles import Answer, fraction_of


def _value_scale(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Answer]:
    source, scale = inputs["InputTensor"], plan.attributes.Scale
    result = np.empty_like(source)
    for at in np.ndindex(source.shape):
        numbers = float(source[at]), scale, plan.attributes.Bias[at[1]]
        number, factor, bias = map(fraction_of, numbers)
        if number is None or factor is None or bias is None or number * factor + bias == 0:
            result[at] = numbers[0] * numbers[1] + numbers[2]
        else:
            result[at] = oracle.rounded(number * factor + bias, source.dtype)
    return {"OutputTensor": result}


EXPECTED = {"VALUE_SCALE_2D": _value_scale}
