"""The whole schema as one value, for use without opwire."""

from __future__ import annotations

from typing import Any

from ..level import FeatureLevel
from .catalog import CATALOG, PREFIX
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


def whole_schema() -> dict[str, Any]:
    """Returns the feature levels, enums, structs and operators. The contents must not be modified."""
    return {
        "prefix": PREFIX,
        "feature_levels": [level.short for level in FeatureLevel],
        **document("types"),
        "operators": {name: operator_document(name) for name in CATALOG},
    }
