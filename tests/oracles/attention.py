"""Multi-head attention with 50 digits, element by element."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st
from mpmath import mp, mpf

from opwire.check import Plan
from opwire.tensor import Array
from tests.oracles import Answer, Reals

from .recurrent import moderate


def _lowest(inputs: Mapping[str, Array], name: str, rank: int) -> Array:
    array = inputs[name]
    return array.reshape(array.shape[array.ndim - rank :])


class _Given:
    """The inputs, split into their parts."""

    def __init__(self, plan: Plan, inputs: Mapping[str, Array]) -> None:
        self.attributes, self.inputs = plan.attributes, inputs
        both = getattr(plan.attributes, "HeadCount", None)
        self.queries = both or plan.attributes.QueryHeadCount
        self.keys = both or plan.attributes.KeyValueHeadCount
        self.parts = [self._part("Query", self.queries), self._part("Key", self.keys), self._part("Value", self.keys)]
        self.past = inputs["PastKeyTensor"].shape[-2] if "PastKeyTensor" in inputs else 0
        self.total = self.past + len(self.parts[1][0])

    def _part(self, part: str, heads: int) -> list[list[list[list[float]]]]:
        """Returns a part as ``[batch][position][head][i]``."""
        if f"{part}Tensor" in self.inputs:
            array = _lowest(self.inputs, f"{part}Tensor", 3)
            size = array.shape[2] // heads
            return [[[row[h * size : (h + 1) * size] for h in range(heads)] for row in rows] for rows in array.tolist()]
        name = next(name for name in self.inputs if name.startswith("Stacked") and part in name)
        order = [each for each in ("Query", "Key", "Value") if each in name]
        array = self.inputs[name]
        return [
            [[[float(x) for x in head[order.index(part)]] for head in row] for row in rows] for rows in array.tolist()
        ]

    def new(self, number: int, batch: int, at: int, head: int) -> list[Any]:
        """Returns a query, key or value with its bias."""
        values = [mpf(x) for x in self.parts[number][batch][at][head]]
        if "BiasTensor" not in self.inputs:
            return values
        bias = self.inputs["BiasTensor"].reshape(-1).tolist()
        before = sum(len(part[0][0]) * len(part[0][0][0]) for part in self.parts[:number])
        first = before + head * len(values)
        return [a + mpf(b) for a, b in zip(values, bias[first : first + len(values)], strict=True)]

    def begin(self, batch: int) -> int:
        if "PastSequenceLengthsTensor" not in self.inputs:
            return self.past
        return max(0, min(self.past, int(self.inputs["PastSequenceLengthsTensor"].reshape(-1)[batch])))

    def present(self, number: int, batch: int, at: int, head: int) -> list[Any]:
        """Returns a past or new key (1) or value (2); zeros beyond the end."""
        begin = self.begin(batch)
        if at < begin:
            past = _lowest(self.inputs, ("", "PastKeyTensor", "PastValueTensor")[number], 4)
            return [mpf(x) for x in past[batch, head, at].tolist()]
        if at < begin + len(self.parts[number][batch]):
            return self.new(number, batch, at - begin, head)
        return [mpf(0)] * len(self.parts[number][batch][0][head])

    def score(self, batch: int, head: int, i: int, j: int, shared: int) -> Any:
        pairs = zip(self.new(0, batch, i, head), self.present(1, batch, j, shared), strict=True)
        total = sum((a * b for a, b in pairs), mpf(0)) * mpf(self.attributes.Scale)
        if "RelativePositionBiasTensor" in self.inputs:
            total += mpf(float(_lowest(self.inputs, "RelativePositionBiasTensor", 4)[batch, head, i, j]))
        kind, value = self.attributes.MaskType.name, mpf(self.attributes.MaskFilterValue)
        if "MaskTensor" not in self.inputs:
            return total
        if kind == "NONE":
            return total
        if kind == "BOOLEAN":
            return total + value * bool(_lowest(self.inputs, "MaskTensor", 4)[batch, head, i, j] == 0)
        mask = self.inputs["MaskTensor"].reshape(-1).tolist()
        start = mask[len(self.parts[0]) + batch] if kind == "KEY_SEQUENCE_END_START" else 0
        return total + value * (not start <= j < mask[batch])

    def answer(self, batch: int, i: int, head: int) -> list[Any]:
        shared = head // (self.queries // self.keys)
        seen = self.total
        if "PastSequenceLengthsTensor" in self.inputs:
            seen = min(seen, self.begin(batch) + i + 1)
        scores = [self.score(batch, head, i, j, shared) for j in range(seen)]
        values = [self.present(2, batch, j, shared) for j in range(seen)]
        if any(mp.isnan(s) or s == mp.inf for s in scores) or max(scores) == -mp.inf:
            return [math.nan] * len(values[0])
        powers = [mp.exp(s - max(scores)) if s > -mp.inf else mpf(0) for s in scores]
        columns = zip(*values, strict=True)
        return [sum((p * v for p, v in zip(powers, column, strict=True)), mpf(0)) / sum(powers) for column in columns]


def _answers(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Answer]:
    found = {name: np.empty(desc.sizes, object) for name, desc in plan.outputs.items()}
    with mp.workdps(50):
        given = _Given(plan, inputs)
        output = found["OutputTensor"].reshape(found["OutputTensor"].shape[-3:])
        for batch, i in np.ndindex(output.shape[:2]):
            heads = [given.answer(batch, i, head) for head in range(given.queries)]
            output[batch, i] = [value for head in heads for value in head]
        for number, name in ((1, "OutputPresentKeyTensor"), (2, "OutputPresentValueTensor")):
            if name in found:
                present = found[name].reshape(found[name].shape[-4:])
                for batch, head, at in np.ndindex(present.shape[:3]):
                    present[batch, head, at] = given.present(number, batch, at, head)
    return {name: Reals(numbers, Fraction(name == "OutputTensor") or Fraction(1, 2)) for name, numbers in found.items()}


def _draw(draw: st.DrawFn, plan: Plan) -> dict[str, Array]:
    found = moderate(draw, plan)
    for name, most in (("MaskTensor", 4), ("PastSequenceLengthsTensor", 3)):
        if name in plan.inputs:
            desc = plan.inputs[name]
            numbers = st.lists(st.integers(0, most), min_size=desc.element_count, max_size=desc.element_count)
            found[name] = np.array(draw(numbers)).reshape(desc.sizes)
    return found


EXPECTED = dict.fromkeys(("MULTIHEAD_ATTENTION", "MULTIHEAD_ATTENTION1"), _answers)
INPUTS = dict.fromkeys(EXPECTED, _draw)
