"""Heads of answers go out with what follows them, and nothing is lost or changes its place."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from opwire_service.http.writing import JOINED_BYTES, AnswerWriter

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class Written(asyncio.Transport):
    """Keeps what is written, call by call."""

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


@pytest.fixture
def written() -> Written:
    return Written()


@pytest.fixture
def writer(written: Written) -> AnswerWriter:
    return AnswerWriter(written)


@pytest.mark.parametrize("body", [b"ok", b"", memoryview(b"ok"), bytearray(b"ok"), bytes(JOINED_BYTES)])
def test_a_head_goes_with_the_beginning_of_its_body(writer, written, body):
    writer.write(HEAD)
    assert written.calls == []
    writer.write(body)
    writer.write(memoryview(b"more"))
    assert written.calls == [HEAD + bytes(body), b"more"]


def test_a_large_body_is_not_copied(writer, written):
    writer.write(HEAD)
    writer.write(bytes(JOINED_BYTES + 1))
    assert [len(call) for call in written.calls] == [len(HEAD), JOINED_BYTES + 1]


def test_a_head_without_a_body_goes_when_the_answer_is_complete(writer, written):
    writer.write(HEAD)
    writer.flush()
    writer.flush()
    assert written.calls == [HEAD]


def test_a_head_goes_before_the_connection_is_closed(writer, written):
    writer.write(HEAD)
    assert not writer.is_closing()
    writer.close()
    assert written.calls == [HEAD]
    assert writer.is_closing()


def test_a_client_that_waits_for_leave_to_send_has_it_at_once(writer, written):
    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert written.calls == [b"HTTP/1.1 100 Continue\r\n\r\n"]


def test_answers_come_in_their_order(writer, written):
    for _ in range(3):
        writer.write(HEAD)
        writer.write(b"ok")
        writer.flush()
    assert written.calls == [HEAD + b"ok"] * 3
