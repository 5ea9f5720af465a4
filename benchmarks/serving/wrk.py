"""Load generation with wrk, an HTTP benchmarking tool (the Debian and Ubuntu package ``wrk``)."""

from __future__ import annotations

import math
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from .contender import Request

PROGRAM = shutil.which("wrk")

_MARK = "measured"

_FEW = 50
"""Answers per connection."""

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
  local failures = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  local answers = summary.requests - errors.status
  local times = string.format("%f %f %f", latency.mean, latency:percentile(50), latency:percentile(99))
  io.write(string.format("{mark} %d %d %f %s\\n", answers, failures, summary.duration, times))
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


class Measured(NamedTuple):
    """A server's results under load; times in seconds.

    Attributes:
        answers: successful answers.
        errors: other answers, and connection failures.
        seconds: duration of the load.
        mean, p50, p99: from the first byte sent to the last one received.
    """

    answers: int
    errors: int
    seconds: float
    mean: float
    p50: float
    p99: float

    def rate(self, connections: int) -> float:
        """Returns answers per second; if these are few, from their mean time, as requests in flight skew the count."""
        if not self.answers:
            return 0.0
        few = self.answers < _FEW * connections and not self.errors
        return connections / self.mean if few else self.answers / self.seconds


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
    answers, errors, *times = lines[0]
    return Measured(int(answers), int(errors), *(float(text) / 1e6 for text in times))


def _write_script(folder: Path, request: Request) -> str:
    headers = "\n".join(f'wrk.headers["{name}"] = "{value}"' for name, value in request.headers.items())
    counter = ""
    if numbers := request.numbers:
        around = {"behind": len(request.body[1]), "digits": len(str(numbers[0]))}
        counter = _COUNTER.format(first=numbers[0], last=numbers[-1], step=numbers.step, **around)
    return _SCRIPT.format(mark=_MARK, folder=folder, path=request.path, headers=headers, counter=counter)
