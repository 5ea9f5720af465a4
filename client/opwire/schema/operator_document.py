"""The schema of an operator type as JSON."""

from __future__ import annotations

from typing import Any

from .catalog import CATALOG
from .decisions import decision_rows
from .source import document


def operator_document(name: str) -> dict[str, Any]:
    """Returns the schema of an operator type as JSON, given by its name without the prefix.

    Raises:
        KeyError: there is no such type.
    """
    row = document("operator_types")["operators"][name]
    found = document(CATALOG[name].family)["operators"][name]
    decisions = decision_rows(name)
    return {**row, **found, "decisions": decisions} if decisions else {**row, **found}
