"""The whole schema as one value, for those who read it without opwire."""

from __future__ import annotations

from typing import Any

from ..level import FeatureLevel
from .catalog import CATALOG, PREFIX
from .source import document


def operator_document(name: str) -> dict[str, Any]:
    """What the schema says of an operator type, given by its name without the prefix.

    Raises:
        KeyError: there is no such type.
    """
    row = document("operator_types")["operators"][name]
    return {**row, **document(CATALOG[name].family)["operators"][name]}


def whole_schema() -> dict[str, Any]:
    """The feature levels, enums, structs and operators; what it holds is not to be changed."""
    return {
        "prefix": PREFIX,
        "feature_levels": [level.short for level in FeatureLevel],
        **document("types"),
        "operators": {name: operator_document(name) for name in CATALOG},
    }
