"""Requests that differ only in their tensors are not parsed again, with the same results as if they were."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Awaitable
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pytest

from opwire.errors import OpwireError, ProblemCode
from opwire.wire import RequestBody, parse_execute
from opwire_service.devices.reference import ReferenceDevice
from opwire_service.engine.dispatcher import Dispatcher
from opwire_service.engine.pipeline import Engine
from opwire_service.engine.progress import Progress
from opwire_service.http.native import Native
from opwire_service.process.application import layout
from opwire_service.settings import Limits, Settings
from opwire_service.telemetry.metrics import Metrics

pytestmark = pytest.mark.anyio

T = TypeVar("T")

OPERATOR = {
    "type": "ELEMENT_WISE_ADD",
    "desc": {name: {"DataType": "INT32", "Sizes": [3]} for name in ("ATensor", "BTensor", "OutputTensor")},
}
BEFORE = ([1, 2, 3], [10, 20, 30])


class Counting(Native):
    """Counts the requests that it parses."""

    parsed = 0

    def parse(self, body: RequestBody) -> Any:
        Counting.parsed += 1
        return parse_execute(body)


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    metrics = Metrics(layout(Settings(devices=("reference",))))
    made = Engine(Dispatcher({"reference": ReferenceDevice()}, 1, 8), Limits(), 8, metrics)
    yield made
    await made.close()


def text(values: list[int]) -> str:
    return base64.b64encode(np.array(values, np.int32).tobytes()).decode()


def body(a: str, b: str, **members: object) -> bytes:
    return json.dumps({"inputs": {"ATensor": a, "BTensor": b}, "operator": OPERATOR, **members}).encode()


def tail(a: list[int], b: list[int]) -> tuple[bytes, str]:
    inputs = {name: {"binary_data_size": 12} for name in ("ATensor", "BTensor")}
    head = json.dumps({"operator": OPERATOR, "inputs": inputs}).encode()
    return head + np.array([*a, *b], np.int32).tobytes(), str(len(head))


async def immediately(work: Awaitable[T]) -> T:
    return await work


async def ask(engine: Engine, sent: bytes, head_length: str | None = None, *, binary: bool = False) -> tuple[Any, bool]:
    """Returns the sum or the error code, and whether the request was parsed."""
    parsed = Counting.parsed
    ask = partial(engine.answer, Counting("id", binary=binary), sent, head_length, Progress())
    try:
        with engine.memory.open() as hold:
            answer = await ask(hold, immediately)
    except OpwireError as error:
        return error.code, Counting.parsed > parsed
    head = json.loads(b"".join(answer.head))
    data = b"".join(answer.tail) or base64.b64decode(head["outputs"]["OutputTensor"]["data"])
    return np.frombuffer(data, np.int32).tolist(), Counting.parsed > parsed


@pytest.fixture
async def seen(engine: Engine) -> Engine:
    """An engine that has seen the request often enough to keep a template."""
    for _ in range(10):  # three suffice, unless a busy machine delays a run
        found, was_parsed = await ask(engine, body(*map(text, BEFORE)))
        assert found == [11, 22, 33]
        if not was_parsed:
            return engine
    raise AssertionError("it was never kept")


async def test_new_tensors_need_no_parsing(seen):
    for _ in range(5):  # if a busy machine delays a run, the next request is parsed
        hits = seen.plans.hits
        found, was_parsed = await ask(seen, body(text([-1, 5, 2**31 - 1]), text([1, 6, -1])))
        assert found == [0, 11, 2**31 - 2]
        if not was_parsed:
            break
    assert not was_parsed
    assert seen.plans.hits == hits + 1


async def test_equal_tensors_are_read_separately(seen):
    assert await ask(seen, body(text([4, 4, 4]), text([4, 4, 4]))) == ([8, 8, 8], False)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param("AQAAAAIAAAADAA==", id="one byte less"),
        pytest.param("AQAAAAIAAAADAAA=", id="a padding"),
        pytest.param("AQAAAAIAA AADAAA", id="a space"),
        pytest.param("AQAAAAIA\u00e9ADAA", id="no ASCII"),
    ],
)
async def test_invalid_tensors_are_refused_as_usual(seen, other):
    found, parsed = await ask(seen, body(other, text([1, 1, 1])).replace(b"\\u00e9", "\u00e9".encode()))
    assert parsed
    assert isinstance(found, ProblemCode)


async def test_a_tensor_that_ends_early_is_different_json(seen):
    """The text has the same length, with a quotation mark in place of a letter."""
    sent = body(text([1, 2, 3]), text([1, 1, 1])).replace(b"AAADAAAA", b'AAAA","x"')[:-1]
    found, parsed = await ask(seen, sent)
    assert parsed
    assert isinstance(found, ProblemCode)


@pytest.mark.parametrize("members", [{"timeout_ms": 5000}, {"device": "none"}])
async def test_requests_that_differ_elsewhere_are_parsed(seen, members):
    assert (await ask(seen, body(*map(text, BEFORE), **members)))[1]


async def test_the_response_form_is_respected(seen):
    found, parsed = await ask(seen, body(*map(text, BEFORE)), binary=True)
    assert (found, parsed) == ([11, 22, 33], True)


@pytest.mark.parametrize("written", ["AQAAAAIAAAAD\\u0041AAA", "\\u0041QAAAAIAAAADAAAA"])
async def test_escaped_text_is_always_parsed(engine, written):
    sent = body("HERE", text([1, 1, 1])).replace(b"HERE", written.encode())
    for _ in range(5):
        found, parsed = await ask(engine, sent)
        assert parsed
        assert found == (np.frombuffer(base64.b64decode(json.loads(f'"{written}"')), np.int32) + 1).tolist()


async def test_tensors_in_a_tail_need_no_parsing(engine):
    for _ in range(3):
        assert (await ask(engine, *tail(*BEFORE)))[0] == [11, 22, 33]
    assert await ask(engine, *tail([7, 8, 9], [1, 1, 1])) == ([8, 9, 10], False)
    sent, length = tail(*BEFORE)
    assert (await ask(engine, sent, str(int(length) - 1)))[1]
    assert (await ask(engine, sent, None))[1]
    assert (await ask(engine, sent + b"\0", length))[1]


async def test_templates_take_bounded_memory(engine):
    for number in range(1500):
        for _ in range(3 if number == 0 else 1):
            assert (await ask(engine, body(*map(text, BEFORE), timeout_ms=100_000 + number)))[0] == [11, 22, 33]
    asked = (0, *range(1400, 1500))
    first, *last = [(await ask(engine, body(*map(text, BEFORE), timeout_ms=100_000 + number)))[1] for number in asked]
    assert first
    assert sum(last) < 50, "on a busy machine a few runs take too long for a template"
