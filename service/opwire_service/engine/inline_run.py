"""Small plans that run in the thread of the event loop: what all their runs have in common is done once."""

from __future__ import annotations

from collections.abc import Mapping

from opwire.check import Plan
from opwire.graph import GRAPH
from opwire.tensor import Array

from ..devices.base import Device
from ..execution import Arrays

_MOST_BYTES = 4096
"""Bytes of the tensors of a plan that keeps arrays, at most."""


class InlineRun:
    """A plan bound to arrays of its own, to which and from which each run copies: so few bytes cost next to nothing.

    Attributes:
        device: the name of the one that runs it.
        run: runs the plan on what ``fill`` or ``fill_bytes`` has put there.
    """

    def __init__(self, device: Device, plan: Plan) -> None:
        self.device = device.name
        given = {name: desc.allocate() for name, desc in plan.inputs.items()}
        self._given = {name: buffer.data for name, (buffer, _) in given.items()}
        self._inputs = {name: view for name, (_, view) in given.items()}
        allocated = {name: desc.allocate() for name, desc in plan.outputs.items()}
        self._buffers = {name: buffer for name, (buffer, _) in allocated.items()}
        self.run = device.bind(plan, self._inputs, {name: view for name, (_, view) in allocated.items()})

    @staticmethod
    def pays(plan: Plan) -> bool:
        """Whether a plan is so small that it is worth its memory."""
        tensors = (*plan.inputs.values(), *plan.outputs.values())
        return plan.operator is not GRAPH and sum(desc.data_size_in_bytes for desc in tensors) <= _MOST_BYTES

    def fill(self, inputs: Arrays) -> None:
        """Takes the inputs of a run."""
        for name, array in inputs.items():
            self._inputs[name][...] = array

    def fill_bytes(self, inputs: Mapping[str, memoryview]) -> None:
        """Takes the inputs of a run as their bytes, ``data_size_in_bytes`` of each."""
        for name, data in inputs.items():
            self._given[name][:] = data

    def outputs(self) -> Mapping[str, Array]:
        """The bytes of the outputs of the last run."""
        return {name: buffer.copy() for name, buffer in self._buffers.items()}
