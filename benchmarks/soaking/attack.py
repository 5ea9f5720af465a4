"""A server under attack: other clients must hardly notice, and nothing may be left behind."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer

from .attacks import ATTACKS, Attack, Tally, Target
from .bystander import Bystander, bystander
from .served import Served, served

_MIB = 2**20
_LONGEST_WAIT = 1.0
_BUDGET = 1.2
_LOG_BYTES, _LOG_BYTES_EACH = 16 * 1024, 1000
"""Log bytes allowed per attack, and per request of an attack."""

_QUIET_SECONDS, _QUIET_SECONDS_QUICK = 2.0, 0.5
_SECONDS, _SECONDS_QUICK = 180.0, 90.0
"""Time limit for all attacks together; once it has passed, no further attack starts."""

_RETURNS_WITHIN = 15.0
_GROWTH, _KEPT = 1.1, 64 * _MIB
"""Allowed memory at rest afterwards: this multiple of the memory before, plus what caches may keep."""

_MORE_FILES = 8


@dataclass(frozen=True, slots=True)
class Row:
    """The result of an attack.

    Attributes:
        longest: the longest call of the normal client meanwhile, in seconds.
        calls: number of calls of the normal client.
        peak: peak memory of the server, in bytes.
        log_bytes: bytes that the server logged.
        broken: the broken promises.
    """

    name: str
    tally: Tally
    seconds: float
    longest: float
    calls: int
    peak: int
    log_bytes: int
    broken: list[str]


@dataclass(frozen=True, slots=True)
class _Field:
    """The setting of the attacks.

    Attributes:
        server: the attacked server.
        beside: the normal client.
        most: maximum memory in use, in bytes.
        wait: maximum duration of a normal call, in seconds.
    """

    server: Served
    beside: Bystander
    most: float
    wait: float


def _attack(field: _Field, attack: Attack, target: Target) -> Row:
    server = field.server
    server.reset_peak()
    logged, began = server.log_bytes, time.monotonic()
    try:
        if target.left > 0:
            attack.run(target)
    except OSError as error:
        target.tally.expect(False, f"the attack ended with {error!r}")
    seconds = time.monotonic() - began
    field.beside.wait_past(time.monotonic())
    calls = field.beside.between(began, time.monotonic())
    longest = max((call.ended - call.began for call in calls), default=float("inf"))
    peak, written = server.peak(), server.log_bytes - logged
    broken = list(target.tally.broken)
    if target.tally.more:
        broken.append(f"{target.tally.more} more like these")
    if longest > field.wait:
        broken.append(f"the normal client waited {longest:.1f} s, more than {field.wait:g} s")
    failures = Counter(call.failure for call in calls if call.failure)
    broken += (f"the normal client, {count} times: {failure}" for failure, count in failures.items())
    if peak > field.most:
        broken.append(f"{peak / _MIB:.0f} MiB of memory in use, more than {field.most / _MIB:.0f}")
    if written > _LOG_BYTES + _LOG_BYTES_EACH * target.tally.requests:
        broken.append(f"{written} bytes of log for {target.tally.requests} requests")
    if not server.is_alive:
        broken.append("the server has exited")
    return Row(attack.name, target.tally, seconds, longest, len(calls), peak, written, broken)


def baseline(target: Target) -> None:
    """Lets the normal client run alone."""
    time.sleep(target.left)
    target.tally.sent("200")


_HEADING = (
    f"{'attack':28}{'requests':>9}{'seconds':>8}{'longest wait':>14}{'calls':>7}{'MiB':>7}{'log KiB':>9}  outcomes"
)


def _say(row: Row) -> None:
    numbers = f"{row.tally.requests:>9}{row.seconds:>8.1f}{row.longest:>12.2f} s{row.calls:>7}{row.peak / _MIB:>7.0f}"
    outcomes = ", ".join(f"{outcome}: {count}" for outcome, count in row.tally.outcomes.most_common())
    verdict = "FAILED" if row.broken else "ok"
    typer.echo(f"{row.name:28}{numbers}{row.log_bytes / 1024:>9.0f}  {outcomes}; {verdict}")
    for line in row.broken:
        typer.echo(f"    broken: {line}"[:400])


def _left_behind(server: Served, resident: int, files: int, most: float) -> Iterator[str]:
    """Yields differences from the state before the attacks, given the allowed memory at rest."""
    gauges = server.settled(_RETURNS_WITHIN)
    yield from (f"{name} is {value:g}" for name, value in gauges.items() if value)
    ends = time.monotonic() + _RETURNS_WITHIN
    while (server.resident() > most or server.open_files() > files + _MORE_FILES) and time.monotonic() < ends:
        time.sleep(0.5)
    now, open_files = server.resident(), server.open_files()
    typer.echo(f"at rest: {resident / _MIB:.0f} MiB and {files} files before, {now / _MIB:.0f} and {open_files} after")
    if now > most:
        yield f"{now / _MIB:.0f} MiB in use at rest, more than {most / _MIB:.0f}"
    if open_files > files + _MORE_FILES:
        yield f"{open_files} open files, {files} before"
    if not server.is_ready():
        yield "the server is not ready"
    if server.restarts():
        yield f"{server.restarts():g} worker restarts"
    yield from (f"defect: {line}" for line in server.defects[:20])


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Run for some 20 seconds instead of three minutes.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 1,
    only: Annotated[str, typer.Option(help="Only attacks whose names contain one of these.")] = "",
    seed: Annotated[int, typer.Option(help="Random seed.")] = 14,
    wait: Annotated[float, typer.Option(min=0, help="Maximum seconds of a normal call.")] = _LONGEST_WAIT,
) -> None:
    """Harmful clients, one kind after another, beside a normal one."""
    chosen = [attack for attack in ATTACKS if any(word in attack.name for word in only.split(","))]
    with served("--workers", str(workers)) as server:
        server.wait_complete(workers)
        server.wait_idle()
        with bystander(server.url) as beside:
            resident, files = server.resident_at_rest(1.0, workers), server.open_files()
            most = resident + _BUDGET * server.limits()["memory_bytes"] * workers
            typer.echo(_HEADING)
            rows = []
            left_seconds = _SECONDS_QUICK if quick else _SECONDS
            for attack in (Attack(baseline, _QUIET_SECONDS, _QUIET_SECONDS_QUICK), *chosen):
                seconds = min(attack.quick if quick else attack.seconds, left_seconds)
                target = Target(server.url, quick=quick, seed=seed, seconds=seconds)
                if seconds <= 0:
                    target.tally.expect(False, "not run: earlier attacks took too long")
                rows.append(_attack(_Field(server, beside, most, wait), attack, target))
                left_seconds -= rows[-1].seconds
                _say(rows[-1])
        try:
            # A quick run may just have loaded kernels, which are kept.
            most = math.inf if quick else _GROWTH * resident + _KEPT
            left = list(_left_behind(server, resident, files, most))
        except OSError as error:
            left = [f"the server does not answer: {error!r}"]
    for line in left:
        typer.echo(f"broken: {line}")
    failed = sum(bool(row.broken) for row in rows)
    typer.echo(f"{failed} of {len(rows)} attacks broke a promise" if failed or left else "all promises kept")
    raise typer.Exit(1 if failed or left else 0)
