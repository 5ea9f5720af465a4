"""A server under faults and abuse, and under more load than it can carry: whether it keeps its promises."""

from __future__ import annotations

import typer

from . import faults, overload

app = typer.Typer(add_completion=False)
app.command("faults")(faults.main)
app.command("overload")(overload.main)


def main(arguments: list[str]) -> None:
    """Runs one of the soaks."""
    app(arguments, prog_name="python -m benchmarks soak")
