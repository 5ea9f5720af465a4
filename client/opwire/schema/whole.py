"""The whole schema as one value, for use without opwire."""

from __future__ import annotations

from typing import Any

from ..level import FeatureLevel
from .catalog import CATALOG, PREFIX
from .source import document


def operator_document(name: str) -> dict[str, Any]:
    """Returns the schema of an operator type as JSON, given by its name without the prefix.

    Raises:
        KeyError: there is no such type.
    """
    row = document("operator_types")["operators"][name]
    return {**row, **document(CATALOG[name].family)["operators"][name]}


def whole_schema() -> dict[str, Any]:
    """Returns the feature levels, enums, structs and operators. The contents must not be modified."""
    return {
        "prefix": PREFIX,
        "feature_levels": [level.short for level in FeatureLevel],
        **document("types"),
        "operators": {name: operator_document(name) for name in CATALOG},
    }
