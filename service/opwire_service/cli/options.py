"""Options shared by several commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from opwire.level import FeatureLevel


def _level(given: str) -> FeatureLevel:
    try:
        return FeatureLevel.parse(given)
    except ValueError:
        levels = ", ".join(level.short for level in FeatureLevel)
        raise typer.BadParameter(f"{given!r} is not a feature level; allowed: {levels}") from None


def completing(*words: str) -> Callable[[str], list[str]]:
    """Returns what completes one of these words in a shell."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


LevelOption = Annotated[
    FeatureLevel | None,
    typer.Option(
        "--level",
        parser=_level,
        autocompletion=completing(*(level.short for level in FeatureLevel)),
        metavar="LEVEL",
        help="Feature level, such as 2_1. [default: the highest]",
    ),
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Treat what the documentation forbids as wrong even if DirectML accepts it.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ApiKeyOption = Annotated[
    str | None, typer.Option(envvar="OPWIRE_API_KEY", show_envvar=False, help="API key. [env: OPWIRE_API_KEY]")
]
