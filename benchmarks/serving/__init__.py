"""Measures opwire and other servers on the same task: a folder of servers, and one module to describe each."""

from __future__ import annotations

import typer

from .command import main as _measure

app = typer.Typer(add_completion=False)
app.command()(_measure)


def main(arguments: list[str]) -> None:
    """Measures the servers."""
    app(arguments, prog_name="python -m benchmarks serving")
