"""The access log of a server that receives very long requests."""

from __future__ import annotations

import httpx
import pytest

from tests.support.http.processes import process, until

LONG = "x" * 30_000
PATHS = {"ordinary": LONG, "new lines": "%0A" * 10_000, "no ASCII": "%C3%A9" * 5_000}


@pytest.fixture(scope="module")
def keys_file(tmp_path_factory):
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text("alice:secret\n")
    return file


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_long_path_gives_a_short_log_line(keys_file, log_format):
    options = ("--device", "reference", "--log-format", log_format, "--api-keys-file", str(keys_file))
    with process(*options) as served:
        before = len(served.lines)
        for path in PATHS.values():
            for key, status in (("secret", 404), ("wrong", 401)):
                headers = {"authorization": f"Bearer {key}", "traceparent": LONG[:1_000]}
                assert httpx.get(f"{served.url}/{path}", headers=headers).status_code == status
        until(lambda: len(served.lines) >= before + 2 * len(PATHS))
    lines = served.lines[before:]
    assert len(lines) == 2 * len(PATHS)
    assert max(map(len, lines)) < 1200
