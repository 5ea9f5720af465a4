"""Response heads are written together with what follows them, and nothing is lost or reordered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.responses import Response

from opwire_service.http.connection.cycle import JOINED_BYTES, Admit, Cycle

pytestmark = pytest.mark.anyio


class RecordingTransport(asyncio.Transport):
    """Records each write."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        assert not self.closed
        self.calls.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


class Connected:
    """Owns a cycle."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.can_write = asyncio.Event()
        self.can_write.set()
        self.ended: list[str] = []

    def resume_reading(self) -> None:
        raise NotImplementedError

    def on_response_complete(self, cycle: Cycle) -> None:
        self.ended.append(cycle.scope["method"])

    async def fill(self, cycle: Cycle, memory: memoryview, admit: Admit) -> None:
        raise NotImplementedError

    def has_unread(self) -> bool:
        raise NotImplementedError

    def refuse(self, response: Response) -> None:
        raise NotImplementedError


class Request:
    """A request on a connection, and what was written in response."""

    def __init__(self, method: str = "POST", *, keep_alive: bool = True) -> None:
        self.written = RecordingTransport()
        owner = Connected(self.written)
        self.ended = owner.ended
        scope = {"type": "http", "method": method, "extensions": {}}
        self.cycle = Cycle(owner, scope, [(b"date", b"today")], keep_alive=keep_alive, awaits_continue=False)

    async def begin(self, *fields: tuple[bytes, bytes], status: int = 200) -> None:
        await self.cycle.send({"type": "http.response.start", "status": status, "headers": list(fields)})

    async def body(self, body: Any, *, more: bool = False) -> None:
        await self.cycle.send({"type": "http.response.body", "body": body, "more_body": more})


def head(*fields: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ndate: today\r\n" + b"".join(field + b"\r\n" for field in fields) + b"\r\n"


def length(size: int) -> tuple[bytes, bytes]:
    return b"content-length", b"%d" % size


@pytest.mark.parametrize("body", [b"ok", b"", memoryview(b"ok"), bytearray(b"ok"), bytes(JOINED_BYTES)])
async def test_a_head_is_written_with_the_start_of_its_body(body):
    request = Request()
    await request.begin(length(len(body) + 4))
    assert request.written.calls == []
    await request.body(body, more=True)
    assert request.ended == []
    await request.body(memoryview(b"more"))
    assert request.written.calls == [head(b"content-length: %d" % (len(body) + 4)) + bytes(body), b"more"]
    assert request.ended == ["POST"]
    assert not request.written.closed


async def test_a_large_body_is_not_copied():
    request = Request()
    await request.begin(length(JOINED_BYTES + 1))
    await request.body(bytes(JOINED_BYTES + 1))
    assert [len(call) for call in request.written.calls] == [len(head(b"content-length: 65537")), JOINED_BYTES + 1]


async def test_a_response_of_unknown_length_is_chunked():
    request = Request()
    await request.begin()
    for body in (b"one", b"", bytes(range(16))):
        await request.body(body, more=True)
    await request.body(b"")
    sent = b"".join(request.written.calls)
    assert sent == head(b"transfer-encoding: chunked") + b"3\r\none\r\n10\r\n" + bytes(range(16)) + b"\r\n0\r\n\r\n"
    assert request.ended == ["POST"]


async def test_a_response_to_head_has_no_body():
    request = Request("HEAD")
    await request.begin(length(2))
    await request.body(b"ok")
    assert request.written.calls == [head(b"content-length: 2")]
    assert request.ended == ["HEAD"]


async def test_a_response_without_content_has_no_length():
    request = Request()
    await request.begin(status=204)
    await request.body(b"")
    assert request.written.calls == [b"HTTP/1.1 204 No Content\r\ndate: today\r\n\r\n"]


@pytest.mark.parametrize("fields", [[], [(b"connection", b"close")]])
async def test_the_last_response_has_a_single_connection_close(fields):
    request = Request(keep_alive=bool(fields))
    await request.begin(*fields, length(2))
    await request.body(b"ok")
    assert sorted(request.written.calls[0].split(b"\r\n")).count(b"connection: close") == 1
    assert request.written.closed


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: b", b"a\nb"])
async def test_multiline_fields_are_refused(value):
    with pytest.raises(RuntimeError, match="several lines"):
        await Request().begin((b"x", value))


@pytest.mark.parametrize("body", [b"", b"long"])
async def test_bodies_must_match_their_content_length(body):
    request = Request()
    await request.begin(length(2))
    with pytest.raises(RuntimeError, match=r"(longer|shorter) than its head says"):
        await request.body(body)


async def test_messages_out_of_order_are_refused():
    request = Request()
    with pytest.raises(RuntimeError, match="wrong time"):
        await request.body(b"ok")
    await request.begin(length(0))
    with pytest.raises(RuntimeError, match="wrong time"):
        await request.begin(length(0))
    await request.body(b"")
    with pytest.raises(RuntimeError, match="wrong time"):
        await request.body(b"")


async def test_a_client_that_has_gone_gets_nothing_more_and_the_application_learns_of_it():
    request = Request()
    await request.begin(length(2))
    request.cycle.disconnect()
    await request.body(b"ok")
    assert request.written.calls == []
    assert request.ended == []
    assert (await request.cycle.receive())["type"] == "http.disconnect"


async def test_a_complete_response_stays_complete_when_the_client_disconnects():
    request = Request()
    await request.begin(length(2))
    await request.body(b"ok")
    request.cycle.disconnect()
    with pytest.raises(RuntimeError, match=r"http\.response\.body sent at the wrong time"):
        await request.body(b"ok")
