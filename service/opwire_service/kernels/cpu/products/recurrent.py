"""Recurrent networks in float64: one step of some batch entries at a time, with input products computed ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from opwire.check import Plan
from opwire.enums import RecurrentNetworkDirection
from opwire.tensor import Array

from ....execution import Arrays, Stop, Stopped
from ...activation import Activation, activation_of
from ...reference.recurrent import clipped
from ..jit.compiler import Entry, Kernel
from ..numbers.vectors import WIDTH
from ..run.job import Job
from ..run.pool import Find, Pool
from . import blas
from .multiplying import MULTIPLY_SINGLES
from .operands import multiplying, padded

MOST_PACKED = 64 << 20
"""Maximum size of packed weights, in bytes, which all threads share; larger ones are converted in each step."""

ENTRIES = 16
"""Batch entries that a thread processes at once."""

AHEAD = 1 << 17
"""Maximum size of inputs, or of their products, that are computed ahead, in numbers."""

AT_ONCE = 1 << 26
"""Maximum number of products per call of a matrix multiplication."""

PART = 1 << 18
"""Weights converted at once."""

SHORT = 1 << 18
"""Products of a step below which it takes less time than what prepares it."""


class Weights:
    """Rows of weights.

    Args:
        view: ``[rows, columns]``, as given.
        multiply: entry of ``MULTIPLY_SINGLES``.
        is_packed: whether to keep a copy that is fast to multiply.
    """

    def __init__(self, view: Array, multiply: Entry, *, is_packed: bool) -> None:
        self._view, self._entry = view, multiply
        self._panels = _packed(view) if is_packed else None

    def product(self, vectors: Array, stop: Stop) -> Array:
        """Returns the products of vectors ``[count, columns]`` with the rows, ``[count, rows]``."""
        rows, columns = self._view.shape
        if self._panels is None:
            return self._product_in_parts(vectors, stop)
        pitch = padded(rows)
        result = np.empty((len(vectors), pitch))
        vectors = np.ascontiguousarray(vectors)
        height = max(1, AT_ONCE // (rows * columns))
        for first in range(0, len(vectors), height):
            if stop():
                raise Stopped
            part = slice(first, first + height)
            multiplying(vectors[None, part], self._panels, result[part], len(self._panels)).run(self._entry)
        return result[:, :rows]

    def repeated(self, count: int) -> Weights | RepeatedProduct:
        """Returns what computes products of ``count`` vectors again and again, on one thread."""
        rows, columns = self._view.shape
        if self._panels is None or count * rows * columns > AT_ONCE:
            return self
        vectors, sums = np.empty((count, columns)), np.empty((count, padded(rows)))
        call = multiplying(vectors[None], self._panels, sums, len(self._panels))
        return RepeatedProduct(vectors, sums[:, :rows], partial(call.run, self._entry))

    def _product_in_parts(self, vectors: Array, stop: Stop) -> Array:
        """Like ``product``, with BLAS, converting some weights to float64 at a time."""
        rows, columns = self._view.shape
        result = np.zeros((len(vectors), rows))
        width = min(columns, PART)
        height = max(1, min(AT_ONCE // (len(vectors) * width), PART // width))
        for first in range(0, rows, height):
            for left in range(0, columns, width):
                if stop():
                    raise Stopped
                down, across = slice(first, first + height), slice(left, left + width)
                result[:, down] += vectors[:, across] @ self._view[down, across].astype(np.float64).T
        return result


class RepeatedProduct(NamedTuple):
    """Products with the same weights, in memory of their own.

    Attributes:
        vectors, sums: that memory.
        run: multiplies.
    """

    vectors: Array
    sums: Array
    run: Callable[[], None]

    def product(self, vectors: Array, stop: Stop) -> Array:
        """Like ``Weights.product``; the result is valid until the next call."""
        self.vectors[...] = vectors
        self.run()
        return self.sums


def _packed(view: Array) -> Array:
    """Returns FLOAT32 weights as panels of sixteen rows, the last one padded with zeros."""
    rows, columns = view.shape
    panels = np.zeros((padded(rows) // WIDTH, columns, WIDTH), np.float32)
    whole = rows // WIDTH
    panels[:whole] = view[: whole * WIDTH].reshape(whole, WIDTH, columns).swapaxes(1, 2)
    if whole < len(panels):
        panels[whole, :, : rows - whole * WIDTH] = view[whole * WIDTH :].T
    return panels


@dataclass(frozen=True, slots=True)
class Network:
    """One direction of a network.

    Attributes:
        weights: weights of all gates.
        recurrence: recurrence weights of consecutive gates; split where one product depends on another gate.
        biases: biases of the weights and of the recurrence; zeros if there are none.
        peepholes: ``[3, hidden]`` of LSTM, or None.
        activations: activations of the gates.
        attributes: attributes of the plan.
        hidden: size of the state.
    """

    weights: Weights
    recurrence: Sequence[Weights | RepeatedProduct]
    biases: Array
    peepholes: Array | None
    activations: Sequence[Activation]
    attributes: Any
    hidden: int

    def gate(self, i: int) -> slice:
        return slice(i * self.hidden, (i + 1) * self.hidden)


class States(NamedTuple):
    """The states of some entries, ``[entries, hidden]``, and which entries have one, or None if all have.

    No product with a missing state is added, not even 0 times an infinity.
    """

    hidden: Array
    cell: Array
    has_hidden: Array | None
    has_cell: Array | None

    def recurrent(self, weights: Weights | RepeatedProduct, by: Array | float, stop: Stop) -> Array:
        """Returns the products of weights with the hidden states, which are scaled element by element."""
        return _where(self.has_hidden, weights.product(by * self.hidden, stop))

    def kept(self, share: Array) -> Array:
        """Returns the share of the hidden states that stays."""
        return _where(self.has_hidden, share * self.hidden)

    def scaled_cell(self, factors: Array) -> Array:
        """Returns the cells times other numbers."""
        return _where(self.has_cell, factors * self.cell)


def _where(has: Array | None, values: Array) -> Array:
    return values if has is None else np.where(has, values, 0)


class RecurrentStep(Protocol):
    """Computes the next hidden states and cells from the input products and the states."""

    def __call__(self, net: Network, ahead: Array, states: States, stop: Stop) -> tuple[Array, Array]: ...


def rnn_step(net: Network, ahead: Array, states: States, stop: Stop) -> tuple[Array, Array]:
    total = ahead + states.recurrent(net.recurrence[0], 1.0, stop) + net.biases[0] + net.biases[1]
    return net.activations[0](clipped(total, net.attributes)), states.cell


def gru_step(net: Network, ahead: Array, states: States, stop: Stop) -> tuple[Array, Array]:
    f, g = net.activations
    gates = slice(0, 2 * net.hidden)
    new = net.gate(2)
    early = ahead[:, gates] + net.biases[0, gates] + net.biases[1, gates]
    early += states.recurrent(net.recurrence[0], 1.0, stop)
    z, r = f(early[:, net.gate(0)]), f(early[:, net.gate(1)])
    if net.attributes.LinearBeforeReset:
        late = r * (states.recurrent(net.recurrence[1], 1.0, stop) + net.biases[1, new])
    else:
        late = states.recurrent(net.recurrence[1], r, stop) + net.biases[1, new]
    n = g(ahead[:, new] + net.biases[0, new] + late)
    return (1 - z) * n + states.kept(z), states.cell


def lstm_step(net: Network, ahead: Array, states: States, stop: Stop) -> tuple[Array, Array]:
    f, g, h = net.activations
    total = ahead + states.recurrent(net.recurrence[0], 1.0, stop) + net.biases[0] + net.biases[1]
    if net.peepholes is not None:
        for i in (0, 2):
            total[:, net.gate(i)] += states.scaled_cell(net.peepholes[i])
    entering = clipped(total, net.attributes)
    gates = f(entering[:, : 3 * net.hidden])
    into, out, forget = (gates[:, net.gate(i)] for i in range(3))
    if net.attributes.CoupleInputForget:
        forget = 1 - into
    cell = states.scaled_cell(forget) + into * g(entering[:, net.gate(3)])
    if net.peepholes is not None:
        out = f(clipped(total[:, net.gate(1)] + net.peepholes[1] * cell, net.attributes))
    return out * h(cell), cell


_INITIAL = ("HiddenInitTensor", "CellMemInitTensor")


class RecurrentJob(Job):
    """A recurrent network; a unit is some batch entries in one direction.

    Args:
        step: the network's step.
        activations: number of activations per direction.
        gates: number of gates in each part of the recurrence.
        plan: the plan to compute.
    """

    def __init__(self, step: RecurrentStep, activations: int, gates: tuple[int, ...], plan: Plan) -> None:
        self._step, self._gates, self._plan = step, gates, plan
        _, self._length, self._batch, self._width = plan.inputs["InputTensor"].sizes
        _, self._directions, self._rows, self._hidden = plan.inputs["RecurrenceTensor"].sizes
        own = [activation_of(operator) for operator in plan.attributes.ActivationDescs]
        self._activations = [own[i * activations : (i + 1) * activations] for i in range(self._directions)]
        self._elements = self._directions * self._rows * (self._width + self._hidden)
        self._is_packed = 4 * self._elements <= MOST_PACKED

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return (MULTIPLY_SINGLES,)

    def scratch_bytes(self, threads: int) -> int:
        entries = min(ENTRIES, self._batch)
        state = entries * (4 * self._rows + 24 * self._hidden + 2 * self._width)
        biases = self._directions * 2 * self._rows
        # Each part of the rows is padded to a whole panel.
        filled = self._directions * (len(self._gates) + 1) * WIDTH * max(self._width, self._hidden)
        packed = 4 * (self._elements + filled) if self._is_packed else 0
        return packed + 8 * (biases + threads * (state + 4 * AHEAD + 2 * PART))

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        blas.single_threaded()
        networks = [self._network(inputs, number, find(MULTIPLY_SINGLES)) for number in range(self._directions)]
        units = self._directions * -(-self._batch // ENTRIES)
        # Threads would take turns with short steps, which are mostly Python.
        is_short = self._rows * self._hidden * min(ENTRIES, self._batch) < SHORT
        pool.run(partial(self._units, networks, inputs, outputs, stop), units, units if is_short else 1, stop)

    def _network(self, inputs: Arrays, number: int, multiply: Entry) -> Network:
        make = partial(Weights, multiply=multiply, is_packed=self._is_packed)
        weights = make(inputs["WeightTensor"][0, number])
        parts = np.split(inputs["RecurrenceTensor"][0, number], np.cumsum(self._gates[:-1]) * self._hidden)
        recurrence = list(map(make, parts))
        biases = np.zeros((2, self._rows))
        if "BiasTensor" in inputs:
            biases[...] = inputs["BiasTensor"][0, 0, number].reshape(2, -1)
        peepholes = None
        if "PeepholeTensor" in inputs:
            peepholes = inputs["PeepholeTensor"][0, 0, number].reshape(3, -1).astype(np.float64)
        attributes = self._plan.attributes
        return Network(weights, recurrence, biases, peepholes, self._activations[number], attributes, self._hidden)

    def _units(
        self, networks: Sequence[Network], inputs: Arrays, outputs: Arrays, stop: Stop, begin: int, end: int
    ) -> None:
        across = -(-self._batch // ENTRIES)
        for unit in range(begin, end):
            number, first = divmod(unit, across)
            entries = slice(first * ENTRIES, min((first + 1) * ENTRIES, self._batch))
            with np.errstate(all="ignore"):
                self._walk(networks[number], number, entries, inputs, outputs, stop)

    def _walk(self, net: Network, number: int, entries: slice, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """Runs the sequences of some entries, each over its own length.

        The last state of an empty sequence is the one before a backward pass. Forward it is 0, or, where no sequence
        has more than one step, the state after that step.
        """
        lengths = np.full((entries.stop - entries.start, 1), self._length)
        if "SequenceLengthsTensor" in inputs:
            given = inputs["SequenceLengthsTensor"][0, 0, 0, entries].astype(np.int64)
            lengths = np.minimum(lengths, given[:, None])
        is_backward = number == 1 or self._plan.attributes.Direction is RecurrentNetworkDirection.BACKWARD
        ends = np.maximum(lengths, 1) if self._length == 1 and not is_backward else lengths
        is_whole = bool((lengths == self._length).all())
        hidden, cell = np.zeros((2, len(lengths), net.hidden))
        for name, state in zip(_INITIAL, (hidden, cell), strict=True):
            if name in inputs:
                state[...] = np.where(is_backward | (ends > 0), inputs[name][0, number, entries], 0)
        sequence = outputs.get("OutputSequenceTensor")
        recurrence = [each.repeated(len(lengths)) for each in net.recurrence if isinstance(each, Weights)]
        net = replace(net, recurrence=recurrence)
        for t, ahead in self._ahead(net, inputs["InputTensor"][0, :, entries], is_backward, stop):
            is_later = t < ends - 1 if is_backward else np.full_like(ends, t > 0, bool)
            has = [None if name in inputs or is_later.all() else is_later for name in _INITIAL]
            after = self._step(net, ahead, States(hidden, cell, *has), stop)
            if is_whole:
                hidden, cell = after
            else:
                hidden, cell = (np.where(t < ends, new, old) for new, old in zip(after, (hidden, cell), strict=True))
            if sequence is not None:
                sequence[t, number, entries] = hidden if is_whole else np.where(t < lengths, hidden, 0)
        for name, state in (("OutputSingleTensor", hidden), ("OutputCellSingleTensor", cell)):
            if name in outputs:
                outputs[name][0, number, entries] = state

    def _ahead(self, net: Network, source: Array, is_backward: bool, stop: Stop) -> Iterator[tuple[int, Array]]:
        """Yields the steps in order, each with the products of its inputs and the weights."""
        entries = source.shape[1]
        several = max(1, AHEAD // (entries * max(self._rows, self._width)))
        firsts = range(0, self._length, several)
        for first in reversed(firsts) if is_backward else firsts:
            part = source[first : first + several].astype(np.float64)
            products = net.weights.product(part.reshape(-1, self._width), stop).reshape(len(part), entries, -1)
            steps = range(len(part))
            for i in reversed(steps) if is_backward else steps:
                yield first + i, products[i]


RNN = partial(RecurrentJob, rnn_step, 1, (1,))
GRU = partial(RecurrentJob, gru_step, 2, (2, 1))
LSTM = partial(RecurrentJob, lstm_step, 3, (4,))
