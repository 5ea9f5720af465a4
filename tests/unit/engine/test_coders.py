"""Decoding and encoding of tensors: on which thread, and without delaying others."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from functools import partial

import pytest
from starlette.types import Message

from opwire.wire import Answer, ExecuteRequest
from opwire_service.devices.reference import ReferenceDevice
from opwire_service.engine.coders import INLINE_BYTES
from opwire_service.engine.dialect import Result
from opwire_service.engine.dispatcher import Dispatcher
from opwire_service.engine.memory import SMALL
from opwire_service.engine.pipeline import Engine
from opwire_service.engine.plan_cache import Prepared
from opwire_service.engine.request import Request
from opwire_service.http.data.exchange import while_connected
from opwire_service.http.data.native import Native
from opwire_service.process.application import layout
from opwire_service.settings import Limits, Settings
from opwire_service.telemetry.metrics import Metrics

pytestmark = pytest.mark.anyio

OPERATOR = {
    "type": "REDUCE",
    "desc": {"Function": "SUM", "InputTensor": {"DataType": "FLOAT32", "Sizes": [3]}, "Axes": []},
}
BODY = json.dumps({"operator": OPERATOR, "inputs": {"InputTensor": "AAAAAAAAAAAAAAAA"}}).encode()
PLACES = 2


class SlowEncoding(Native):
    """Claims a number of response bytes, and finishes encoding when the test says so."""

    def __init__(self, size: int, done: threading.Event) -> None:
        super().__init__("id", binary=False)
        self._size = size
        self._done = done
        self.begun = threading.Event()

    def answer_bytes(self, parsed: ExecuteRequest, prepared: Prepared) -> tuple[int, int]:
        return self._size, 0

    def write(self, parsed: ExecuteRequest, done: Result, request: Request) -> Answer:
        self.begun.set()
        assert self._done.wait(30)
        return super().write(parsed, done, request)


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    settings = Settings(devices=("reference",))
    made = Engine(Dispatcher({"reference": ReferenceDevice()}, PLACES, 8), Limits(), 8, Metrics(layout(settings)))
    yield made
    await made.close()


async def never_disconnected() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def ask(engine: Engine, dialect: Native) -> Answer:
    with engine.memory.open() as hold:
        request = Request(hold, partial(while_connected, never_disconnected))
        return await engine.answer(dialect, BODY, None, request)


async def test_small_responses_do_not_wait_for_large_ones(engine):
    done, now = threading.Event(), threading.Event()
    now.set()
    large = [SlowEncoding(SMALL + 1, done) for _ in range(PLACES)]
    asked = [asyncio.create_task(ask(engine, each)) for each in large]
    for each in large:
        assert await asyncio.to_thread(each.begun.wait, 30)
    async with asyncio.timeout(10):
        assert (await ask(engine, SlowEncoding(INLINE_BYTES + 1, now))).head
    done.set()
    assert all(answer.head for answer in await asyncio.gather(*asked))
