"""The command line of the benchmark."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console

from opwire_service.devices import DEVICES

from . import report, wrk
from .cases import CASES, Case
from .contender import Contender, Form
from .load import Measure, measure_with_python
from .peers import CONTENDERS
from .process import Server, ServerFailed, running
from .report import Found
from .rounds import Plan, check, measure
from .venvs import Installed, NotInstalled, cache_folder, install

T = TypeVar("T")

_WIDTH = 160


def _choose(given: str, known: Mapping[str, T], option: str) -> list[T]:
    """Returns the entries of a table that a comma-separated list selects, in table order."""
    names = list(known) if given == "all" else given.split(",")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise typer.BadParameter(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}", param_hint=option)
    return [value for name, value in known.items() if name in names]


def _generator(given: str) -> tuple[str, Measure]:
    if given == "auto":
        given = "python" if wrk.PROGRAM is None else "wrk"
    if given == "wrk" and wrk.PROGRAM is None:
        raise typer.BadParameter("wrk is not installed (Debian, Ubuntu: apt install wrk)", param_hint="--load")
    found: dict[str, Measure] = {"wrk": wrk.measure, "python": measure_with_python}
    return given, _choose(given, found, "--load")[0]


def main(
    peers: Annotated[str, typer.Option(help=f"Servers: all, or a list of {','.join(CONTENDERS)}.")] = "all",
    shapes: Annotated[str, typer.Option(help=f"Tensors: all, or a list of {','.join(CASES)}.")] = "all",
    connections: Annotated[str, typer.Option(help="Numbers of connections, such as 1,8; default: by tensor.")] = "",
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds of load per server and round.")] = 5,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds per row.")] = 3,
    device: Annotated[str, typer.Option(help="opwire's device; auto prefers cpu.")] = "auto",
    load: Annotated[str, typer.Option(help="Load generator: auto, wrk or python.")] = "auto",
    cache: Annotated[Path | None, typer.Option(help="Cache folder for the servers' environments.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the results to this JSON file.")] = None,
    plot_file: Annotated[Path | None, typer.Option("--plot", help="Plot the ratios to the floor.")] = None,
    check_only: Annotated[bool, typer.Option("--check-only", help="Only check one answer of each form.")] = False,
) -> None:
    """Measure opwire and other servers under the same load, each relative to a bare ASGI floor in the same round."""
    console = Console(width=None if sys.stdout.isatty() else _WIDTH, highlight=False)
    chosen = _choose(peers, CONTENDERS, "--peers")
    cases = _choose(shapes, CASES, "--shapes")
    if connections:
        counts = tuple(int(number) for number in connections.split(","))
        cases = [replace(case, connections=counts) for case in cases]
    if device == "auto":
        device = "cpu" if "cpu" in DEVICES else next(iter(DEVICES))
    name, generate = _generator(load)
    plan = Plan(generate, seconds, rounds, lambda words: console.print(f"... {words}", style="dim"))
    session = _Session(cases, plan, Found(name, seconds, rounds, device), console)
    session.install(chosen, cache or cache_folder())
    session.run(check_only)
    found = session.found
    for case in cases:
        if found.rows:
            console.print(report.table(case, found.rows))
    for line in report.notes(found):
        console.print(line)
    if json_file is not None:
        found.write(json_file)
    if plot_file is not None and found.rows:
        report.plot(found.rows, plot_file)
    raise typer.Exit(1 if report.OURS in found.missing else 0)


class _Session:
    """A run over the selected contenders."""

    def __init__(self, cases: Sequence[Case], plan: Plan, found: Found, console: Console) -> None:
        self.found = found
        self._cases = cases
        self._plan = plan
        self._console = console
        self._installed: list[tuple[Contender, Installed]] = []

    def install(self, contenders: Sequence[Contender], folder: Path) -> None:
        """Creates missing environments; records and skips contenders that do not install."""
        for contender in contenders:
            try:
                installed = install(contender.name, contender.requirements, folder)
            except NotInstalled as reason:
                self._leave_out(contender, f"installation failed: {reason}")
                continue
            if installed.seconds is not None:
                self.found.installs[contender.name] = round(installed.seconds, 1)
                self._plan.say(f"{contender.title}: installed in {installed.seconds:.0f} s")
            self.found.versions[contender.title] = f"{contender.package} {installed.version(contender.package)}"
            self.found.settings[contender.title] = contender.settings
            self._installed.append((contender, installed))

    def run(self, check_only: bool) -> None:
        """Checks and then measures each contender, with a floor beside it; or only checks them."""
        floor = CONTENDERS["floor"]
        environment = install(floor.name, floor.requirements, Path())
        with self._running(floor, environment, floor.forms[0]) as beside:
            for contender, installed in self._installed:
                try:
                    self._check(contender, installed)
                    for form in () if check_only else contender.forms:
                        with self._running(contender, installed, form) as server:
                            self._measure(contender, form, server, beside)
                except (ServerFailed, ValueError, OSError) as reason:
                    self._leave_out(contender, str(reason))

    def _check(self, contender: Contender, installed: Installed) -> None:
        """Checks all forms. This also fills on-disk caches, such as those of compiled kernels."""
        with self._running(contender, installed, contender.forms[0]) as server:
            for form in contender.forms:
                for case in self._cases:
                    if case.name in form.cases:
                        check(server, form, case)
                        self._plan.say(f"{contender.title}, {form.name}: {list(case.sizes)} answered correctly")

    def _measure(self, contender: Contender, form: Form, server: Server, floor: Server) -> None:
        cases = [case for case in self._cases if case.name in form.cases]
        for row in measure(contender, form, server, floor, cases, self._plan):
            self.found.rows.append(row)
            self._plan.say(f"    {row.rate:,.1f} requests/s, {row.of_floor:.3f} of the floor")

    def _running(self, contender: Contender, installed: Installed, form: Form) -> AbstractContextManager[Server]:
        return running(contender, installed, self.found.device, form.request(CASES["small"]))

    def _leave_out(self, contender: Contender, reason: str) -> None:
        self.found.missing[contender.name] = reason
        self._plan.say(f"{contender.title}: {reason}")
