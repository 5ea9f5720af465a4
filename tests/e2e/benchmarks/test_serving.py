"""The server benchmark: that it runs, what it verifies, and how it computes its results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from benchmarks.pictures import plotted
from benchmarks.processes import ServerFailed
from benchmarks.report import Row
from benchmarks.serving import report, wrk
from benchmarks.serving.cases import CASES
from benchmarks.serving.contender import Contender, Request
from benchmarks.serving.installing import NotInstalled, install, post, serving, version
from benchmarks.serving.peers import CONTENDERS
from benchmarks.serving.rounds import Plan, rows
from benchmarks.serving.wrk import Measured
from tests.support.paths import ROOT

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="it watches servers through /proc")

needs_wrk = pytest.mark.skipif(wrk.PROGRAM is None, reason="wrk is not installed")

SMALL = CASES["small"]
HERE = Path(sys.executable)


def run(*arguments: object, timeout: float = 150) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", "serving", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False)


@needs_wrk
@pytest.mark.serial
@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_a_quick_run_writes_its_results(tmp_path):
    given = ["--peers", "floor,fastapi,opwire", "--shapes", "small", "--connections", "2", "--device", "reference"]
    files = ["--json", tmp_path / "found.json", "--picture", tmp_path / "found.png"]
    done = run(*given, *files, "--seconds", "0.2", "--rounds", "1")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["conditions"]["missing"] == {}
    measured = {(row["contender"], row["form"]): row for row in found["rows"]}
    chosen = [CONTENDERS[name] for name in ("floor", "fastapi", "opwire")]
    assert set(measured) == {(contender.name, form.name) for contender in chosen for form in contender.forms}
    for row in measured.values():
        assert row["errors"] == 0
        assert row["rate"] > 0
        assert row["of_floor"] == pytest.approx(row["rate"] / row["floor_rate"])
        assert 0 < row["p50"] <= row["p99"]
    assert measured["opwire", "base64"]["lead"] is None
    assert measured["fastapi", "base64, def"]["lead"] > 0
    assert (tmp_path / "found.png").stat().st_size > 1000
    assert "ARGMAX along axis 1 of float32 [3, 3], 36 bytes" in done.stdout


def test_unknown_names_are_refused():
    done = run("--peers", "floor,nginx", "--check-only")
    assert done.returncode == 2
    assert "nginx" in done.stderr


def test_cases_know_their_correct_answers():
    x = SMALL.tensor
    assert [max(range(3), key=lambda j: float(x[i, j])) for i in range(3)] == SMALL.winners.tolist()
    SMALL.check(SMALL.winners.astype(np.int64).reshape(1, 3))
    with pytest.raises(ValueError, match="wrong answer"):
        SMALL.check((SMALL.winners + 1) % 3)
    with pytest.raises(ValueError, match="wrong answer"):
        SMALL.check(np.zeros(0))


# --- servers


def server(tmp_path: Path, program: str) -> Contender:
    script = tmp_path / "server.py"
    script.write_text(program)
    return replace(CONTENDERS["floor"], start=("{python}", str(script), "{port}"))


WRONG = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"wrong")
HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_a_wrong_answer_is_not_measured(tmp_path):
    contender = server(tmp_path, WRONG)
    loads: list[str] = []

    def load(url: str, *_: object) -> Measured:
        loads.append(url)
        return Measured(1, 0, 1.0, 1.0, 1.0, 1.0)

    with serving(contender, HERE, "", contender.forms[0]) as started, pytest.raises(ValueError, match="wrong answer"):
        list(rows(contender, contender.forms[0], started, started, [SMALL], Plan(1, 1, loads.append, load)))
    assert loads == []


def test_the_output_of_a_server_that_exits_is_reported(tmp_path):
    contender = server(tmp_path, "raise SystemExit('no licence')")
    with pytest.raises(ServerFailed, match="no licence"), serving(contender, HERE, "", contender.forms[0]):
        pass


def alive(process: Path) -> bool:
    """Whether a process runs; a zombie has no command line."""
    try:
        return (process / "cmdline").read_bytes() != b""
    except OSError:
        return False


def test_all_processes_of_a_server_are_measured_and_ended(tmp_path):
    memory = "x = bytearray(b'1') * 50_000_000; import time; time.sleep(600)"
    child = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {memory!r}], start_new_session=True)\n"
    contender = server(tmp_path, child + WRONG)
    with serving(contender, HERE, "", contender.forms[0]) as started:
        processes = [Path(f"/proc/{process}") for process in started.ids()]
        assert len(processes) == 2
        assert started.cpu_seconds() > 0
        started.reset_peak()
        assert started.memory("VmHWM") >= started.memory("VmRSS") * 0.9
    assert list(started.ids()) == []
    assert not any(alive(process) for process in processes)


# --- environments


@pytest.mark.skipif(find_spec("pip") is None, reason="there is no pip")
@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_environments_are_installed_once(tmp_path):
    wheel = tmp_path / "tiny_peer-1.5-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        info = "tiny_peer-1.5.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-peer\nVersion: 1.5\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    made = install("tiny", [str(wheel)], tmp_path / "cache")
    assert version(made, "tiny-peer") == "1.5"
    created = made.lstat().st_mtime_ns
    assert install("tiny", [str(wheel)], tmp_path / "cache") == made
    assert made.lstat().st_mtime_ns == created
    with pytest.raises(NotInstalled, match="absent"):
        install("tiny", [str(tmp_path / "absent-1.0-py3-none-any.whl")], tmp_path / "cache")


def test_contenders_without_requirements_share_this_environment(tmp_path):
    assert install("floor", (), tmp_path) == HERE
    assert os.listdir(tmp_path) == []


# --- load


@needs_wrk
def test_wrk_varies_the_number_in_each_request(tmp_path):
    numbers = tmp_path / "numbers"
    reads = 'self.rfile.read(int(self.headers["Content-Length"]))'
    contender = server(tmp_path, WRONG.replace(reads, f"open({str(numbers)!r}, 'ab').write({reads} + b'\\n')"))
    request = Request("/x", {"X-One": "1"}, (b"<", b">tail"), range(10, 17, 2))
    with serving(contender, HERE, "", contender.forms[0]) as started:
        post(started, request)
        sent = len(numbers.read_text().splitlines())
        found = wrk.measure(started.url, request, 1, 0.5, 5)
    lines = numbers.read_text().splitlines()[sent:]
    assert found.errors == 0
    assert found.answers <= len(lines)
    texts = [f"<{number}>tail" for number in (10, 12, 14, 16)]
    start = texts.index(lines[0])  # wrk may have generated a request before the first one that it sends
    assert lines == [texts[(start + i) % 4] for i in range(len(lines))]
    assert 0 < found.p50 <= found.p99 < found.seconds


# --- report


def row(contender: str, form: str, of_floor: float, encoding: str = "base64") -> Row:
    named = {"contender": contender, "title": contender, "form": form, "encoding": encoding, "case": "small"}
    return {**named, "connections": 8, "of_floor": of_floor}


def test_the_lead_compares_best_forms_of_the_same_encoding():
    found = [
        row("opwire", "base64", 0.4),
        row("opwire", "base64, new desc", 0.2),
        row("opwire", "binary tail", 0.5, "binary"),
        row("peer", "base64", 0.1),
        row("peer", "raw", 0.1, "binary"),
    ]
    assert [report.lead(one, found) for one in found[3:]] == [pytest.approx(4.0), pytest.approx(5.0)]
    assert str(report.lead(found[0], found)) == "nan"
    assert str(report.lead(found[3], found[3:])) == "nan"


def test_bars_are_medians_in_ascending_order():
    found = [row("a", "x", 0.1), row("a", "x", 0.3), row("a", "x", 0.2), row("b", "y", 0.15)]
    assert plotted(found, "small") == [("b, y", 0.15), ("a, x", 0.2)]
