"""A bound plan owns its arrays: it can run as long as it exists, even if nothing else refers to them."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from opwire.check import check
from opwire_service.devices.base import Device
from tests.support.execution import never_stop

OWNED: list[dict[str, Any]] = [
    *(
        {"type": "REDUCE", "desc": {"Function": function, "Axes": [axis], "InputTensor": {"Sizes": sizes}}}
        for function in ("SUM", "MULTIPLY", "ARGMAX")
        for sizes, axis in (([40, 30], 1), ([2000, 300], 0), ([2, 300_000], 1), ([300, 200], 0))
    ),
    {"type": "REDUCE", "desc": {"Function": "L1", "Axes": [], "InputTensor": {"Sizes": [300, 200]}}},
    *(
        {
            "type": "MAX_POOLING",
            "desc": {
                "InputTensor": {"Sizes": sizes},
                "WindowSize": window,
                **{name: [size, size] for name, size in (("Strides", 1), ("StartPadding", 0), ("EndPadding", 0))},
            },
        }
        for sizes, window in (
            ([1, 1, 20, 20], [3, 3]),
            ([1, 4, 300, 300], [3, 3]),
            ([1, 1, 1, 100_000], [1, 3]),
            ([1, 1, 400, 400], [399, 399]),
        )
    ),
]
"""Plans with few and many units, one and several steps, and windows computed as reductions."""


@pytest.mark.parametrize("number", range(len(OWNED)))
def test_a_bound_plan_keeps_its_arrays_alive(cpu_device, number):
    check_arrays_stay_alive(cpu_device, OWNED[number], number)


def test_a_bound_plan_of_any_device_keeps_its_arrays_alive(device):
    check_arrays_stay_alive(device, OWNED[0], 0)


def check_arrays_stay_alive(device: Device, operator: dict[str, Any], number: int) -> None:
    tensor = {"DataType": "FLOAT32", **operator["desc"]["InputTensor"]}
    plan = check({**operator, "desc": {**operator["desc"], "InputTensor": tensor}})
    values = np.random.default_rng(number).uniform(0.9, 1.1, tensor["Sizes"]).astype(np.float32)
    right = {name: np.zeros(desc.sizes, desc.data_type.dtype) for name, desc in plan.outputs.items()}
    device.run(plan, {"InputTensor": values}, right, never_stop)
    outputs = {name: np.zeros_like(array) for name, array in right.items()}
    watched = [weakref.ref(array) for array in outputs.values()]
    bound = device.bind(plan, {"InputTensor": values.copy()}, outputs)
    del outputs
    gc.collect()
    for i in range(4):
        churn = [np.full(values.size, 7, np.float32) for _ in range(3)] + [np.full_like(values, -1) for _ in range(3)]
        bound(never_stop)
        for reference, array in zip(watched, right.values(), strict=True):
            written = reference()
            assert written is not None, "the output was freed, but is still being written"
            assert written.tobytes() == array.tobytes()
            written.fill(0)
            del written
        assert all((array == (7 if k < 3 else -1)).all() for k, array in enumerate(churn)), i
    del bound
    gc.collect()
    assert all(reference() is None for reference in watched)
