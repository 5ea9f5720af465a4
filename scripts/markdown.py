"""Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a table. Columns whose title starts with ``>`` are right-aligned."""
    rules = ["---:" if column.startswith(">") else "---" for column in columns]
    lines = [_line(column.removeprefix(">") for column in columns), "|" + "|".join(rules) + "|"]
    return "\n".join([*lines, *(_line(row) for row in rows)])


def _line(cells: Iterable[object]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
