"""Runs plans on a device as the service does, and checks that nothing writes into the gaps of outputs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pytest

from opwire.check import Plan, check
from opwire.tensor import Array, BufferTensorDesc, DataType
from opwire_service.devices.base import Device
from opwire_service.execution import Stop

CANARY = 0xA5
"""The value of output bytes before anything is written."""

UNITS = 2
"""Four-bit units per byte."""


def never_stop() -> bool:
    """Stop callback that never stops a plan."""
    return False


def skip_unless_executed(device: Device, plan: Plan) -> None:
    """Skips a test if the device does not run the operator."""
    if not device.executes(plan.operator.name):
        pytest.skip(f"{device.name} does not run {plan.operator.name}")


def execute(
    device: Device, plan: Plan, buffers: Mapping[str, bytes | bytearray], stop: Stop = never_stop
) -> dict[str, Array]:
    """Runs a plan and returns its outputs, packed; checks that bytes outside of elements did not change.

    Args:
        device: The device to run on.
        plan: The plan to run.
        buffers: For each input, at least the bytes up to its last element.
        stop: The device's stop callback.
    """
    skip_unless_executed(device, plan)
    inputs = {name: desc.view(buffers[name]) for name, desc in plan.inputs.items()}
    written = {name: bytearray([CANARY]) * desc.total_size_in_bytes for name, desc in plan.outputs.items()}
    views = {name: desc.view(written[name]) for name, desc in plan.outputs.items()}
    device.run(plan, inputs, views, stop)
    for name, desc in plan.outputs.items():
        for address in set(range(len(written[name]) * UNITS)) - unit_addresses(desc):
            where = f"half {address % UNITS} of byte {address // UNITS} of {name}"
            assert unit(written[name], address) == unit(bytes([CANARY]), address % UNITS), f"{where} was written"
    return {name: logical(desc, written[name]) for name, desc in plan.outputs.items()}


def run(device: Device, operator: str, array: Array, **fields: object) -> dict[str, Array]:
    """Runs an operator on a packed input and returns its outputs, packed."""
    tensor = {"DataType": DataType.of(array.dtype).name, "Sizes": list(array.shape)}
    plan = check({"type": operator, "desc": {"InputTensor": tensor, **fields}})
    return execute(device, plan, {"InputTensor": array.tobytes()})


def logical(desc: BufferTensorDesc, buffer: bytes | bytearray) -> Array:
    """Gathers the elements of a buffer one by one into a packed array."""
    data_type = desc.data_type
    if data_type.bits < 8:
        units = [unit(buffer, i) for i in range(UNITS * len(buffer))]
        signed = [value - 16 if value > 7 and data_type is DataType.INT4 else value for value in units]
        elements = np.array(signed, data_type.dtype)
    else:
        elements = np.frombuffer(buffer, data_type.dtype, len(buffer) // data_type.dtype.itemsize)
    array = np.empty(desc.sizes, data_type.dtype)
    for coordinate in itertools.product(*map(range, desc.sizes)):
        array[coordinate] = elements[element_address(desc, coordinate)]
    return array


def element_address(desc: BufferTensorDesc, coordinate: tuple[int, ...]) -> int:
    """Returns the offset of an element from the start of the buffer, in elements."""
    return sum(at * stride for at, stride in zip(coordinate, desc.element_strides, strict=True))


def unit(buffer: bytes | bytearray, address: int) -> int:
    """Returns one half of a byte; the low half comes first."""
    return buffer[address // UNITS] >> 4 * (address % UNITS) & 15


def unit_addresses(desc: BufferTensorDesc) -> set[int]:
    """Returns the address of every half byte that belongs to an element."""
    width = desc.data_type.bits // 4
    starts = (element_address(desc, coordinate) * width for coordinate in itertools.product(*map(range, desc.sizes)))
    return {start + i for start in starts for i in range(width)}
