"""Compares models for the ``diff`` command, and shows and writes what is found."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from opwire.difference import Differences, NodeDifference, Tolerance, Verdict, diff
from opwire.difference.reports import to_html, to_junit, wording
from opwire.errors import ProblemCode, RequestError

from . import render
from .reporting import print_json

if TYPE_CHECKING:
    from rich.table import Table

_SHOWN = 20
"""The nodes that are shown if not all are."""


def compare(model: Path, against: str | None, *given: Any, **options: Any) -> Differences:
    """Returns what ``opwire.diff`` finds.

    Raises:
        RequestError: the model or the side cannot be used, or a package is missing.
        OSError: a file cannot be read.
    """
    try:
        return diff(model, against, *given, **options)
    except ImportError as error:
        raise RequestError(ProblemCode.INVALID_MODEL, str(error)) from None


def tolerance(ulp: float | None, rtol: float | None, atol: float | None) -> Tolerance | None:
    """Returns what is allowed in place of the verdicts; None if nothing is."""
    return None if ulp is rtol is atol is None else Tolerance(ulp, rtol, atol)


def write_reports(found: Differences, *, junit: Path | None, html: Path | None) -> None:
    """Writes the reports that are wanted.

    Raises:
        OSError: a file cannot be written.
    """
    if junit is not None:
        junit.write_text(to_junit(found), encoding="utf-8")
    if html is not None:
        html.write_text(to_html(found), encoding="utf-8")


def show(found: Differences, *, show_all: bool, as_json: bool) -> None:
    """Prints what was found, as a table or as JSON."""
    if as_json:
        print_json(found.to_json())
        return
    nodes = _nodes(found, show_all=show_all)
    render.print_table(_growth_table(found, nodes) if found.cumulative else _severity_table(nodes))
    if len(nodes) < len(found.nodes):
        typer.echo(f"--all shows the other {len(found.nodes) - len(nodes)} nodes, which are not worse")
    render.print_lines(wording.summary_lines(found))


def _nodes(found: Differences, *, show_all: bool) -> list[NodeDifference]:
    """Returns the nodes to show: the worst first or, where errors grow from one to the next, in the model's order."""
    shown = found.by_severity if show_all else found.by_severity[:_SHOWN]
    return [node for node in found.nodes if node in shown] if found.cumulative else shown


def _severity_table(nodes: list[NodeDifference]) -> Table:
    table = render.empty_table("node", "operator", "verdict", "ULP", "rounded correctly", "worst element")
    for node in nodes:
        share = math.nan if node.worst_tensor is None else node.worst_tensor.correctly_rounded
        cells = (wording.verdict_text(node), wording.ulp_text(node.largest_ulp), wording.percent(share))
        table.add_row(wording.title(node), node.operator, *cells, wording.describe_worst(node), style=_style(node))
    return table


def _growth_table(found: Differences, nodes: list[NodeDifference]) -> Table:
    """Returns a table of the errors that come into each node and leave it, as multiples of each other."""
    table = render.empty_table("node", "operator", "verdict", "ULP in", "ULP out", "growth", "worst element")
    errors = {tensor.name: tensor.largest_ulp for node in found.nodes for tensor in node.tensors}
    for node in nodes:
        known = [errors[name] for name in node.inputs if not math.isnan(errors.get(name, math.nan))]
        before, after = max(known, default=0), node.largest_ulp
        growth = f"{after / before:.3g}" if before and math.isfinite(before) and math.isfinite(after) else ""
        cells = (wording.verdict_text(node), wording.ulp_text(before), wording.ulp_text(after), growth)
        table.add_row(wording.title(node), node.operator, *cells, wording.describe_worst(node), style=_style(node))
    return table


def _style(node: NodeDifference) -> str | None:
    return {Verdict.WRONG: "bold red", Verdict.REDUCED: "yellow", Verdict.UNKNOWN: "dim"}.get(node.verdict)
