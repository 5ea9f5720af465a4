"""Small plans that run on the event loop's thread, with everything their runs share prepared once."""

from __future__ import annotations

from collections.abc import Mapping

from opwire.check import Plan
from opwire.graph import GRAPH
from opwire.tensor import Array

from ..devices.base import Device
from ..execution import Arrays

_MAX_BYTES = 4096
"""Maximum total size of a plan's tensors for it to keep arrays, in bytes."""


class InlineRun:
    """A plan bound to its own arrays. Each run copies its few bytes in and out, which costs next to nothing.

    Attributes:
        device: name of the device that runs it.
        run: runs the plan on the inputs set by ``fill`` or ``fill_bytes``.
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
        """Whether a plan is small enough to keep arrays for."""
        tensors = (*plan.inputs.values(), *plan.outputs.values())
        return plan.operator is not GRAPH and sum(desc.data_size_in_bytes for desc in tensors) <= _MAX_BYTES

    def fill(self, inputs: Arrays) -> None:
        """Copies the inputs of a run."""
        for name, array in inputs.items():
            self._inputs[name][...] = array

    def fill_bytes(self, inputs: Mapping[str, memoryview]) -> None:
        """Copies the inputs of a run from raw bytes, ``data_size_in_bytes`` for each."""
        for name, data in inputs.items():
            self._given[name][:] = data

    def outputs(self) -> Mapping[str, Array]:
        """Returns copies of the output buffers of the last run."""
        return {name: buffer.copy() for name, buffer in self._buffers.items()}
