"""The API key file, and the trace context of requests."""

from __future__ import annotations

import os

import pytest

from opwire_service.http.api_keys import ApiKeys
from opwire_service.telemetry.access_log import trace_id
from opwire_service.telemetry.requests import Ended

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def ended(**carriers: str) -> Ended:
    return Ended("GET", "/", "http", "1.1", "/", 200, "ok", 1, "id", None, None, carriers)


def test_each_line_is_a_key(tmp_path):
    file = tmp_path / "keys"
    file.write_text("# comment\n\n  first  \nalice:second # hers\nbob: third==\r\na.b-c_d:e.f~g+h/i-j_k=\n")
    keys = ApiKeys.read(file)
    owners = {"first": "line 3", "second": "alice", "third==": "bob", "e.f~g+h/i-j_k=": "a.b-c_d"}
    for key, owner in owners.items():
        assert keys.owner(key.encode()) == owner
    for wrong in (b"", b"First", b"alice", b"alice:second", b"second ", b"third", b"# comment", b"hers", b"\xff"):
        assert keys.owner(wrong) is None


@pytest.mark.parametrize(
    "text", ["", "#only\n", "two words\n", "a:b:c\n", ":qqq\n", "zzz:\n", "k=y\n", '"quoted"\n', "é\n"]
)
def test_an_invalid_file_is_refused_without_quoting_it(tmp_path, text):
    file = tmp_path / "keys"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="key") as refused:
        ApiKeys.read(file)
    said = str(refused.value).removeprefix(str(file))
    assert not text.strip() or text.strip() not in said


@pytest.mark.parametrize("kind", ["folder", "pipe", "/dev/null", "/dev/zero"])
def test_other_than_regular_files_are_refused_at_once(tmp_path, kind):
    path = tmp_path / "keys"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(kind)
    with pytest.raises(ValueError, match="not a regular file"):
        ApiKeys.read(path)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (f"00-{TRACE}-{SPAN}-01", TRACE),
        (f"00-{TRACE}-{SPAN}-00", TRACE),
        (f"cc-{TRACE}-{SPAN}-01-what-comes-later", TRACE),
        (f"ff-{TRACE}-{SPAN}-01", None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"00-{TRACE.upper()}-{SPAN}-01", None),
        (f"00-{TRACE}-{SPAN}", None),
        (f"00-{TRACE}{SPAN}-01", None),
        (f"00-{TRACE}-{SPAN}-01\n", None),
        (f"00-{TRACE}-{SPAN}-01-more", None),
        ("", None),
    ],
)
def test_the_trace_id_comes_from_a_valid_traceparent(value, found):
    assert trace_id(ended(traceparent=value)) == found


def test_there_is_no_trace_without_a_traceparent():
    assert trace_id(ended()) is None
