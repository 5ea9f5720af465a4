"""The memory a request is admitted with, against the memory it takes from body to response, for random descs.

Measured are allocations by NumPy and Python, which are all that grow with a request.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
import tracemalloc
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from starlette.types import Message

from opwire.check import Plan, check
from opwire.errors import ContractViolation, OpwireError
from opwire_service.devices.base import Device
from opwire_service.devices.cpu import CpuDevice
from opwire_service.devices.reference import ReferenceDevice
from opwire_service.engine.dispatcher import Dispatcher
from opwire_service.engine.pipeline import Engine
from opwire_service.engine.request import Request
from opwire_service.http.data.exchange import while_connected
from opwire_service.http.data.native import Native
from opwire_service.kernels.executable import EXECUTABLE
from opwire_service.process.application import layout
from opwire_service.settings import Limits, Settings
from opwire_service.telemetry.metrics import Metrics
from tests.strategies import descs
from tests.support.http.bodies import FORMS
from tests.support.profiles import request_examples

FACTOR = 3
"""Allowed ratio of the admitted memory to the memory taken."""

FLOOR = 4 << 20
"""Bytes that count as constant overhead."""

SIZES = {"cpu": (1, 4, 32, 64), "reference": (1, 3, 8, 12)}

BYTES = {"cpu": range(1 << 19, 1 << 25), "reference": range(1 << 12, 1 << 20)}
"""Sizes in bytes of the tensors of a measured desc."""

TIMEOUT_MS = 2000

MOST_NUMBERS = 1 << 18
"""Maximum number of elements of a request written with numbers."""

ALL_SECONDS = 2
"""Seconds for all requests of an operator."""

DRAWN = settings(request_examples(40), derandomize=True, database=None, deadline=None, phases=[Phase.generate])


class Held(NamedTuple):
    """The bytes that a request was admitted with and that it took, and whether it completed."""

    admitted: int
    taken: int
    is_whole: bool


@pytest.fixture(scope="module", params=SIZES)
def own_device(request: pytest.FixtureRequest) -> Iterator[Device]:
    device = ReferenceDevice() if request.param == "reference" else CpuDevice(2)
    for _ in device.warm_up([]):
        pass
    yield device
    device.close()


def tensor(data_type: str, *sizes: int) -> dict[str, Any]:
    return {"DataType": data_type, "Sizes": list(sizes)}


def recurrent(gates: int, size: int, *activations: str, **options: Any) -> dict[str, Any]:
    """Returns a forward network with as many steps as its state has elements."""
    weights, states = tensor("FLOAT32", 1, 1, gates * size, size), tensor("FLOAT32", 1, 1, 4, size)
    return {
        "InputTensor": tensor("FLOAT32", 1, size, 4, size),
        "WeightTensor": weights,
        "RecurrenceTensor": weights,
        "OutputSequenceTensor": tensor("FLOAT32", size, 1, 4, size),
        "OutputSingleTensor": states,
        "ActivationDescCount": len(activations),
        "ActivationDescs": [{"Type": f"ACTIVATION_{name}"} for name in activations],
        "Direction": "FORWARD",
        **options,
    }


def attention(size: int, **heads: int) -> dict[str, Any]:
    sequence = tensor("FLOAT32", 2, size, 2 * size)
    tensors = {"QueryTensor": sequence, "KeyTensor": sequence, "ValueTensor": sequence}
    return {**tensors, "Scale": 1, "MaskFilterValue": -10000, "MaskType": "NONE", **heads}


def convolution(size: int, data_type: str, **tensors: Any) -> dict[str, Any]:
    """Returns a 3 x 3 convolution of a square image with as many channels as filters."""
    each = {"Strides": 1, "Dilations": 1, "StartPadding": 1, "EndPadding": 1}
    channels, side = size // 8, size // 4
    return {
        "InputTensor": tensor(data_type, 1, channels, side, side),
        "FilterTensor": tensor(data_type, channels, channels, 3, 3),
        "GroupCount": 1,
        **{name: [value, value] for name, value in each.items()},
        **tensors,
    }


def products(size: int) -> dict[str, dict[str, Any]]:
    """Returns descs, of a meaningful size, that are rarely drawn because their tensors must fit each other."""
    real, byte, one = tensor("FLOAT32", 1, 1, size, size), tensor("UINT8", 1, 1, size, size), tensor("FLOAT32", 1)
    scales, scale = {"AScaleTensor": one, "BScaleTensor": one}, tensor("FLOAT32", 1, 1, 1, 1)
    plain = {"TransA": "NONE", "TransB": "NONE", "Alpha": 1, "Beta": 0}
    state = tensor("FLOAT32", 1, 1, 4, size)
    cell = {"ClipThreshold": 0, "UseClipThreshold": False, "CoupleInputForget": False, "OutputCellSingleTensor": state}
    forward = {"Mode": "CROSS_CORRELATION", "Direction": "FORWARD", "OutputPadding": [0, 0]}
    quantized = {"InputScaleTensor": scale, "FilterScaleTensor": scale, "OutputScaleTensor": scale}
    return {
        "GEMM": {"ATensor": real, "BTensor": real, **plain},
        "CONVOLUTION": convolution(size, "FLOAT32", **forward),
        "CONVOLUTION_INTEGER": convolution(size, "UINT8"),
        "QUANTIZED_LINEAR_CONVOLUTION": convolution(size, "UINT8", **quantized),
        "MATRIX_MULTIPLY_INTEGER": {"ATensor": byte, "BTensor": byte},
        "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": {"ATensor": byte, "BTensor": byte, **scales},
        "QUANTIZED_LINEAR_MATRIX_MULTIPLY": {"ATensor": byte, "BTensor": byte, **scales, "OutputScaleTensor": one},
        "RNN": recurrent(1, size, "TANH"),
        "GRU": recurrent(3, size, "SIGMOID", "TANH", LinearBeforeReset=False),
        "LSTM": recurrent(4, size, "SIGMOID", "TANH", "TANH", **cell),
        "MULTIHEAD_ATTENTION": attention(size, HeadCount=2),
        "MULTIHEAD_ATTENTION1": attention(size, QueryHeadCount=2, KeyValueHeadCount=2),
    }


PRODUCTS = {"cpu": products(384), "reference": products(16)}


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["base64", "binary"])
@pytest.mark.parametrize("name", PRODUCTS["cpu"])
def test_a_product_stays_within_its_admitted_memory(own_device: Device, name: str, form: str) -> None:
    operator = {"type": name, "desc": PRODUCTS[own_device.name][name]}
    plan = check(operator)
    held = asyncio.run(measured(own_device, plan, str(plan.level), operator, form))
    assert held.is_whole
    assert held.taken <= held.admitted + FLOOR, held
    assert held.admitted <= FACTOR * (held.taken + FLOOR), held


@pytest.mark.thorough
@pytest.mark.parametrize("name", EXECUTABLE)
def test_a_request_stays_within_its_admitted_memory(own_device: Device, name: str) -> None:
    end = time.monotonic() + ALL_SECONDS

    @DRAWN
    @given(descs(EXECUTABLE[name], SIZES[own_device.name]), st.sampled_from(FORMS))
    def holds(drawn: Any, form: str) -> None:
        if time.monotonic() > end:
            return
        with suppress(ContractViolation):  # more elements than a tensor may have
            plan = check(drawn.request, drawn.level)
            if is_measured(plan, own_device.name, form):
                held = asyncio.run(measured(own_device, plan, str(drawn.level), drawn.request, form))
                assert held.taken <= held.admitted + FLOOR, (held, form, drawn.request)
                if held.is_whole:
                    assert held.admitted <= FACTOR * (held.taken + FLOOR), (held, form, drawn.request)

    holds()


def is_measured(plan: Plan, device: str, form: str) -> bool:
    """Whether a plan takes enough memory to be meaningful, and little enough to be affordable."""
    tensors = (*plan.inputs.values(), *plan.outputs.values())
    values = sum(desc.element_count for desc in tensors)
    is_few = form != "numbers" or values <= MOST_NUMBERS
    return is_few and sum(desc.data_size_in_bytes for desc in tensors) in BYTES[device]


async def measured(device: Device, plan: Plan, level: str, operator: Mapping[str, Any], form: str) -> Held:
    """Processes a request as the server does."""
    body, head = written(plan, level, operator, form)
    engine = Engine(Dispatcher({device.name: device}, 1, 8), Limits(), 8, Metrics(layout(Settings(devices=("fake",)))))
    dialect, is_whole = Native("id", binary=form == "binary"), False
    device.scratch_bytes(plan)
    tracemalloc.start()
    try:
        with engine.memory.open() as hold:
            received = bytes(bytearray(body))
            await hold.take_body(len(received), len(received), time.monotonic() + 1)
            hold.arrived()
            with suppress(OpwireError):
                await engine.answer(dialect, received, head, Request(hold, without_disconnect))
                is_whole = True
            admitted = engine.memory.taken
        return Held(admitted, tracemalloc.get_traced_memory()[1], is_whole)
    finally:
        tracemalloc.stop()
        engine.dispatcher.devices.clear()  # the device is shared with other tests
        await engine.close()


async def without_disconnect(work: Any) -> Any:
    return await while_connected(_never_disconnected, work)


async def _never_disconnected() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


def written(plan: Plan, level: str, operator: Mapping[str, Any], form: str) -> tuple[bytes, str | None]:
    """Returns a request whose tensors consist of one-bytes, and the length of its JSON if they follow in a tail."""
    tail, given = bytearray(), dict[str, Any]()
    for name, desc in plan.inputs.items():
        data = b"\1" * desc.data_size_in_bytes
        tensor: Any = base64.b64encode(data).decode()
        if form == "binary":
            tensor, tail = {"binary_data_size": len(data)}, tail + data
        elif form == "numbers":
            numbers = desc.view(bytearray(b"\1" * desc.total_size_in_bytes))
            tensor = {"data": np.ascontiguousarray(numbers).tolist()}
        member, _, number = name.partition("[")
        given[member] = [*given.get(member, ()), tensor] if number else tensor
    output_format = {"output_format": form} if form == "numbers" else {}
    request = {"feature_level": level, "operator": operator, "inputs": given, "timeout_ms": TIMEOUT_MS, **output_format}
    text = json.dumps(request).encode()
    return text + tail, str(len(text)) if form == "binary" else None
