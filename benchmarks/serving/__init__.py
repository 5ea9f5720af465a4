"""Measures opwire and other servers under the same load, each relative to a bare ASGI floor in the same round."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from ..processes import ServerFailed
from ..report import Row, show, write
from . import report, wrk
from .cases import CASES
from .contender import Contender
from .installing import NotInstalled, cache_folder, check, install, serving, version
from .peers import CONTENDERS
from .rounds import Plan, rows

T = TypeVar("T")


def _of(known: Mapping[str, T]) -> Callable[[str], list[T]]:
    """Returns what reads a comma-separated list of names, and gives the entries of a table in its order."""

    def read(given: str) -> list[T]:
        names = given.split(",")
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
        return [value for name, value in known.items() if name in names]

    return read


def _numbers(given: str) -> tuple[int, ...]:
    return tuple(map(int, given.split(",")))


def options(parser: argparse.ArgumentParser) -> None:
    every = list(CONTENDERS.values())
    parser.add_argument("--peers", type=_of(CONTENDERS), default=every, help=f"some of {','.join(CONTENDERS)}")
    parser.add_argument("--shapes", type=_of(CASES), default=list(CASES.values()), help=f"some of {','.join(CASES)}")
    parser.add_argument("--connections", type=_numbers, help="numbers of connections, such as 1,8; default: by tensor")
    parser.add_argument("--seconds", type=float, default=5, help="seconds of load per server and round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds per row")
    parser.add_argument("--device", default="cpu", help="opwire's device")
    parser.add_argument("--cache", type=Path, default=cache_folder(), help="folder for the servers' environments")
    parser.add_argument("--check-only", action="store_true", help="only check one answer of each form")


def main(given: argparse.Namespace) -> int:
    """Measures the servers. Returns 1 if opwire could not be measured."""
    if wrk.PROGRAM is None and not given.check_only:
        raise SystemExit("wrk is not installed (Debian, Ubuntu: apt install wrk)")
    if given.quick:
        given.seconds, given.rounds, given.shapes = 1, 1, [CASES["small"]]
        given.peers = [CONTENDERS[name] for name in (report.FLOOR, report.OURS)]
    if given.connections:
        given.shapes = [replace(case, connections=given.connections) for case in given.shapes]
    session = _Session(given)
    session.run()
    for row in session.rows:
        row["lead"] = report.lead(row, session.rows)
    for case in given.shapes if session.rows else ():
        show(report.table(case, session.rows))
    print(*report.notes(session.conditions), sep="\n")
    if given.json:
        write(given.json, "serving", session.conditions, session.rows)
    return 1 if report.OURS in session.conditions["missing"] else 0


class _Session:
    """A run over the selected contenders."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.rows: list[Row] = []
        self.conditions: dict[str, Any] = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": {"cpu": report.cpu_model(), "cores": os.cpu_count(), "python": platform.python_version()},
            "load": "wrk",
            **{name: getattr(given, name) for name in ("seconds", "rounds", "device")},
            **{"versions": {}, "settings": {}, "missing": {}},
            "cases": {name: case.sizes for name, case in CASES.items()},
        }
        self._given = given
        self._plan = Plan(given.seconds, given.rounds, lambda words: print(f"... {words}", flush=True))

    def run(self) -> None:
        """Measures each contender with a floor beside it; leaves out those that fail."""
        floor = CONTENDERS[report.FLOOR]
        with serving(floor, install(floor.name, floor.requirements, Path()), "", floor.forms[0]) as self._floor:
            for contender in self._given.peers:
                try:
                    self._measure(contender, install(contender.name, contender.requirements, self._given.cache))
                except (NotInstalled, ServerFailed, ValueError, OSError) as reason:
                    self.conditions["missing"][contender.name] = str(reason)
                    self._plan.say(f"{contender.title}: {reason}")

    def _measure(self, contender: Contender, python: Path) -> None:
        self.conditions["versions"][contender.title] = f"{contender.package} {version(python, contender.package)}"
        self.conditions["settings"][contender.title] = contender.settings
        cases = {form: [case for case in self._given.shapes if case.name in form.cases] for form in contender.forms}
        # All answers are checked first, which also fills on-disk caches, such as those of compiled kernels.
        with serving(contender, python, self._given.device, contender.forms[0]) as server:
            for form in contender.forms:
                for case in cases[form]:
                    check(server, form, case)
                    self._plan.say(f"{contender.title}, {form.name}: {list(case.sizes)} answered correctly")
        for form in () if self._given.check_only else contender.forms:
            with serving(contender, python, self._given.device, form) as server:
                for row in rows(contender, form, server, self._floor, cases[form], self._plan):
                    self.rows.append(row)
                    self._plan.say(f"    {row['rate']:,.1f} requests/s, {row['of_floor']:.3f} of the floor")
