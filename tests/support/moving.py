"""Runs an operator on NumPy arrays, large enough for tests of tiles and threads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opwire.check import check
from opwire.tensor import Array, DataType
from opwire_service.devices.base import Device
from tests.support.execution import never_stop


def tensor(array: Array) -> dict[str, Any]:
    """Returns the desc of an array, with its strides, which must not be negative."""
    strides = [step // array.itemsize for step in array.strides]
    return {"DataType": DataType.of(array.dtype).name, "Sizes": list(array.shape), "Strides": strides}


def moved(device: Device, operator: str, inputs: Mapping[str, Array], **fields: Any) -> dict[str, Array]:
    """Runs an operator on inputs by name and returns its outputs; tensors of arrays are named ``NAME[i]``."""
    desc: dict[str, Any] = {}
    for name, array in inputs.items():
        member, _, index = name.partition("[")
        if index:
            desc.setdefault(member, []).append(tensor(array))
        else:
            desc[member] = tensor(array)
    plan = check({"type": operator, "desc": desc | fields})
    outputs = {name: desc.allocate()[1] for name, desc in plan.outputs.items()}
    for output in outputs.values():
        output.view(np.dtype(f"u{output.itemsize}"))[...] = 0xA5
    device.run(plan, inputs, outputs, never_stop)
    return outputs


def counted(dtype: Any, *sizes: int) -> Array:
    """Returns scattered elements, so that neighbors differ whatever the byte order."""
    count = int(np.prod(sizes))
    numbers = np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(7)
    unsigned = f"u{np.dtype(dtype).itemsize}"
    found: Array = numbers.astype(unsigned).view(dtype).reshape(sizes)
    return found


def same_bits(one: Array, other: Array) -> bool:
    unsigned = f"u{one.itemsize}"
    return one.shape == other.shape and bool((one.view(unsigned) == other.view(unsigned)).all())
