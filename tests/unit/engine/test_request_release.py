"""What a request holds is freed when it ends, however it ends, without waiting for garbage collection."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import weakref
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

from opwire.check import Plan
from opwire.errors import DeadlineExceededError, OpwireError
from opwire_service.engine.dispatcher import Dispatcher
from opwire_service.engine.limits import Allowance
from opwire_service.engine.pipeline import Engine
from opwire_service.engine.request import Request
from opwire_service.execution import Arrays, Stop, Stopped
from opwire_service.http.data.exchange import while_connected
from opwire_service.http.data.native import Native
from opwire_service.kernels.cpu.run.pool import Pool
from opwire_service.process.application import layout
from opwire_service.settings import Limits, Settings
from opwire_service.telemetry.metrics import Metrics
from tests.support.controlled_device import FakeDevice
from tests.support.dispatching import until
from tests.support.execution import never_stop

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("gc_disabled")]

OPERATOR = {
    "type": "REDUCE",
    "desc": {"Function": "SUM", "InputTensor": {"DataType": "FLOAT32", "Sizes": [3]}, "Axes": []},
}


class OutputWatcher(FakeDevice):
    """Remembers the outputs it was given, by weak references."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs: list[weakref.ref[object]] = []

    def run(self, plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        self.outputs += [weakref.ref(output) for output in outputs.values()]
        super().run(plan, inputs, outputs, stop)

    def is_free(self) -> bool:
        assert self.outputs
        return all(output() is None for output in self.outputs)


@pytest.fixture
def device() -> OutputWatcher:
    return OutputWatcher()


@pytest.fixture
async def engine(device: OutputWatcher) -> AsyncIterator[Engine]:
    metrics = Metrics(layout(Settings(devices=("fake",))))
    made = Engine(Dispatcher({"fake": device}, 2, 8), Limits(), 8, metrics)
    yield made
    await made.close()


def request(**members: object) -> bytes:
    return json.dumps({"operator": OPERATOR, "inputs": {"InputTensor": "AAAAAAAAAAAAAAAA"}, **members}).encode()


async def never_disconnected() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def soon_disconnected() -> Message:
    await asyncio.sleep(0.05)
    return {"type": "http.disconnect"}


async def ask(engine: Engine, body: bytes, *, gone: bool = False) -> type[BaseException] | None:
    """Returns the error that a request ends with, or None."""
    guard = partial(while_connected, soon_disconnected if gone else never_disconnected)
    try:
        with engine.memory.open() as hold:
            await engine.answer(Native("id", binary=False), body, None, Request(hold, guard))
    except Exception as error:
        return type(error)
    return None


async def test_a_late_request_frees_its_outputs(engine, device):
    assert await ask(engine, request(timeout_ms=30)) is DeadlineExceededError
    await until(device.is_free)


async def test_a_disconnected_request_frees_its_outputs(engine, device):
    assert await ask(engine, request(), gone=True) is ClientDisconnect
    await until(device.is_free)


async def test_a_failed_request_frees_its_outputs(engine, device):
    asked = asyncio.create_task(ask(engine, request()))
    (run,) = await device.started(1)
    run.fail(ZeroDivisionError())
    assert await asked is ZeroDivisionError
    device.runs.clear()  # also drops the error, whose traceback refers to the outputs
    await until(device.is_free)


async def test_an_answered_request_frees_its_outputs(engine, device):
    asked = asyncio.create_task(ask(engine, request()))
    (run,) = await device.started(1)
    run.finish()
    assert await asked is None
    await until(device.is_free)


async def test_a_late_part_of_a_batch_frees_its_outputs(engine, device):
    guard = partial(while_connected, never_disconnected)
    with engine.memory.open() as hold:
        whole = Request(hold, guard)
        execute = await engine.read(Native("id", binary=False).parse, request(timeout_ms=30), None, whole)
        found = await engine.answer_part(Native("id", binary=False), execute, whole.part(guard, Allowance(1000)))
    assert isinstance(found, OpwireError)
    await until(device.is_free)


class Tensor:
    """An object held by work."""


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("answers", [0, 5, 10**6])
async def test_work_shared_among_threads_frees_its_objects(threads, answers):
    """However the work ends, and whichever threads took part."""
    pool = Pool(threads)
    asked, lock = iter(range(answers)), threading.Lock()

    def stop() -> bool:
        with lock:
            return next(asked, None) is None

    held = Tensor()
    remembered = weakref.ref(held)

    def piece(begin: int, end: int, tensor: Tensor = held) -> None:
        time.sleep(0.001)

    with suppress(Stopped):
        pool.run(piece, 40, 1, stop)
    del held, piece
    await until(lambda: remembered() is None)
    pool.run(lambda begin, end: None, 1, 1, never_stop)
    pool.close()
