"""Recurrent networks in float64: some batch entries at a time, with the products of several inputs computed ahead."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from opwire.check import Plan
from opwire.enums import RecurrentNetworkDirection
from opwire.tensor import Array

from ....execution import Arrays, Bound, Stop, Stopped
from ...reference.recurrent import clip_threshold
from ..jit.compiler import Kernel
from ..numbers.vectors import WIDTH
from ..products.multiplying import MULTIPLY_SINGLES, MatrixProduct
from ..products.operands import padded
from ..products.workspace import Workspaces
from ..run.job import Job
from ..run.pool import Find, Pool
from ..run.scratch import LINE, Take
from .geometry import CHUNK, Memory, Network
from .programs import Programs
from .weights import lay_out, panels_shape

ENTRIES = 16
"""Batch entries that a thread processes at once."""

AHEAD = 1 << 17
"""Maximum size of inputs, or of their products, that are computed ahead, in numbers, if more than one step's."""

AT_ONCE = 1 << 26
"""Maximum number of products between two polls of ``stop``, if more than one step's."""

SHORT = 1 << 20
"""Products of a sequence below which it takes less time than to wake a thread."""

WEIGHTS = ("WeightTensor", "RecurrenceTensor", "BiasTensor", "PeepholeTensor")

INITIAL = ("HiddenInitTensor", "CellMemInitTensor")
"""States before the first step."""

FINAL = ("OutputSingleTensor", "OutputCellSingleTensor")
"""States after the last step."""


class Variant(NamedTuple):
    """A kind of network.

    Attributes:
        kernel: runs its steps.
        activations: number of activations per direction.
        early, late: number of gates whose recurrence weights are multiplied first, and afterwards.
    """

    kernel: Kernel
    activations: int
    early: int
    late: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the work of a thread.

    Attributes:
        entries, steps: batch entries and steps processed at once.
        width, hidden, gates: sizes of an input and of a state, and number of gates.
        early, late: see ``Variant``.
        registers: registers of the activations.
    """

    entries: int
    steps: int
    width: int
    hidden: int
    gates: int
    early: int
    late: int
    registers: int

    @property
    def pitch(self) -> int:
        """Numbers of a state, filled up to whole vectors."""
        return padded(self.hidden)

    @property
    def weights(self) -> list[tuple[int, int, int]]:
        """Shapes of the panels of the weights, and of the recurrence weights of early and late gates."""
        parts = (self.early, self.late) if self.late else (self.early,)
        recurrence = [panels_shape(gates * self.hidden, self.hidden) for gates in parts]
        return [panels_shape(self.gates * self.hidden, self.width), *recurrence]

    @property
    def biases(self) -> int:
        """Numbers of the biases; like ``buffers``, they are read past their ends."""
        return (self.gates + self.late) * self.hidden + WIDTH

    @property
    def peepholes(self) -> int:
        return 3 * self.hidden + WIDTH

    @property
    def buffers(self) -> dict[str, int]:
        """Sizes of the buffers of ``Memory``, in numbers, by name; those of products are read past their ends."""
        rows, states = self.entries * self.steps, self.entries * self.pitch
        return {
            "vectors": rows * self.width,
            "products": rows * padded(self.gates * self.hidden) + WIDTH,
            "sums": self.entries * padded(self.early * self.hidden) + WIDTH,
            "last_sums": self.entries * padded(self.late * self.hidden) + WIDTH,
            "states": states,
            "cells": states,
            "gates": self.gates * states,
            "sequence": self.steps * states,
            "registers": self.registers * CHUNK,
            "ends": self.entries,
            "lengths": self.entries,
        }

    def scratch_bytes(self, directions: int, threads: int) -> int:
        """Returns the memory of some directions on some threads."""
        of_thread = sum(size + LINE for size in self.buffers.values()) + LINE
        return self.fixed_bytes(directions) + 8 * threads * of_thread

    def fixed_bytes(self, directions: int) -> int:
        """Returns the memory of the weights of some directions."""
        return directions * (4 * sum(map(prod, self.weights)) + 8 * (2 * self.biases + self.peepholes))


class Space:
    """Memory of a thread."""

    def __init__(self, sizes: Sizes, take: Take) -> None:
        places = {name: -(-size // LINE) * LINE for name, size in sizes.buffers.items()}
        block, first = take(sum(places.values())), 0
        address = block.ctypes.data
        self._buffers: dict[str, Array] = {}
        self.memory = Memory()
        for name, size in places.items():
            self._buffers[name] = block[first : first + size]
            setattr(self.memory, name, address + 8 * first)
            first += size

        self._sizes = sizes
        self._lanes: dict[tuple[int, int], Lane] = {}

    def __getitem__(self, name: str) -> Array:
        return self._buffers[name]

    def lane(self, direction: Direction, count: int) -> Lane:
        """Returns the memory for some batch entries in a direction."""
        key = direction.number, count
        if key not in self._lanes:
            self._lanes[key] = Lane(self._sizes, direction, self, count)
        return self._lanes[key]


class Lane:
    """Memory of a thread for a number of batch entries in one direction.

    Attributes:
        network: what the kernel reads.
        address: its address.
        registers: the constants of the activations.
        states: the hidden states and the cells, ``[entries, hidden]``.
        lengths, ends: see ``Memory``.
        vectors, sequence: inputs and hidden states of some steps, ``[steps, entries, ...]``.
    """

    def __init__(self, sizes: Sizes, direction: Direction, space: Space, count: int) -> None:
        self.network = direction.network.replaced(entries=count, memory=space.memory)
        self.network.early.rows = self.network.late.rows = count
        self.address, _ = self.network.buffer_info()
        self.registers = space["registers"][: direction.registers.size].reshape(direction.registers.shape)
        hidden, rows = slice(sizes.hidden), sizes.steps * count
        self.states = [space[name].reshape(-1, sizes.pitch)[:count, hidden] for name in ("states", "cells")]
        self.lengths, self.ends = (space[name].view(np.int64)[:count] for name in ("lengths", "ends"))
        self.vectors = space["vectors"][: rows * sizes.width].reshape(sizes.steps, count, sizes.width)
        self.sequence = space["sequence"][: rows * sizes.pitch].reshape(sizes.steps, count, sizes.pitch)[..., hidden]


class Direction:
    """One direction of a network.

    Args:
        sizes: the sizes.
        network: what neither tensors nor batch entries change.
        number: its number.
        inputs: the inputs.
        registers: see ``Programs``.
        is_fixed: whether its weights never change.

    Attributes:
        network: the network, but for the memory of its batch entries.
    """

    def __init__(
        self, sizes: Sizes, network: Network, number: int, inputs: Arrays, registers: Array, *, is_fixed: bool
    ) -> None:
        self._sizes, self._inputs, self.number, self.registers = sizes, inputs, number, registers
        self._is_fixed, self._is_laid_out = is_fixed, False
        recurrence = inputs["RecurrenceTensor"][0, number]
        early = sizes.early * sizes.hidden
        views = (inputs["WeightTensor"][0, number], recurrence[:early], recurrence[early:])
        self._weights = [(view, np.empty(shape, np.float32)) for view, shape in zip(views, sizes.weights, strict=False)]
        self._biases, self._peepholes = np.zeros(sizes.biases), np.zeros(sizes.peepholes)
        addresses = [panels.ctypes.data for _, panels in self._weights]
        self.network = network.replaced(
            weights=addresses[0],
            recurrence=addresses[1],
            last=addresses[-1],
            biases=self._biases.ctypes.data,
            peepholes=self._peepholes.ctypes.data if "PeepholeTensor" in inputs else 0,
        )

    def lay_out(self, stop: Stop) -> None:
        """Reads the weights, unless they are known.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        if self._is_laid_out:
            return
        for view, panels in self._weights:
            lay_out(view, panels, stop)
        if "BiasTensor" in self._inputs:
            self._add_biases(self._inputs["BiasTensor"][0, 0, self.number])
        if "PeepholeTensor" in self._inputs:
            self._peepholes[:-WIDTH] = self._inputs["PeepholeTensor"][0, 0, self.number]
        self._is_laid_out = self._is_fixed

    def _add_biases(self, given: Array) -> None:
        """Adds up both biases; the recurrent ones of late gates stay apart."""
        sizes, biases = self._sizes, self._biases
        rows, early = sizes.gates * sizes.hidden, sizes.early * sizes.hidden
        biases[:rows] = given[:rows]
        biases[:early] += given[rows : rows + early]
        biases[rows:-WIDTH] = given[rows + early :]


class RecurrentJob(Job):
    """A recurrent network; a unit is some batch entries in one direction."""

    def __init__(self, variant: Variant, plan: Plan) -> None:
        self._kernel, self._plan = variant.kernel, plan
        _, length, batch, width = plan.inputs["InputTensor"].sizes
        _, self._directions, rows, hidden = plan.inputs["RecurrenceTensor"].sizes
        own, count = plan.attributes.ActivationDescs, variant.activations
        self._programs = [Programs(own[i * count : (i + 1) * count]) for i in range(self._directions)]
        entries = min(ENTRIES, batch)
        work = entries * rows * (width + hidden)
        steps = max(1, min(length, AHEAD // (entries * max(padded(rows), width)), AT_ONCE // work))
        registers = max(len(each.registers) for each in self._programs)
        self._sizes = Sizes(entries, steps, width, hidden, rows // hidden, variant.early, variant.late, registers)
        self._is_short = length * work < SHORT
        self._networks = [self._network(number) for number in range(self._directions)]

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return (MULTIPLY_SINGLES, self._kernel)

    def scratch_bytes(self, threads: int) -> int:
        return self._sizes.scratch_bytes(self._directions, threads)

    @property
    def fixed_bytes(self) -> int:
        return self._sizes.fixed_bytes(self._directions)

    def bind(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        return self.bind_fixed((), inputs, outputs, find, pool)

    def bind_fixed(self, fixed: Collection[str], inputs: Arrays, outputs: Arrays, find: Find, pool: Pool) -> Bound:
        multiply, sizes = find(MULTIPLY_SINGLES).address, self._sizes
        is_fixed = all(name in fixed for name in WEIGHTS if name in inputs)
        directions = [
            Direction(sizes, own.replaced(multiply=multiply), number, inputs, programs.registers, is_fixed=is_fixed)
            for number, (own, programs) in enumerate(zip(self._networks, self._programs, strict=True))
        ]
        spaces = Workspaces(partial(Space, self._sizes), pool.scratch)
        work = _Work(self._sizes, find(self._kernel).call, inputs, outputs, spaces)
        return partial(self._run, work, directions, pool)

    def _run(self, work: _Work, directions: list[Direction], pool: Pool, stop: Stop) -> None:
        for each in directions:
            each.lay_out(stop)
        units = len(directions) * work.groups
        pool.run(partial(work.units, directions, stop), units, units if self._is_short else 1, stop)

    def _network(self, number: int) -> Network:
        sizes, attributes, given = self._sizes, self._plan.attributes, self._plan.inputs
        rows = sizes.width, sizes.pitch, sizes.pitch
        products = [
            MatrixProduct(panels=panels, length=length, row=row, step=1)
            for (panels, length, _), row in zip(sizes.weights, rows, strict=False)
        ]
        threshold = clip_threshold(attributes)
        return Network(
            hidden=sizes.hidden, pitch=sizes.pitch, ahead=products[0], early=products[1], late=products[-1],
            is_backward=number == 1 or attributes.Direction is RecurrentNetworkDirection.BACKWARD,
            has_states=INITIAL[0] in given, has_cells=INITIAL[1] in given,
            is_coupled=getattr(attributes, "CoupleInputForget", False),
            resets_late=getattr(attributes, "LinearBeforeReset", False),
            low=-threshold, high=threshold, activations=self._programs[number].all,
        )  # fmt: skip


class _Work(NamedTuple):
    """The work on some tensors."""

    sizes: Sizes
    call: Callable[..., None]
    inputs: Arrays
    outputs: Arrays
    spaces: Workspaces[Space]

    @property
    def groups(self) -> int:
        """Groups of batch entries that are processed at once."""
        return -(-self.inputs["InputTensor"].shape[2] // ENTRIES)

    def units(self, directions: list[Direction], stop: Stop, begin: int, end: int) -> None:
        batch = self.inputs["InputTensor"].shape[2]
        for unit in range(begin, end):
            number, group = divmod(unit, self.groups)
            entries = slice(group * ENTRIES, min((group + 1) * ENTRIES, batch))
            with self.spaces.one() as space, np.errstate(all="ignore"):
                self._walk(directions[number], entries, space, stop)

    def _walk(self, direction: Direction, entries: slice, space: Space, stop: Stop) -> None:
        """Runs the sequences of some entries, each over its own length."""
        number, lane = direction.number, space.lane(direction, entries.stop - entries.start)
        lane.registers[...] = direction.registers
        self._measure(lane, entries)
        for name, state in zip(INITIAL, lane.states, strict=True):
            state[...] = self.inputs[name][0, number, entries] if name in self.inputs else 0
            if "SequenceLengthsTensor" in self.inputs and not lane.network.is_backward:
                state[lane.ends == 0] = 0
        self._steps(lane, number, entries, stop)
        for name, state in zip(FINAL, lane.states, strict=True):
            if name in self.outputs:
                self.outputs[name][0, number, entries] = state

    def _measure(self, lane: Lane, entries: slice) -> None:
        """Writes the lengths of the entries, and the steps at which they end.

        The last state of an empty sequence is the one before a backward pass. Forward it is 0, or, where no sequence
        has more than one step, the state after that step.
        """
        longest = self.inputs["InputTensor"].shape[1]
        lane.lengths[...] = longest
        if "SequenceLengthsTensor" in self.inputs:
            lane.lengths[...] = np.minimum(self.inputs["SequenceLengthsTensor"][0, 0, 0, entries], longest)
        lane.ends[...] = 1 if longest == 1 and not lane.network.is_backward else lane.lengths

    def _steps(self, lane: Lane, number: int, entries: slice, stop: Stop) -> None:
        """Runs the steps that some entry has, and writes the output sequence."""
        source, target = self.inputs["InputTensor"][0, :, entries], self.outputs.get("OutputSequenceTensor")
        length, network = int(lane.ends.max()), lane.network
        for first, last in _blocks(length, self.sizes.steps, network.is_backward):
            if stop():
                raise Stopped
            lane.vectors[: last - first] = source[first:last]
            network.ahead.rows = (last - first) * source.shape[1]
            self.call(0, 0, 0, 0, lane.address, first, last)
            if target is not None:
                target[first:last, number, entries] = lane.sequence[: last - first]
        if target is not None:
            target[length:, number, entries] = 0


def _blocks(length: int, steps: int, is_backward: bool) -> Iterator[tuple[int, int]]:
    firsts = range(0, length, steps)
    for first in reversed(firsts) if is_backward else firsts:
        yield first, min(first + steps, length)
