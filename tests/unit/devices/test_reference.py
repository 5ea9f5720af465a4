"""Devices stop on request and allocate memory only for outputs, however many elements a desc has."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest

from opwire.check import check
from opwire_service.devices.reference import ReferenceDevice
from opwire_service.execution import Stopped
from tests.support.execution import execute

LONG = 2.0
"""Seconds of work: far more than between two polls, and far less than the whole takes."""


class Clock:
    """Stop callback that stops after a number of polls and records the maximum CPU seconds between two."""

    def __init__(self, questions: int) -> None:
        self.left = questions
        self.most = 0.0
        self._last: float | None = None

    def __call__(self) -> bool:
        now = time.process_time()
        self.most, self._last = max(self.most, now - (now if self._last is None else self._last)), now
        self.left -= 1
        return self.left < 0


STOPPABLE = [
    *(("FLOAT32", function) for function in ("SUM", "MULTIPLY", "L2", "LOG_SUM_EXP", "MIN", "ARGMAX")),
    *(("INT64", function) for function in ("SUM", "MULTIPLY", "L1", "MAX")),
]


@pytest.mark.usefixtures("gc_disabled")
@pytest.mark.parametrize(("data_type", "function"), STOPPABLE)
def test_endless_work_stops_on_request_without_allocating(device, data_type, function):
    tensor = {"DataType": data_type, "Sizes": [2**32 - 1], "Strides": [0]}
    plan = check({"type": "REDUCE", "desc": {"InputTensor": tensor, "Function": function, "Axes": [0]}})
    one = np.array([1], plan.inputs["InputTensor"].data_type.dtype).tobytes()
    clock = Clock(2 if device.name == "cuda" else 20)  # a GPU is done so soon that a busy host seldom asks
    tracemalloc.start()
    try:
        with pytest.raises(Stopped):
            execute(device, plan, {"InputTensor": one}, clock)
        assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    finally:
        tracemalloc.stop()
    assert clock.most < LONG


def test_work_of_many_small_groups_can_be_stopped(device):
    # Enough that other threads cannot finish before the polling one gets its next turn.
    tensor = {"DataType": "FLOAT32", "Sizes": [2**24, 255], "Strides": [0, 0]}
    plan = check({"type": "REDUCE", "desc": {"Function": "LOG_SUM_EXP", "Axes": [1], "InputTensor": tensor}})
    clock = Clock(2)
    with pytest.raises(Stopped):
        execute(device, plan, {"InputTensor": bytes(4)}, clock)
    assert clock.most < LONG


NOWHERE = {
    "InputTensor": {"DataType": "UINT8", "Sizes": [4096, 1, 1, 1], "Strides": [0, 0, 0, 0]},
    "FilterTensor": {"DataType": "UINT8", "Sizes": [256, 1, 1, 1], "Strides": [0, 0, 0, 0]},
    **{"Strides": [4, 1], "Dilations": [1, 1], "StartPadding": [1, 0], "EndPadding": [0, 0], "GroupCount": 1},
}
EMPTY = {
    "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 2**20, 1], "Strides": [0, 0, 0, 0]},
    "WeightTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 1]},
    "RecurrenceTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 1]},
    "SequenceLengthsTensor": {"DataType": "UINT32", "Sizes": [1, 1, 1, 2**20], "Strides": [0, 0, 0, 0]},
    "OutputSingleTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 2**20, 1]},
    **{"ActivationDescs": [{"Type": "ACTIVATION_RELU"}], "Direction": "FORWARD"},
}


@pytest.mark.parametrize(("operator", "desc"), [("CONVOLUTION_INTEGER", NOWHERE), ("RNN", EMPTY)])
def test_windows_and_sequences_without_elements_can_be_stopped(operator, desc):
    plan = check({"type": operator, "desc": desc})
    inputs = {name: bytes(tensor.data_size_in_bytes) for name, tensor in plan.inputs.items()}
    clock = Clock(2)
    with pytest.raises(Stopped):
        execute(ReferenceDevice(), plan, inputs, clock)
    assert clock.most < LONG
