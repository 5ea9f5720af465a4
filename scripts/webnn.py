"""Generates the table of WebNN's operators beside those of DirectML."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from opwire.schema import CATALOG

from .markdown import table

ROWS: list[Mapping[str, Any]] = json.loads(Path(__file__).with_name("webnn.json").read_text(encoding="utf-8"))


def webnn() -> str:
    """Returns a row for each group of WebNN's operators."""
    return table(["WebNN", "DirectML", "from", "how"], map(_row, ROWS))


def _row(row: Mapping[str, Any]) -> list[str]:
    kinds = [CATALOG[name] for name in row["directml"]]
    links = (f"[{kind.name}](operators/{kind.family}.md#{kind.name.lower()})" for kind in kinds)
    first = max(kind.introduced for kind in kinds).short
    return [", ".join(f"`{name}`" for name in row["webnn"]), ", ".join(links), first, row["how"]]


REGIONS: dict[str, Callable[[], str]] = {"webnn": webnn}
"""Generators of page regions, by name."""
