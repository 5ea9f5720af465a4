"""Load generation with wrk, an HTTP benchmarking tool (the Debian and Ubuntu package ``wrk``)."""

from __future__ import annotations

import math
import shutil
import subprocess
import tempfile
from pathlib import Path

from .contender import Request
from .load import Measured

PROGRAM = shutil.which("wrk")

_MARK = "measured"

_KINDS = ("connect", "read", "write", "status", "timeout")
"""Kinds of errors, in the order in which the script prints their counts."""

_SCRIPT = """
local function read(name)
  local file = io.open("{folder}/" .. name, "rb")
  local text = file:read("*a")
  file:close()
  return text
end

wrk.method = "POST"
wrk.path = "{path}"
{headers}
wrk.body = read("body")
{counter}

function done(summary, latency)
  local errors = summary.errors
  local kinds = {{errors.connect, errors.read, errors.write, errors.status, errors.timeout}}
  local answers = summary.requests - errors.status
  local times = string.format("%f %f %f", latency.mean, latency:percentile(50), latency:percentile(99))
  io.write(string.format("{mark} %d %s %f %s\\n", answers, table.concat(kinds, " "), summary.duration, times))
end
"""

# The request is formatted once; afterwards only its digits change.
_COUNTER = """
local before, after
local number = {first} - {step}

function init()
  local text = wrk.format()
  local at = #text - {behind}
  before = text:sub(1, at - {digits})
  after = text:sub(at + 1)
end

function request()
  number = number + {step}
  if number > {last} then number = {first} end
  return before .. number .. after
end
"""


def measure(url: str, request: Request, connections: int, seconds: float, timeout: int) -> Measured:
    """Loads a server with one thread of wrk, which only supports whole seconds.

    Raises:
        OSError: wrk failed.
    """
    whole = math.ceil(seconds)
    with tempfile.TemporaryDirectory(prefix="opwire-wrk-") as made:
        folder = Path(made)
        (folder / "body").write_bytes(request.content())
        script = folder / "script.lua"
        script.write_text(_write_script(folder, request))
        command = [
            PROGRAM or "wrk", "--threads", "1", "--connections", str(connections), "--duration", f"{whole}s",
            "--timeout", f"{timeout}s", "--script", str(script), url + request.path,
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=whole + timeout + 60)
    lines = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if done.returncode or len(lines) != 1:
        raise OSError(f"wrk: {done.stderr.strip() or done.stdout.strip()}")
    answers, *counts = map(int, lines[0][: 1 + len(_KINDS)])
    seconds, mean, p50, p99 = (float(text) / 1e6 for text in lines[0][1 + len(_KINDS) :])
    kinds = {kind: count for kind, count in zip(_KINDS, counts, strict=True) if count}
    return Measured(answers, sum(counts), seconds, mean, p50, p99, kinds)


def _write_script(folder: Path, request: Request) -> str:
    headers = "\n".join(f'wrk.headers["{name}"] = "{value}"' for name, value in request.headers.items())
    counter = ""
    if request.counter is not None:
        numbers = request.counter
        counter = _COUNTER.format(
            first=numbers.first,
            last=numbers.last,
            step=numbers.step,
            behind=len(request.body[1]),
            digits=len(str(numbers.first)),
        )
    return _SCRIPT.format(mark=_MARK, folder=folder, path=request.path, headers=headers, counter=counter)
