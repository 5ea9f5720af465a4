"""Recurrent networks in float64, one batch entry at a time; each output is rounded once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import fsum
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.enums import RecurrentNetworkDirection
from opwire.tensor import Array

from ...execution import Arrays, Stop, Stopped
from ..activation import Activation, activation_of
from .elements import Elements

GREATEST = float(np.finfo(np.float32).max)


def clip_threshold(attributes: Any) -> float:
    """Returns the greatest magnitude of what enters the activations of RNN and of the gates of LSTM."""
    return float(attributes.ClipThreshold) if getattr(attributes, "UseClipThreshold", False) else GREATEST


def clipped(values: Array, attributes: Any) -> Array:
    """Returns what enters these activations; NaN enters as the least number. A threshold of NaN clips nothing."""
    threshold = clip_threshold(attributes)
    found: Array = np.fmin(np.fmax(values, -threshold), threshold)
    return found


@dataclass(frozen=True, slots=True)
class Direction:
    """The parameters of one direction of a network, as views.

    Attributes:
        weights, recurrence: ``[gates * hidden, input]`` and ``[gates * hidden, hidden]``.
        biases: biases of the weights, then of the recurrence, or None.
        peepholes: peephole weights of an LSTM, or None.
        activations: activations of the gates.
        backward: whether the sequence is processed from its end.
    """

    weights: Array
    recurrence: Array
    biases: Array | None
    peepholes: Array | None
    activations: Sequence[Activation]
    backward: bool

    def gate(self, i: int, hidden: int) -> slice:
        return slice(i * hidden, (i + 1) * hidden)

    def bias(self, rows: slice, *, recurrent: bool) -> Array | float:
        if self.biases is None:
            return 0.0
        first = len(self.weights) if recurrent else 0
        return self.biases[first + rows.start : first + rows.stop].astype(np.float64)


@dataclass(slots=True)
class RecurrentState:
    """The state between two steps: the hidden state, and the cell of an LSTM.

    Before the first step they may be missing: no product with a missing state is added, not even 0 times an infinity.
    """

    hidden: Array
    cell: Array
    has_hidden: bool = True
    has_cell: bool = True

    def recurrent(self, weights: Array, by: Array | float, stop: Stop) -> Array:
        """Returns the products of weights with the hidden state, which is scaled element by element."""
        return dot(weights, by * self.hidden, stop) if self.has_hidden else np.zeros(len(weights))

    def kept(self, share: Array) -> Array:
        """Returns the share of the hidden state that stays."""
        return share * self.hidden if self.has_hidden else np.zeros(len(share))

    def scaled_cell(self, factors: Array) -> Array:
        """Returns the cell times other numbers."""
        return factors.astype(np.float64) * self.cell if self.has_cell else np.zeros(len(factors))


Step = Callable[[Direction, Array, RecurrentState, Any, Stop], RecurrentState]
"""Computes the next state from a step's input, the previous state and the plan's attributes."""


def dot(matrix: Array, vector: Array, stop: Stop) -> Array:
    """Multiplies a matrix by a vector, summing each row without error."""
    with np.errstate(all="ignore"):
        return np.array([_sum(_products(row, vector, stop)) for row in matrix])


def _products(row: Array, vector: Array, stop: Stop) -> Iterator[Array]:
    for a, b in zip(Elements(row, stop), Elements(vector, stop), strict=True):
        yield a.astype(np.float64) * b.astype(np.float64)


def _sum(chunks: Iterator[Array]) -> float:
    finite, special = [0.0], 0.0
    for products in chunks:
        if np.isfinite(np.abs(products).sum()):
            finite = [fsum([*finite, *products.tolist()])]
        else:
            special += float(products.sum())
    return finite[0] + special


def rnn_step(direction: Direction, source: Array, state: RecurrentState, attributes: Any, stop: Stop) -> RecurrentState:
    hidden = slice(0, len(state.hidden))
    total = dot(direction.weights, source, stop) + state.recurrent(direction.recurrence, 1.0, stop)
    total = total + direction.bias(hidden, recurrent=False) + direction.bias(hidden, recurrent=True)
    return RecurrentState(direction.activations[0](clipped(total, attributes)), state.cell)


def gru_step(direction: Direction, source: Array, state: RecurrentState, attributes: Any, stop: Stop) -> RecurrentState:
    f, g = direction.activations
    update, reset, new = (direction.gate(i, len(state.hidden)) for i in range(3))

    def weighted(rows: slice) -> Array:
        return dot(direction.weights[rows], source, stop) + direction.bias(rows, recurrent=False)

    def recurrent(rows: slice, by: Array | float = 1.0) -> Array:
        return state.recurrent(direction.recurrence[rows], by, stop) + direction.bias(rows, recurrent=True)

    z = f(weighted(update) + recurrent(update))
    r = f(weighted(reset) + recurrent(reset))
    n = g(weighted(new) + (r * recurrent(new) if attributes.LinearBeforeReset else recurrent(new, r)))
    return RecurrentState((1 - z) * n + state.kept(z), state.cell)


def lstm_step(
    direction: Direction, source: Array, state: RecurrentState, attributes: Any, stop: Stop
) -> RecurrentState:
    f, g, h = direction.activations

    def gate(i: int, through: RecurrentState | None) -> Array:
        """Returns the input of an activation, including the peephole connection if there is one."""
        rows = direction.gate(i, len(state.hidden))
        total = dot(direction.weights[rows], source, stop) + state.recurrent(direction.recurrence[rows], 1.0, stop)
        if direction.peepholes is not None and through is not None:
            total = total + through.scaled_cell(direction.peepholes[rows])
        total = total + direction.bias(rows, recurrent=False) + direction.bias(rows, recurrent=True)
        return clipped(total, attributes)

    into = f(gate(0, state))
    forget = 1 - into if attributes.CoupleInputForget else f(gate(2, state))
    after = RecurrentState(state.hidden, state.scaled_cell(forget) + into * g(gate(3, None)))
    return RecurrentState(f(gate(1, after)) * h(after.cell), after.cell)


def run(step: Step, activations: int, plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    for number in range(plan.inputs["WeightTensor"].sizes[1]):
        direction = _direction(plan, inputs, number, activations)
        for entry in range(plan.inputs["InputTensor"].sizes[2]):
            if stop():  # once per entry: the sequence may be empty, so its steps never poll
                raise Stopped
            _walk(step, direction, number, entry, plan.attributes, inputs, outputs, stop)


def _direction(plan: Plan, inputs: Arrays, number: int, activations: int) -> Direction:
    own = plan.attributes.ActivationDescs[number * activations : (number + 1) * activations]
    return Direction(
        inputs["WeightTensor"][0, number],
        inputs["RecurrenceTensor"][0, number],
        inputs["BiasTensor"][0, 0, number] if "BiasTensor" in inputs else None,
        inputs["PeepholeTensor"][0, 0, number] if "PeepholeTensor" in inputs else None,
        tuple(map(activation_of, own)),
        number == 1 or plan.attributes.Direction is RecurrentNetworkDirection.BACKWARD,
    )


def _walk(
    step: Step,
    direction: Direction,
    number: int,
    entry: int,
    attributes: Any,
    inputs: Arrays,
    outputs: Arrays,
    stop: Stop,
) -> None:
    """Processes one batch entry in one direction; beyond its length the output sequence is 0.

    The last state of an empty sequence is the one before a backward pass. Forward it is 0, or, where no sequence has
    more than one step, the state after that step.
    """
    source, sequence = inputs["InputTensor"][0, :, entry], outputs.get("OutputSequenceTensor")
    length = len(source)
    if "SequenceLengthsTensor" in inputs:
        length = min(length, int(inputs["SequenceLengthsTensor"][0, 0, 0, entry]))
    names = ("HiddenInitTensor", "CellMemInitTensor")
    hidden = direction.recurrence.shape[-1]
    first = [inputs[n][0, number, entry].astype(np.float64) if n in inputs else np.zeros(hidden) for n in names]
    state = RecurrentState(first[0], first[1], *(n in inputs for n in names))
    if sequence is not None:
        sequence[length:, number, entry] = 0
    if length == 0 and len(source) > 1 and not direction.backward:
        state = RecurrentState(np.zeros(hidden), np.zeros(hidden))
    steps = reversed(range(length)) if direction.backward else range(1 if len(source) == 1 else length)
    with np.errstate(all="ignore"):
        for t in steps:
            state = step(direction, source[t], state, attributes, stop)
            if sequence is not None and t < length:
                sequence[t, number, entry] = state.hidden
        for name, last in (("OutputSingleTensor", state.hidden), ("OutputCellSingleTensor", state.cell)):
            if name in outputs:
                outputs[name][0, number, entry] = last


KERNELS = {"RNN": partial(run, rnn_step, 1), "LSTM": partial(run, lstm_step, 3), "GRU": partial(run, gru_step, 2)}
