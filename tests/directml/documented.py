"""Facts about operators and enums from DirectML's header and documentation, independent of the schema.

They are written down by hand in ``tests/data/directml.json``, each with its source. ``python -m
tests.directml.documented`` lays the file out after a change: what fits into a line is on one.
"""

from __future__ import annotations

import json
from typing import Any

from tests.support.paths import DATA

FILE = DATA / "directml.json"

FACTS = json.loads(FILE.read_text(encoding="utf-8"))

OPERATORS: dict[str, dict[str, Any]] = {facts["operator"]: facts for facts in FACTS["operators"]}
"""The struct, members, constraints, support rows and fused activations of each operator."""

ENUMS: dict[str, dict[str, Any]] = FACTS["enums"]["enums"]

_WIDTH = 116
"""Length of a line with more than one value."""


def laid_out(value: object, indent: int = 0) -> str:
    """Returns JSON in which a value is on one line if it fits, and its members are on lines of their own otherwise."""
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or not value or len(flat) + indent <= _WIDTH:
        return flat
    if isinstance(value, dict):
        members = [f"{json.dumps(name)}: {laid_out(member, indent + 1)}" for name, member in value.items()]
    else:
        members = [laid_out(member, indent + 1) for member in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    inner = ",\n".join(" " * (indent + 1) + member for member in members)
    return f"{opening}\n{inner}\n{' ' * indent}{closing}"


if __name__ == "__main__":
    FILE.write_text(laid_out(FACTS) + "\n", encoding="utf-8")
