"""Small descs of huge work: devices use little memory, poll for stops, and do not starve other threads."""

from __future__ import annotations

import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from opwire.check import Plan, check
from opwire.errors import LimitExceededError, ProblemCode
from opwire_service.devices.base import Device
from opwire_service.devices.reference import MAX_VISITS, VISITS_PER_TURN, ReferenceDevice
from opwire_service.execution import Arrays, Stopped
from tests.support.execution import skip_unless_executed

OBJECTS = 3 * 2**19
"""Maximum of the bytes that Python itself allocates while work runs."""

BEGUN = 0.02
"""Seconds until the work is stopped."""

LATE = 0.5
"""Maximum CPU time of all threads between two polls, in seconds; it is 0.03 on a machine with two cores."""

HELD = 0.25
"""Maximum wait of another thread in seconds; it is 0.05 on an idle machine."""


def reduction(function: str, sizes: list[int], axes: list[int], data_type: str = "FLOAT32") -> dict[str, Any]:
    tensor = {"DataType": data_type, "Sizes": sizes, "Strides": [0] * len(sizes)}
    return {"type": "REDUCE", "desc": {"Function": function, "InputTensor": tensor, "Axes": axes}}


def pooling(sizes: list[int], window: list[int], data_type: str = "FLOAT32", **changes: object) -> dict[str, Any]:
    spatial = len(window)
    desc = {
        "InputTensor": {"DataType": data_type, "Sizes": sizes, "Strides": [0] * len(sizes)},
        "WindowSize": window,
        "Strides": [1] * spatial,
        "StartPadding": [0] * spatial,
        "EndPadding": [0] * spatial,
        "Dilations": [1] * spatial,
    }
    return {"type": "MAX_POOLING2", "desc": desc | changes}


def average(sizes: list[int], window: list[int], **changes: object) -> dict[str, Any]:
    desc = pooling(sizes, window)["desc"] | {"IncludePadding": False}
    return {"type": "AVERAGE_POOLING1", "desc": desc | changes}


def resampling(sizes: list[int], output: list[int], scale: float, **changes: object) -> dict[str, Any]:
    tensor = {"DataType": "FLOAT32", "Sizes": sizes, "Strides": [0] * len(sizes)}
    offsets = {"InputPixelOffsets": [0.5] * len(sizes), "OutputPixelOffsets": [-0.5] * len(sizes)}
    desc = {
        "InputTensor": tensor,
        "OutputTensor": {"DataType": "FLOAT32", "Sizes": output},
        "InterpolationMode": "LINEAR",
        "RoundingDirection": "DECREASING",
        "Scales": [scale] * len(sizes),
        "Antialiased": False,
        **offsets,
    }
    return {"type": "RESAMPLE3", "desc": desc | changes}


def single(operator: str, sizes: list[int], data_type: str, **fields: object) -> dict[str, Any]:
    tensor = {"DataType": data_type, "Sizes": sizes, "Strides": [0] * len(sizes)}
    return {"type": operator, "desc": {"InputTensor": tensor, **fields}}


WIDE = 2**26

BY_A_TENTH = {"Scale": 0.1, "Bias": 1}

NASTY = {
    "pooling_of_single_elements": pooling([1, 1, 1, WIDE], [1, 1], "UINT8"),
    "pooling_of_a_high_image": pooling([1, 1, WIDE, 1], [3, 1], "UINT8"),
    "pooling_of_a_deep_image": pooling([1, 1, 2**13, 2**13, 1], [2, 2, 1], "UINT8"),
    "pooling_of_many_channels": pooling([2**13, 2**13, 1, 1], [1, 1], "UINT8"),
    "pooling_with_padding_alone_beside": pooling([1, 1, 1, 2**22], [1, 3], StartPadding=[0, 1], EndPadding=[0, 1]),
    "pooling_of_large_windows": pooling([1, 1, 2048, 2048], [1024, 1024], Strides=[8, 8]),
    "pooling_of_long_windows": pooling([1, 1, 1, 2**20], [1, 2**13]),
    "pooling_far_apart": pooling([1, 1, 1, 2**24], [1, 3], Dilations=[1, 2**22]),
    "pooling_in_leaps": pooling([1, 1, 2**12, 2**14], [1, 1], Strides=[1, 2**13]),
    "pooling_of_nan": pooling([1, 1, 2048, 2048], [512, 512], Strides=[2, 2]),
    "pooling_of_words_with_places": pooling(
        [1, 1, 1, 2**22], [1, 64], "INT64", OutputIndicesTensor={"DataType": "UINT32", "Sizes": [1, 1, 1, 2**22 - 63]}
    ),
    "windows_as_large_as_the_input": pooling([1, 1, 256, 512, 512], [256, 512, 512]),
    "averages_of_single_elements": average([1, 1, 1, 2**24], [1, 1]),
    "averages_of_large_windows": average([1, 1, 2048, 2048], [1024, 1024], Strides=[8, 8]),
    "averages_of_long_windows": average([1, 1, 1, 2**20], [1, 2**13]),
    "averages_in_leaps": average([1, 1, 2**12, 2**14], [1, 1], Strides=[1, 2**13]),
    "averages_of_nearly_everything": average([1, 1, 4096, 4096], [4095, 4095]),
    "averages_of_nan": average([1, 1, 2048, 2048], [256, 256], Strides=[2, 2]),
    "resampling_of_a_row": resampling([2**25], [2**25], 1.5),
    "resampling_of_a_column": resampling([2**24, 1], [2**24, 1], 1.5),
    "resampling_to_the_nearest": resampling([4], [2**26], 2, InterpolationMode="NEAREST_NEIGHBOR"),
    "resampling_of_everything_at_once": resampling([2**12] * 2, [16] * 2, 2.0**-23, Antialiased=True),
    "exponentials": single("ELEMENT_WISE_EXP", [2**24], "FLOAT32"),
    "scaled_integers": single("ELEMENT_WISE_ABS", [2**24], "INT32", ScaleBias=BY_A_TENTH),
    "halves": single("ACTIVATION_GELU", [2**24], "FLOAT16"),
    "nothing_reduced": reduction("SUM", [WIDE], []),
    "nothing_reduced_of_many_dimensions": reduction("L1", [8] * 8, []),
    "arguments_of_nothing": reduction("ARGMAX", [WIDE], []),
    "pairs": reduction("MAX", [WIDE, 2], [1], "INT32"),
    "pairs_multiplied": reduction("MULTIPLY", [2**24, 2], [1]),
    "exponentials_of_pairs": reduction("LOG_SUM_EXP", [2**24, 2], [1]),
    "logarithms": reduction("LOG_SUM", [2**24], []),
    "columns": reduction("SUM", [2**12, 2**14], [0]),
    "squares": reduction("L2", [2**26], [0], "FLOAT16"),
    "products": reduction("MULTIPLY", [2**26], [0], "INT64"),
}
"""By what they do; each is a few bytes in a request."""


class Watch:
    """Stop callback that stops after a while.

    Attributes:
        most: The maximum CPU time of this process between two polls, or after the last one.
    """

    def __init__(self) -> None:
        self._end = time.monotonic() + BEGUN
        self._last = time.process_time()
        self.most = 0.0

    def __call__(self) -> bool:
        self.note()
        return time.monotonic() > self._end

    def note(self) -> None:
        now = time.process_time()
        self.most, self._last = max(self.most, now - self._last), now


@contextmanager
def other_threads_delay() -> Iterator[list[float]]:
    """Measures how long another thread that wants to run every millisecond is delayed at most.

    Delays caused by other processes do not count: the lesser of wall-clock and CPU time is taken.
    """
    gaps, over = [0.0], threading.Event()

    def tick() -> None:
        last, last_used = time.perf_counter(), time.process_time()
        while not over.wait(0.001):
            now, used = time.perf_counter(), time.process_time()
            gaps[0] = max(gaps[0], min(now - last, used - last_used))
            last, last_used = now, used

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        yield gaps
    finally:
        over.set()
        thread.join()


def tensors(plan: Plan, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns inputs of one element, NaN where that matters, and outputs."""
    nan = name.endswith("nan")
    item = plan.inputs["InputTensor"].data_type.bits // 8
    buffer = bytearray(b"\xff" * item if nan else b"\x01" * item)
    inputs = {key: desc.view(buffer) for key, desc in plan.inputs.items()}
    return inputs, {key: desc.allocate()[1] for key, desc in plan.outputs.items()}


def assert_stops_soon_in_bounds(device: Device, plan: Plan, inputs: Arrays, outputs: Arrays) -> None:
    """Checks that a plan polls for stops, does not starve other threads, and uses no more memory than declared."""
    skip_unless_executed(device, plan)
    with suppress(Stopped):
        device.run(plan, inputs, outputs, lambda: True)  # loads what only the first run needs
    watch = Watch()
    tracemalloc.start()
    try:
        with other_threads_delay() as gaps:
            with suppress(Stopped):
                device.run(plan, inputs, outputs, watch)
            watch.note()
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert watch.most < LATE
    assert gaps[0] < HELD
    assert taken <= device.scratch_bytes(plan) + OBJECTS


@pytest.mark.usefixtures("gc_disabled")
@pytest.mark.parametrize("name", NASTY)
def test_huge_work_stops_soon_within_bounds(device, name):
    plan = check(NASTY[name])
    inputs, outputs = tensors(plan, name)
    assert_stops_soon_in_bounds(device, plan, inputs, outputs)


def test_the_reference_refuses_work_that_takes_too_long():
    device, sizes = ReferenceDevice(), [2**26]
    plan = check(reduction("SUM", sizes, []))
    with pytest.raises(LimitExceededError) as refused, device.admit(plan):
        pass
    visits = 2**26 * (1 + VISITS_PER_TURN)
    assert (refused.value.code, refused.value.size, refused.value.limit) == (
        ProblemCode.WORK_TOO_LARGE,
        visits,
        MAX_VISITS,
    )
    assert str(visits) in str(refused.value)
    assert str(MAX_VISITS) in str(refused.value)


@pytest.mark.parametrize(
    "operator",
    [reduction("SUM", [2**28], [0]), reduction("ARGMIN", [4096, 64], [1]), pooling([1, 1, 512, 512], [9, 9])],
)
def test_the_reference_accepts_feasible_work(operator):
    with ReferenceDevice().admit(check(operator)):
        pass
