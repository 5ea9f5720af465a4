"""What opwire does where DirectML's documentation is silent, contradicts itself, or says what DirectML does not do."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple

from .catalog import CATALOG
from .source import document


class Ground(StrEnum):
    """What a decision rests on, the strongest first."""

    OBSERVED = "observed"
    PAGE = "page"
    OURS = "ours"


class Departure(StrEnum):
    """Why opwire's results are not those of DirectML: it approximates them, or leaves them undefined."""

    ACCURACY = "accuracy"
    UNDEFINED = "undefined"


class Decision(NamedTuple):
    """One thing that opwire does.

    Attributes:
        what: what opwire does.
        ground: what it rests on: DirectML's own results, its documentation, or nothing but opwire.
        page: what the documentation says instead, or None.
        directml: what DirectML does instead, or None.
        departure: why opwire does not do the same, or None if it does.
    """

    what: str
    ground: Ground
    page: str | None
    directml: str | None
    departure: Departure | None


@cache
def decisions_of(name: str) -> tuple[Decision, ...]:
    """Returns the decisions on an operator type, given by its name without the prefix."""
    return tuple(map(_decision, decision_rows(name)))


def decision_rows(name: str) -> list[dict[str, Any]]:
    """Returns the decisions on an operator type as JSON: those of its family that name it, or no operator at all."""
    rows = document(CATALOG[name].family).get("decisions", ())
    return [{key: row[key] for key in row if key != "of"} for row in rows if name in row.get("of", (name,))]


def _decision(row: dict[str, Any]) -> Decision:
    departure = row.get("class")
    return Decision(
        row["what"],
        Ground(row["ground"]),
        row.get("page"),
        row.get("directml"),
        None if departure is None else Departure(departure),
    )
