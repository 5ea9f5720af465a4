"""Recurrent networks with 50 digits, element by element."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st
from mpmath import mp, mpf

from opwire.check import Plan
from opwire.tensor import Array
from tests.oracles import Answer, Reals

from .fused import activate

PER_DIRECTION = {"RNN": 1, "LSTM": 3, "GRU": 2}

_GREATEST = float(np.finfo(np.float32).max)
"""What clips without a threshold."""

Vector = list[Any]


def _activation(operator: Any) -> Callable[[Vector], Vector]:
    return lambda values: [activate(operator, value) for value in values]


class _Network:
    """One direction of a network for one entry of the batch."""

    def __init__(self, plan: Plan, inputs: Mapping[str, Array], direction: int, entry: int) -> None:
        self.given, self.inputs = plan.attributes, inputs
        self.direction, self.entry = direction, entry
        self.hidden = plan.inputs["RecurrenceTensor"].sizes[3]
        count = PER_DIRECTION[plan.operator.name]
        self.activations = [_activation(a) for a in self.given.ActivationDescs[direction * count :][:count]]
        self.gates = plan.inputs["WeightTensor"].sizes[2] // self.hidden

    def part(self, name: str, number: int) -> Vector:
        """Returns a hidden-size slice of a tensor with one row per direction."""
        if name not in self.inputs:
            return [mpf(0)] * self.hidden
        row = self.inputs[name][0, 0, self.direction].tolist()
        return list(map(mpf, row[number * self.hidden : (number + 1) * self.hidden]))

    def state(self, name: str) -> Vector | None:
        """Returns the state before the first step, if there is one."""
        if name not in self.inputs:
            return None
        return list(map(mpf, self.inputs[name][0, self.direction, self.entry].tolist()))

    def product(self, name: str, gate: int, vector: Sequence[Any] | None) -> Vector:
        if vector is None:
            return [mpf(0)] * self.hidden
        rows = self.inputs[name][0, self.direction].tolist()[gate * self.hidden : (gate + 1) * self.hidden]
        return [sum((mpf(w) * v for w, v in zip(row, vector, strict=True)), mpf(0)) for row in rows]

    def gate(self, gate: int, source: Vector, hidden: Vector | None) -> Vector:
        parts = (
            self.product("WeightTensor", gate, source),
            self.product("RecurrenceTensor", gate, hidden),
            self.part("BiasTensor", gate),
            self.part("BiasTensor", self.gates + gate),
        )
        return [sum(terms, mpf(0)) for terms in zip(*parts, strict=True)]

    def rnn(self, source: Vector, hidden: Vector | None, cell: Vector | None) -> tuple[Vector, Vector | None]:
        return self.activations[0](self.clipped(self.gate(0, source, hidden))), cell

    def gru(self, source: Vector, hidden: Vector | None, cell: Vector | None) -> tuple[Vector, Vector | None]:
        f, g = self.activations
        z, r = f(self.gate(0, source, hidden)), f(self.gate(1, source, hidden))
        ahead = zip(self.product("WeightTensor", 2, source), self.part("BiasTensor", 2), strict=True)
        if self.given.LinearBeforeReset:
            back = zip(self.product("RecurrenceTensor", 2, hidden), self.part("BiasTensor", 5), strict=True)
            recurrent = [a * (b + c) for a, (b, c) in zip(r, back, strict=True)]
        else:
            reset = None if hidden is None else [a * b for a, b in zip(r, hidden, strict=True)]
            back = zip(self.product("RecurrenceTensor", 2, reset), self.part("BiasTensor", 5), strict=True)
            recurrent = [b + c for b, c in back]
        n = g([a + b + c for (a, b), c in zip(ahead, recurrent, strict=True)])
        kept = _products(z, hidden)
        return [(1 - a) * b + c for a, b, c in zip(z, n, kept, strict=True)], cell

    def clipped(self, values: Vector) -> Vector:
        """Clips what enters an activation; NaN enters as the least number. A threshold of NaN clips nothing."""
        threshold = mpf(self.given.ClipThreshold if getattr(self.given, "UseClipThreshold", False) else _GREATEST)
        if mp.isnan(threshold):
            return values
        return [min(-threshold if mp.isnan(value) else max(value, -threshold), threshold) for value in values]

    def peeped(self, gate: int, source: Vector, hidden: Vector | None, cell: Vector | None) -> Vector:
        through = _products(self.part("PeepholeTensor", gate), cell if "PeepholeTensor" in self.inputs else None)
        total = self.gate(gate, source, hidden)
        return self.clipped([a + b for a, b in zip(total, through, strict=True)])

    def lstm(self, source: Vector, hidden: Vector | None, cell: Vector | None) -> tuple[Vector, Vector]:
        f, g, h = self.activations
        into = f(self.peeped(0, source, hidden, cell))
        forget = f(self.peeped(2, source, hidden, cell))
        if self.given.CoupleInputForget:
            forget = [1 - i for i in into]
        new = g(self.clipped(self.gate(3, source, hidden)))
        cell = [a + b * c for a, b, c in zip(_products(forget, cell), into, new, strict=True)]
        out = f(self.peeped(1, source, hidden, cell))
        return [a * b for a, b in zip(out, h(cell), strict=True)], cell


def _products(factors: Vector, state: Vector | None) -> Vector:
    """Returns products with a state; those with none are 0 even for infinite factors."""
    return [mpf(0)] * len(factors) if state is None else [a * b for a, b in zip(factors, state, strict=True)]


def _is_free(operator: Any) -> bool:
    return any(isinstance(value, float) and not math.isfinite(value) for value in operator.values.values())


def _answers(plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Answer]:
    found = {name: np.full(desc.sizes, None, object) for name, desc in plan.outputs.items()}
    if not any(map(_is_free, plan.attributes.ActivationDescs)):
        with mp.workdps(50):
            _, directions, _, _ = plan.inputs["WeightTensor"].sizes
            for direction in range(directions):
                for entry in range(plan.inputs["InputTensor"].sizes[2]):
                    _walk(plan, inputs, direction, entry, found)
    return {name: Reals(numbers, Fraction(1)) for name, numbers in found.items()}


def _walk(plan: Plan, inputs: Mapping[str, Array], direction: int, entry: int, found: dict[str, Array]) -> None:
    network = _Network(plan, inputs, direction, entry)
    step = getattr(network, plan.operator.name.lower())
    hidden, cell = network.state("HiddenInitTensor"), network.state("CellMemInitTensor")
    length = plan.inputs["InputTensor"].sizes[1]
    sequence = found.get("OutputSequenceTensor", np.empty((length, direction + 1, entry + 1, network.hidden), object))
    if "SequenceLengthsTensor" in inputs:
        length = min(length, int(inputs["SequenceLengthsTensor"][0, 0, 0, entry]))
    sequence[length:, direction, entry] = mpf(0)
    steps = list(range(length))
    if direction == 1 or plan.attributes.Direction.name == "BACKWARD":
        steps.reverse()
    elif length == 0 and plan.inputs["InputTensor"].sizes[1] == 1:
        steps = [0]
    elif length == 0:
        hidden = cell = None
    for t in steps:
        source = list(map(mpf, inputs["InputTensor"][0, t, entry].tolist()))
        hidden, cell = step(source, hidden, cell)
        for i, value in enumerate(hidden if t < length else ()):
            sequence[t, direction, entry, i] = value
    for name, state in (("OutputSingleTensor", hidden), ("OutputCellSingleTensor", cell)):
        if name in found:
            for i, value in enumerate(state or [mpf(0)] * network.hidden):
                found[name][0, direction, entry, i] = value


def moderate(draw: st.DrawFn, plan: Plan) -> dict[str, Array]:
    """Draws floats as multiples of 1/8 from -3 to 3; where elements share an address, the last one counts."""
    chosen = random.Random(draw(st.integers(0, 2**32)))
    return {
        name: np.array(chosen.choices(range(-24, 25), k=desc.element_count)).reshape(desc.sizes) / 8
        for name, desc in plan.inputs.items()
        if desc.data_type.is_float
    }


def _draw(draw: st.DrawFn, plan: Plan) -> dict[str, Array]:
    found = moderate(draw, plan)
    lengths = plan.inputs.get("SequenceLengthsTensor")
    if lengths is not None:
        found["SequenceLengthsTensor"] = np.array(
            [draw(st.integers(0, plan.inputs["InputTensor"].sizes[1] + 1)) for _ in range(lengths.element_count)]
        ).reshape(lengths.sizes)
    return found


EXPECTED = dict.fromkeys(PER_DIRECTION, _answers)
INPUTS = dict.fromkeys(PER_DIRECTION, _draw)
