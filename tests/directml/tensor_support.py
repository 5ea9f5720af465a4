"""The documented tensor support, read from ``data/support.json`` rather than the declarations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.directml.documented import OPERATORS
from tests.support.paths import DATA

FACTS: dict[str, Any] = json.loads((DATA / "support.json").read_text(encoding="utf-8")) | {
    "operators": {name: [facts["enum_value"], facts["introduced"]] for name, facts in OPERATORS.items()}
}

LEVELS: list[str] = list(FACTS["levels"])
"""All feature levels, lowest first, written as ``4_1``."""

COUNT = len(FACTS["operators"])
"""The number of operator types."""


def introduced_by(level: str) -> int:
    """Returns the number of operator types at a level."""
    known = LEVELS[: LEVELS.index(level) + 1]
    return sum(since in known for _, since in FACTS["operators"].values())


@dataclass(frozen=True)
class Documented:
    """What a tensor may be at a level."""

    data_types: frozenset[str]
    ranks: range


@dataclass(frozen=True)
class Support:
    """The support of an operator, or of one of its functions.

    Attributes:
        operator: Name of the operator.
        function: Function of REDUCE, otherwise None.
        rows: Tensors by name, by the level from which they apply.
    """

    operator: str
    function: str | None
    rows: Mapping[str, Mapping[str, Documented]]

    def at(self, level: str) -> Mapping[str, Documented] | None:
        """Returns what applies at a level, or None below the first row."""
        held = [name for name in LEVELS[: LEVELS.index(level) + 1] if name in self.rows]
        return self.rows[held[-1]] if held else None

    def lowest(self, tensors: Mapping[str, tuple[str, int]]) -> str | None:
        """Returns the lowest level that takes the data type and rank of each given tensor."""
        for level in LEVELS:
            row = self.at(level)
            if row is not None and all(
                data_type in row[name].data_types and rank in row[name].ranks
                for name, (data_type, rank) in tensors.items()
            ):
                return level
        return None

    def __str__(self) -> str:
        return self.operator if self.function is None else f"{self.operator}-{self.function}"


def _read() -> Iterator[Support]:
    for title, rows in FACTS["support"].items():
        operator, *functions = title.split()
        documented = {
            level: {
                name: Documented(
                    frozenset(FACTS["types"][short] for short in types.split()), range(ranks[0], ranks[1] + 1)
                )
                for name, (ranks, types) in tensors.items()
            }
            for level, tensors in rows.items()
        }
        for function in functions or [None]:
            yield Support(operator, function, documented)


SUPPORT = list(_read())
