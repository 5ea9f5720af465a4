"""Many concurrent clients: none of their calls fails, and they get as much done as a few."""

from __future__ import annotations

from typing import Annotated

import typer

from ..serving import wrk
from ..serving.cases import CASES
from . import closed_loop, open_loop
from .flood import Workload
from .served import served


def _closed(shapes: list[str], generators: list[str], plan: closed_loop.Plan, least: dict[str, float]) -> list[str]:
    """Runs the closed loops. Returns the broken promises."""
    failed: list[str] = []
    if shapes:
        typer.echo(closed_loop.heading())
    for shape in shapes:
        with served() as server:
            server.wait_idle()
            for group in closed_loop.groups(shape, generators):
                for row in closed_loop.measure(server, group, plan):
                    typer.echo(closed_loop.line(row))
                    failed += closed_loop.broken(row, least)
            failed += server.defects[:100]
    return failed


def _plan(quick: bool, connections: str, seconds: float, rounds: int) -> closed_loop.Plan:
    numbers = tuple(map(int, connections.split(","))) if connections else closed_loop.CONNECTIONS
    if quick:
        return closed_loop.Plan(numbers if connections else numbers[:2], seconds or 1, 1, rounds or 2)
    return closed_loop.Plan(numbers, seconds or 5, 4, rounds or 3)


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Run for some 90 seconds instead of 20 minutes.")] = False,
    shapes: Annotated[str | None, typer.Option(help="Tensors of the closed loop; quick: small,medium.")] = None,
    by: Annotated[str, typer.Option(help="Load generators: wrk, and threads of one client.")] = "wrk,client",
    connections: Annotated[str, typer.Option(help="Of the closed loop; the first is the baseline.")] = "",
    seconds: Annotated[float, typer.Option(min=0, help="Per turn of the closed loop; 0: 5, quick 1.")] = 0,
    rounds: Annotated[int, typer.Option(min=0, help="Turns per cell; 0: 3, quick 2.")] = 0,
    share: Annotated[float, typer.Option(min=0, help="Minimum share of the baseline, up to 64 of wrk.")] = 0.9,
    client_share: Annotated[float, typer.Option(min=0, help="The same for threads of one client.")] = 0.8,
    loads: Annotated[str | None, typer.Option(help="Of the open loop: work, base64, binary; quick: work.")] = None,
    open_seconds: Annotated[float, typer.Option(min=0, help="Per open load; 0: 60, quick 5.")] = 0,
    warm_up: Annotated[float, typer.Option(min=0, help="Open load before memory is measured, in seconds.")] = 10,
    rows: Annotated[int, typer.Option(min=1, help="Size of a request of the load work, in rows of 1024.")] = 8192,
    goodput: Annotated[float, typer.Option(min=0, help="Minimum at twice the load, relative to the capacity.")] = 0.9,
    growth: Annotated[float, typer.Option(min=1, help="Maximum growth of memory, as a factor.")] = 1.1,
    rest: Annotated[float, typer.Option(min=0, help="Seconds at rest before memory is measured.")] = 6,
) -> None:
    """Closed loops with 4, 64 and 256 connections, and open loops at half and at twice the capacity."""
    generators = _names(by, list(closed_loop.GENERATORS))
    if wrk.PROGRAM is None and "wrk" in generators:
        raise typer.BadParameter("wrk is not installed (Debian, Ubuntu: apt install wrk)", param_hint="--by")
    cases = _names("small,medium" if shapes is None and quick else shapes, list(CASES))
    flows = _names("work" if loads is None and quick else loads, list(Workload))
    plan = _plan(quick, connections, seconds, rounds)
    failed = _closed(cases, generators, plan, {"wrk": share, "client": client_share})
    promises = open_loop.Promises(goodput=goodput, rest=growth)
    times = open_loop.Times(open_seconds or (5 if quick else 60), 2 if quick else warm_up, 2 if quick else rest)
    for name in flows:
        found = open_loop.run(Workload(name), rows, times)
        open_loop.say(Workload(name), found)
        failed += (f"open loop, {name}: {line}" for line in open_loop.broken(found, promises))
    for line in failed:
        typer.echo(f"broken: {line}")
    raise typer.Exit(1 if failed else 0)


def _names(given: str | None, known: list[str]) -> list[str]:
    """Returns the names in a list, or all known ones if there is none."""
    chosen = known if given is None else [name for name in given.split(",") if name]
    if unknown := set(chosen) - set(known):
        raise typer.BadParameter(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    return chosen
