"""Running an operator on whole arrays of NumPy, as large as tests of tiles and threads want them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opwire.check import check
from opwire.tensor import Array, DataType
from opwire_service.devices.base import Device
from tests.execution import go_on


def tensor(array: Array) -> dict[str, Any]:
    """The desc of an array as it lies in memory; its steps go forwards."""
    strides = [step // array.itemsize for step in array.strides]
    return {"DataType": DataType.of(array.dtype).name, "Sizes": list(array.shape), "Strides": strides}


def moved(device: Device, operator: str, inputs: Mapping[str, Array], **fields: Any) -> dict[str, Array]:
    """The outputs of an operator for inputs by name, as they lie in memory; those of arrays by ``NAME[i]``."""
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
    device.run(plan, inputs, outputs, go_on)
    return outputs


def counted(dtype: Any, *sizes: int) -> Array:
    """Elements of which neighbours differ in every byte order."""
    count = int(np.prod(sizes))
    numbers = np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(7)
    unsigned = f"u{np.dtype(dtype).itemsize}"
    found: Array = numbers.astype(unsigned).view(dtype).reshape(sizes)
    return found


def same_bits(one: Array, other: Array) -> bool:
    unsigned = f"u{one.itemsize}"
    return one.shape == other.shape and bool((one.view(unsigned) == other.view(unsigned)).all())
