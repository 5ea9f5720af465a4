"""The API key file, and the trace context of requests."""

from __future__ import annotations

import os

import pytest

from opwire_service.http.security.api_keys import ApiKeys
from opwire_service.telemetry.access_log import trace_id
from opwire_service.telemetry.requests import Ended
from tests.support.commands import opwire

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


def test_a_line_may_have_a_hash_instead_of_a_key(tmp_path):
    """The hash is that of ``printf secret | sha256sum``."""
    digest = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
    file = tmp_path / "keys"
    file.write_text(f"alice:$sha256${digest}\nbob:plain\n$sha256${'0' * 64}\n")
    keys = ApiKeys.read(file)
    assert len(keys) == 3
    assert keys.owner(b"secret") == "alice"
    assert keys.owner(b"plain") == "bob"
    for wrong in (digest, f"$sha256${digest}", "0" * 64):
        assert keys.owner(wrong.encode()) is None


def test_a_made_key_is_accepted_and_not_in_the_file(tmp_path):
    file = tmp_path / "keys"
    made = [opwire("key", name) for name in ("alice", "bob")]
    file.write_text("".join(done.stdout for done in made))
    keys = ApiKeys.read(file)
    for done, name in zip(made, ("alice", "bob"), strict=True):
        key = done.stderr.split()[-1]
        assert len(key) == 43
        assert keys.owner(key.encode()) == name
        assert key not in file.read_text()


def test_a_key_of_ones_own_is_hashed(tmp_path):
    file = tmp_path / "keys"
    done = opwire("key", "alice", "--own", stdin="correct-horse-battery-staple\n")
    assert "correct" not in done.stdout + done.stderr
    file.write_text(done.stdout)
    assert ApiKeys.read(file).owner(b"correct-horse-battery-staple") == "alice"


@pytest.mark.parametrize(
    ("arguments", "given", "said"),
    [
        (["alice", "--own"], "short", "5 characters given; expected at least 20"),
        (["alice", "--own"], "", "keys may use"),
        (["alice", "--own"], "two words that are long enough", "keys may use"),
        (["a:b"], "", "'a:b' given; expected 1 to 64 of"),
        (["a" * 65], "", "expected 1 to 64 of"),
    ],
)
def test_what_is_no_key_or_name_is_refused(arguments, given, said):
    done = opwire("key", *arguments, stdin=given)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "",
        "#only\n",
        "two words\n",
        "a:b:c\n",
        ":qqq\n",
        "zzz:\n",
        "k=y\n",
        "a:$sha256$12\n",
        "a:$sha512$1\n",
        f"$sha256${'G' * 64}\n",
        '"quoted"\n',
        "é\n",
    ],
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
