"""Access log lines: what clients send is truncated and escaped."""

from __future__ import annotations

import json
import logging

import pytest

from opwire_service.process.logging import JsonFormatter
from opwire_service.telemetry.access_log import escaped, wants, write
from opwire_service.telemetry.requests import Ended
from tests.support.http.processes import until

MOST = 200


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("", ""),
        ("/v1/execute", "/v1/execute"),
        ("a" * MOST, "a" * MOST),
        ("a" * (MOST + 1), "a" * (MOST - 3) + "..."),
        ("/a\n12:00:00 INFO forged", r"/a\n12:00:00 INFO forged"),
        ("a' ok 1 ms 'b", r"a\' ok 1 ms \'b"),
        ("back\\slash", r"back\\slash"),
        ("\x1b[31m\x7f\0", r"\x1b[31m\x7f\x00"),
        ("é\u2028\U0001f600\udcff", r"\xe9\u2028\U0001f600\udcff"),
    ],
)
def test_client_text_is_escaped(said, shown):
    assert escaped(said) == shown


@pytest.mark.parametrize("character", ["a", "\n", "'", "\\", "é", "\U0001f600", "\udcff"])
def test_long_client_text_is_truncated(character):
    shown = escaped(character * 30_000)
    assert len(shown) == MOST
    assert shown.endswith("...")
    assert shown.isascii()
    assert shown.isprintable()


@pytest.mark.parametrize("status", [200, 401, 404])
def test_a_line_stays_short_whatever_the_client_sends(caplog, status):
    caplog.set_level(logging.DEBUG, "opwire.access")
    long = "\n" + "x" * 30_000
    code = "ok" if status == 200 else "not_found"
    for operator in (long, {"type": long}):
        said = ("M" + long, "/" + long, "http", "1.1")
        write(Ended(*said, "/other", status, code, 5, long, None, "::1", {"traceparent": long}, operator))
    assert len(caplog.records) == 2
    for record in caplog.records:
        assert len(record.getMessage()) < 1000
        assert "\n" not in record.getMessage()
        line = JsonFormatter().format(record)
        assert len(line) < 2000
        assert json.loads(line)["path"] == "/\\n" + "x" * (MOST - 6) + "..."


def test_overload_refusals_are_logged_once_a_second_with_a_count(caplog):
    caplog.set_level(logging.INFO, "opwire.access")
    until(lambda: wants("queue_full"))
    assert not any([wants("queue_full"), wants("memory_full"), wants("memory_full")])
    assert wants("not_found")
    until(lambda: wants("memory_full"))
    write(
        Ended("POST", "/v1/execute", "http", "1.1", "/v1/execute", 429, "memory_full", 5, "it", None, "192.0.2.1", {})
    )
    fields = caplog.records[0].fields
    assert fields["more_refused"] >= 3
    assert "peer 192.0.2.1" in caplog.records[0].getMessage()
    assert f"more_refused {fields['more_refused']}" in caplog.records[0].getMessage()


def test_debug_logs_every_refusal(caplog):
    caplog.set_level(logging.DEBUG, "opwire.access")
    assert all(wants("queue_full") for _ in range(3))
