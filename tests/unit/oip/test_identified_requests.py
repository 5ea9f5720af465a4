"""Inference requests that differ only in tensors and id are not parsed again, and get their own id back."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Awaitable
from typing import Any, TypeVar

import numpy as np
import pytest

from opwire.wire import RequestBody
from opwire_service.devices.reference import ReferenceDevice
from opwire_service.engine.dispatcher import Dispatcher
from opwire_service.engine.pipeline import Engine
from opwire_service.engine.progress import Progress
from opwire_service.oip.dialect import Inference
from opwire_service.oip.infer import InferRequest
from opwire_service.oip.models import find_model
from opwire_service.oip.shared_memory import SharedMemoryRange, Window
from opwire_service.process.application import layout
from opwire_service.settings import Limits, Settings
from opwire_service.telemetry.metrics import Metrics

pytestmark = pytest.mark.anyio

T = TypeVar("T")


class Counting(Inference):
    """Counts the requests that it parses."""

    parsed = 0

    def parse(self, body: RequestBody) -> InferRequest:
        Counting.parsed += 1
        return super().parse(body)


def no_shared_memory(place: SharedMemoryRange) -> Window:
    raise AssertionError("no request here has shared memory")


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    metrics = Metrics(layout(Settings(devices=("reference",))))
    made = Engine(Dispatcher({"reference": ReferenceDevice()}, 1, 8), Limits(), 8, metrics)
    yield made
    await made.close()


def head(identity: str) -> bytes:
    tensor = {"datatype": "INT32", "shape": [3], "parameters": {"binary_data_size": 12}}
    inputs = [{"name": name, **tensor} for name in ("ATensor", "BTensor")]
    return b'{"id":"%b",%b' % (identity.encode(), json.dumps({"inputs": inputs}).encode()[1:])


async def immediately(work: Awaitable[T]) -> T:
    return await work


async def ask(engine: Engine, identity: str, a: list[int], b: list[int]) -> tuple[Any, list[int], bool]:
    """Returns the id and the sum in the response, and whether the request was parsed."""
    sent, parsed = head(identity), Counting.parsed
    dialect = Counting(find_model("ELEMENT_WISE_ADD", None), '{"binary_data_output":true}', no_shared_memory, 1 << 20)
    with engine.memory.open() as hold:
        body = sent + np.array([*a, *b], np.int32).tobytes()
        answer = await engine.answer(dialect, body, str(len(sent)), Progress(), hold, immediately)
    found = json.loads(b"".join(answer.head)).get("id")
    return found, np.frombuffer(b"".join(answer.tail), np.int32).tolist(), Counting.parsed > parsed


@pytest.fixture
async def seen(engine: Engine) -> Engine:
    """An engine that has seen such a request often enough to keep a template."""
    for number in range(10):
        identity = f"request {number}"
        found, total, was_parsed = await ask(engine, identity, [1, 2, 3], [10, 20, 30])
        assert (found, total) == (identity, [11, 22, 33])
        if not was_parsed:
            return engine
    raise AssertionError("it was never kept")


@pytest.mark.parametrize("identity", ["request x", "ATensor:)", "{'id':[]}", "\u00e9t\u00e9 2026"[:7]])
async def test_a_new_id_needs_no_parsing(seen, identity):
    assert len(identity.encode()) == len("request 0")
    assert await ask(seen, identity, [4, 5, 6], [1, 1, 1]) == (identity, [5, 6, 7], False)


@pytest.mark.parametrize(
    ("written", "meant"), [("re\\u0041st", "reAst"), ("a\\\\b\\\\c\\\\", "a\\b\\c\\"), ("requ\u20282", "requ\u20282")]
)
async def test_escaped_ids_are_parsed(seen, written, meant):
    assert await ask(seen, written, [4, 5, 6], [1, 1, 1]) == (meant, [5, 6, 7], True)


async def test_a_quotation_mark_in_the_id_starts_other_members(seen):
    """The changed text has the length of an id."""
    assert await ask(seen, 'a","id":"', [4, 5, 6], [1, 1, 1]) == (None, [5, 6, 7], True)


async def test_an_id_equal_to_a_name_is_always_parsed(engine):
    for _ in range(5):
        assert await ask(engine, "ATensor", [1, 2, 3], [1, 1, 1]) == ("ATensor", [2, 3, 4], True)


async def test_many_ids_share_one_template(seen):
    for _ in range(10):
        await ask(seen, f"{uuid.uuid4()}", [1, 2, 3], [1, 1, 1])
    found = [(await ask(seen, f"{uuid.uuid4()}", [1, 2, 3], [1, 1, 1]))[2] for _ in range(20)]
    assert found.count(True) < 10  # if a busy machine delays a run, the next request is parsed
