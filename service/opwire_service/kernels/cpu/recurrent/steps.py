"""Kernels that run some steps of a recurrent network, with the products of their inputs computed ahead."""

from __future__ import annotations

from collections.abc import Callable

from ..jit.atomics import call
from ..jit.compiler import Kernel, inlined, inner, kernel
from ..jit.element import INT64, float32, int64, load
from ..numbers.vectors import WIDTH, Vector, load_vector, pick, spread, store_vector
from ..products.multiplying import MatrixProduct
from .geometry import Network
from .primitives import evaluate

INTO, FORGET, OUT, NEW = range(4)
"""Places of the gates of LSTM in memory; its weights are those of the input, output, forget and cell gates."""


@inlined
def _row(net: Network, address: int, row: int) -> int:
    return address + 8 * row * net.pitch


@inlined
def _has(net: Network, is_given: bool, entry: int, t: int) -> bool:
    """Whether an entry has a state before a step. No product with a missing one is added, not even 0 * infinity."""
    return is_given or (t < load(net.memory.ends, entry, int64(0)) - 1 if net.is_backward else t > 0)


@inner
def _multiply(net: Network, product: MatrixProduct, left: int, right: int, sums: int, t: int) -> None:
    """Multiplies states by recurrence weights."""
    call(net.multiply, float32(0), left, sums, right, product, 0, product.panels)
    for e in range(net.entries):
        if not _has(net, net.has_states, e, t):
            for j in range(product.panels):
                store_vector(sums, (e * product.panels + j) * WIDTH, spread(0.0))


@inlined
def _clipped(net: Network, x: Vector) -> Vector:
    """See ``clipped`` of the reference."""
    low, high = spread(net.low), spread(net.high)
    x = pick((x > low) | (low != low), x, low)
    return pick((x < high) | (high != high), x, high)


@inner
def _enter(net: Network, step: int, e: int, gate: int, to: int, peepholes: int, is_clipped: bool) -> None:
    """Adds up what enters the activation of a gate."""
    ahead = net.memory.products + 8 * ((step * net.entries + e) * net.ahead.panels * WIDTH + gate * net.hidden)
    sums = net.memory.sums + 8 * (e * net.early.panels * WIDTH + gate * net.hidden)
    biases, cells = net.biases + 8 * gate * net.hidden, _row(net, net.memory.cells, e)
    for j in range(0, net.hidden, WIDTH):
        total = load_vector(ahead, j, 0.0) + load_vector(sums, j, 0.0) + load_vector(biases, j, 0.0)
        if peepholes != 0:
            total = total + load_vector(peepholes, j, 0.0) * load_vector(cells, j, 0.0)
        store_vector(to, j, _clipped(net, total) if is_clipped else total)


@inner
def rnn_step(net: Network, step: int, t: int) -> None:
    _multiply(net, net.early, net.memory.states, net.recurrence, net.memory.sums, t)
    for e in range(net.entries):
        _enter(net, step, e, 0, _row(net, net.memory.gates, e), 0, True)
    evaluate(net.activations[0], net.memory.gates, net.memory.registers, net.entries * net.pitch)


@inner
def _reset(net: Network, resets: int, t: int) -> None:
    """Multiplies states by GRU's last recurrence weights, scaled by the reset gate before or afterwards."""
    if net.resets_late:
        _multiply(net, net.late, net.memory.states, net.last, net.memory.last_sums, t)
        return
    for i in range(0, net.entries * net.pitch, WIDTH):
        store_vector(resets, i, load_vector(resets, i, 0.0) * load_vector(net.memory.states, i, 0.0))
    _multiply(net, net.late, resets, net.last, net.memory.last_sums, t)


@inner
def gru_step(net: Network, step: int, t: int) -> None:
    size = net.entries * net.pitch
    update, resets, new = net.memory.gates, net.memory.gates + 8 * size, net.memory.gates + 16 * size
    _multiply(net, net.early, net.memory.states, net.recurrence, net.memory.sums, t)
    for e in range(net.entries):
        _enter(net, step, e, 0, _row(net, update, e), 0, False)
        _enter(net, step, e, 1, _row(net, resets, e), 0, False)
    evaluate(net.activations[0], update, net.memory.registers, 2 * size)
    _reset(net, resets, t)
    for e in range(net.entries):
        _enter_last(net, step, e, _row(net, resets, e), _row(net, new, e))
    evaluate(net.activations[1], new, net.memory.registers, size)
    for e in range(net.entries):
        has = _has(net, net.has_states, e, t)
        z, n, states = _row(net, update, e), _row(net, new, e), _row(net, net.memory.states, e)
        for j in range(0, net.hidden, WIDTH):
            share = load_vector(z, j, 0.0)
            kept = share * load_vector(states, j, 0.0) if has else spread(0.0)
            store_vector(n, j, (1.0 - share) * load_vector(n, j, 0.0) + kept)


@inner
def _enter_last(net: Network, step: int, e: int, resets: int, to: int) -> None:
    """Adds up what enters the activation of GRU's last gate."""
    ahead = net.memory.products + 8 * ((step * net.entries + e) * net.ahead.panels * WIDTH + 2 * net.hidden)
    sums, biases = net.memory.last_sums + 8 * e * net.late.panels * WIDTH, net.biases + 16 * net.hidden
    for j in range(0, net.hidden, WIDTH):
        late = load_vector(sums, j, 0.0) + load_vector(biases, net.hidden + j, 0.0)
        if net.resets_late:
            late = load_vector(resets, j, 0.0) * late
        store_vector(to, j, load_vector(ahead, j, 0.0) + load_vector(biases, j, 0.0) + late)


@inner
def lstm_step(net: Network, step: int, t: int) -> None:
    size, peepholes = net.entries * net.pitch, net.peepholes
    into, out, new = net.memory.gates, net.memory.gates + 8 * OUT * size, net.memory.gates + 8 * NEW * size
    _multiply(net, net.early, net.memory.states, net.recurrence, net.memory.sums, t)
    for e in range(net.entries):
        first = third = 0
        if peepholes != 0 and _has(net, net.has_cells, e, t):
            first, third = peepholes, peepholes + 16 * net.hidden
        _enter(net, step, e, 0, _row(net, into, e), first, True)
        _enter(net, step, e, 1, _row(net, out, e), 0, peepholes == 0)
        _enter(net, step, e, 2, _row(net, net.memory.gates + 8 * FORGET * size, e), third, True)
        _enter(net, step, e, 3, _row(net, new, e), 0, True)
    evaluate(net.activations[0], into, net.memory.registers, size * (3 if peepholes == 0 else 2))
    evaluate(net.activations[1], new, net.memory.registers, size)
    for e in range(net.entries):
        _next_cell(net, e, _has(net, net.has_cells, e, t))
    if peepholes != 0:
        evaluate(net.activations[0], out, net.memory.registers, size)
    evaluate(net.activations[2], new, net.memory.registers, size)
    for i in range(0, size, WIDTH):
        store_vector(out, i, load_vector(out, i, 0.0) * load_vector(new, i, 0.0))


@inner
def _next_cell(net: Network, e: int, has: bool) -> None:
    """Computes an entry's next cell, into the place of the input gate and of the cell gate."""
    size, cells = net.entries * net.pitch, _row(net, net.memory.cells, e)
    into = _row(net, net.memory.gates, e)
    forget, out, new = into + 8 * FORGET * size, into + 8 * OUT * size, into + 8 * NEW * size
    for j in range(0, net.hidden, WIDTH):
        entering = load_vector(into, j, 0.0)
        share = 1.0 - entering if net.is_coupled else load_vector(forget, j, 0.0)
        kept = share * load_vector(cells, j, 0.0) if has else spread(0.0)
        cell = kept + entering * load_vector(new, j, 0.0)
        store_vector(into, j, cell)
        store_vector(new, j, cell)
        if net.peepholes != 0:
            total = load_vector(out, j, 0.0) + load_vector(net.peepholes, net.hidden + j, 0.0) * cell
            store_vector(out, j, _clipped(net, total))


@inlined
def _copy(source: int, target: int, count: int) -> None:
    for j in range(0, count, WIDTH):
        store_vector(target, j, load_vector(source, j, 0.0))


@inner
def _keep(net: Network, step: int, t: int, states: int, cells: int) -> None:
    """Takes over the states of the entries that have this step, and writes the output sequence."""
    for e in range(net.entries):
        own, there = _row(net, net.memory.states, e), _row(net, net.memory.sequence, step * net.entries + e)
        if t < load(net.memory.ends, e, int64(0)):
            _copy(_row(net, states, e), own, net.hidden)
            if cells != 0:
                _copy(_row(net, cells, e), _row(net, net.memory.cells, e), net.hidden)
        if t < load(net.memory.lengths, e, int64(0)):
            _copy(own, there, net.hidden)
        else:
            for j in range(0, net.hidden, WIDTH):
                store_vector(there, j, spread(0.0))


@inlined
def _run(net: Network, step: Callable[..., None], states: int, cells: int, begin: int, end: int) -> None:
    """Runs the steps from ``begin`` to ``end``; a step leaves the next states and cells at these addresses."""
    call(net.multiply, float32(0), net.memory.vectors, net.memory.products, net.weights, net.ahead, 0, net.ahead.panels)
    for i in range(end - begin):
        place = end - begin - 1 - i if net.is_backward else i
        step(net, place, begin + place)
        _keep(net, place, begin + place, states, cells)


@kernel
def rnn(zero: int, source: int, target: int, states: int, geometry: Network, begin: int, end: int) -> None:
    """A unit is a step."""
    _run(geometry, rnn_step, geometry.memory.gates, 0, begin, end)


@kernel
def gru(zero: int, source: int, target: int, states: int, geometry: Network, begin: int, end: int) -> None:
    """A unit is a step."""
    _run(geometry, gru_step, geometry.memory.gates + 16 * geometry.entries * geometry.pitch, 0, begin, end)


@kernel
def lstm(zero: int, source: int, target: int, states: int, geometry: Network, begin: int, end: int) -> None:
    """A unit is a step."""
    size = 8 * geometry.entries * geometry.pitch
    _run(geometry, lstm_step, geometry.memory.gates + OUT * size, geometry.memory.gates + INTO * size, begin, end)


RNN, GRU, LSTM = Kernel(rnn, INT64), Kernel(gru, INT64), Kernel(lstm, INT64)
