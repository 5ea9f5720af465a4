"""How responses are passed to the network server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest
from starlette.types import Message

from opwire.wire import Answer, Buffer
from opwire_service.engine.memory import Memory
from opwire_service.http.data.exchange import Exchange

pytestmark = pytest.mark.anyio

MIB = 2**20

LARGE = bytes(range(256)) * (5 * MIB // 256) + b"end"

ANSWERS: list[list[Buffer]] = [
    [b"{}"],
    [b"[", b"1," * 40_000, b"1]"],
    [b"{", LARGE, b"}"],
    [LARGE],
    [memoryview(LARGE), b"", b",", LARGE[:70_000], b"]"],
    [b"1234"] * 60_000,
]


class Sent:
    """Records what is sent, message by message."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def send(self, message: Message) -> None:
        self.messages.append(message)

    def exchange(self) -> Exchange:
        scope = {"type": "http", "http_version": "1.1", "headers": [], "path": "/"}
        return Exchange(scope, self._receive, self.send, Memory(MIB, 1).open())

    async def _receive(self) -> Message:
        return {"type": "http.disconnect"}

    @property
    def bodies(self) -> list[bytes]:
        start, *rest = self.messages
        assert start["type"] == "http.response.start"
        assert [message.get("more_body", False) for message in rest] == [True] * (len(rest) - 1) + [False]
        return [bytes(message["body"]) for message in rest]


@pytest.mark.parametrize("pieces", ANSWERS, ids=range(len(ANSWERS)))
@pytest.mark.parametrize("in_tail", [False, True])
async def test_a_large_response_is_sent_in_small_pieces(pieces, in_tail):
    """With TLS, each piece is copied in the event loop."""
    sent = Sent()
    await sent.exchange().send_answer(Answer([b"{}"], pieces) if in_tail else Answer(pieces))
    assert b"".join(sent.bodies) == (b"{}" if in_tail else b"") + b"".join(pieces)
    assert max(map(len, sent.bodies)) <= MIB
    headers = dict(sent.messages[0]["headers"])
    assert int(headers[b"content-length"]) == sum(map(len, sent.bodies))


@pytest.mark.parametrize("pieces", ANSWERS, ids=range(len(ANSWERS)))
async def test_a_stream_is_sent_in_small_pieces(pieces):
    """Each piece is copied into a chunk."""

    async def some() -> AsyncIterator[Sequence[Buffer]]:
        yield pieces
        yield [b"[", *pieces, b"]"]

    sent = Sent()
    await sent.exchange().send_stream(some())
    assert b"".join(sent.bodies) == b"".join([*pieces, b"[", *pieces, b"]"])
    assert max(map(len, sent.bodies)) <= MIB


async def test_a_small_response_is_sent_at_once():
    sent = Sent()
    await sent.exchange().send_answer(Answer([b"{", b"}"], [b"1234"]))
    assert sent.bodies == [b"{}1234"]
