"""What the kernels of recurrent networks read."""

from __future__ import annotations

from ..jit.records import Record, rows
from ..products.multiplying import MatrixProduct

MOST_INSTRUCTIONS = 16
"""Maximum number of instructions of an activation."""

MOST_ACTIVATIONS = 3
"""Maximum number of activations of a network."""

CHUNK = 128
"""Numbers in a register."""


class Instruction(Record):
    """An operation on numbers: its code, operands and target; 0 means the activation's numbers, i register i - 1."""

    code: int
    first: int
    second: int
    third: int
    target: int


class Program(Record):
    """An activation."""

    count: int
    instructions = rows(Instruction, MOST_INSTRUCTIONS)


class Memory(Record):
    """Addresses of the numbers of some batch entries.

    All are float64 but for the two last. Rows of states, of gates and of the output sequence are whole vectors long,
    the last one filled up with anything.

    Attributes:
        vectors, products: inputs of some steps, and their products with the weights.
        sums, last_sums: the products of a step with the recurrence weights, and with those of GRU's last gate.
        states, cells: the states, ``[entries, pitch]``.
        gates: ``[gates, entries, pitch]``.
        sequence: hidden states of some steps, ``[steps, entries, pitch]``.
        registers: registers of the activations.
        ends, lengths: the steps at which each entry ends, and its output sequence, in int64.
    """

    vectors: int
    products: int
    sums: int
    last_sums: int
    states: int
    cells: int
    gates: int
    sequence: int
    registers: int
    ends: int
    lengths: int


class Network(Record):
    """Some batch entries of a network, in one direction.

    Attributes:
        entries, hidden, pitch: batch entries, and the size of a state without and with what fills up its last vector.
        multiply: address of ``MULTIPLY_SINGLES``.
        ahead, early, late: products with the weights, with the recurrence weights, and with those of GRU's last gate.
        weights, recurrence, last: their right operands.
        biases: sums of both biases of each gate; the recurrent one of GRU's last gate follows all others.
        peepholes: weights of the peepholes, or 0.
        memory: numbers of the batch entries.
        is_backward: whether the sequence is processed from its end.
        has_states, has_cells: whether there are states before the first step.
        is_coupled: whether the forget gate of an LSTM is 1 less the input gate.
        resets_late: whether GRU's reset gate scales products instead of the state.
        low, high: bounds of the activations' operands; NaN if there are none.
        activations: the activations.
    """

    entries: int
    hidden: int
    pitch: int
    multiply: int
    ahead: MatrixProduct
    early: MatrixProduct
    late: MatrixProduct
    weights: int
    recurrence: int
    last: int
    biases: int
    peepholes: int
    memory: Memory
    is_backward: bool
    has_states: bool
    has_cells: bool
    is_coupled: bool
    resets_late: bool
    low: float
    high: float
    activations = rows(Program, MOST_ACTIVATIONS)
