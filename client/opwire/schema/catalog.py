"""Every operator type of DirectML: its name, value, first feature level and family.

Source: ``DML_OPERATOR_TYPE`` in directml.h (target 0x6400) and the feature level history.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from ..level import FeatureLevel
from .source import document

PREFIX = "DML_OPERATOR_"


@dataclass(frozen=True, slots=True)
class OperatorType:
    """A member of ``DML_OPERATOR_TYPE``. ``name`` is without the prefix; ``family`` is the file with its schema."""

    name: str
    value: int
    introduced: FeatureLevel
    family: str

    @property
    def first(self) -> str:
        """The name of the type that this one revises: LP_POOLING for LP_POOLING1; its own name if it revises none."""
        return self.name.rstrip("0123456789")


def _read() -> dict[str, OperatorType]:
    rows = document("operator_types")["operators"]
    return {
        name: OperatorType(name, row["value"], FeatureLevel.parse(row["introduced"]), row["family"])
        for name, row in rows.items()
    }


CATALOG = _read()
"""All operator types by name, in the order of their values."""

_BY_VALUE = {row.value: row for row in CATALOG.values()}

_ALIASES = {
    alias: name for name, row in document("operator_types")["operators"].items() for alias in row.get("aliases", ())
}


_MAX_COMPARED = 100
"""Number of characters of an unknown name that are compared with the known ones."""


def _normalized(name: str) -> str:
    return name.replace("_", "").replace(" ", "").upper()


def _endings() -> Iterator[tuple[str, str]]:
    """Yields each suffix of a name, by words, with the name."""
    for name in CATALOG:
        words = name.split("_")
        for i in range(len(words)):
            yield "".join(words[i:]), name


_ENDINGS = sorted(_endings(), key=lambda pair: (len(pair[0]), len(pair[1])))


def hint(given: object) -> str:
    """Returns a suggestion to append to a message about an unknown operator type, such as RELU or MaxPool."""
    word = _normalized(given[:_MAX_COMPARED].removeprefix(PREFIX)) if isinstance(given, str) else ""
    if not word:
        return ""
    begun = (name for ending, name in _ENDINGS if ending.startswith(word))
    longer = (name for ending, name in reversed(_ENDINGS) if word.startswith(ending) and ending == _normalized(name))
    near = next(begun, None) or next(longer, None)
    return "" if near is None else f"; did you mean {near}?"


def nearest_first(given: object) -> list[str]:
    """Returns the names of all operator types; those most like an unknown one come first."""
    word = _normalized(given[:_MAX_COMPARED].removeprefix(PREFIX)) if isinstance(given, str) else ""
    near = [name for ending, name in _ENDINGS if word and ending.startswith(word)]
    return list(dict.fromkeys((*near, *get_close_matches(word, CATALOG, n=5, cutoff=0.5), *CATALOG)))


def find(given: object) -> OperatorType | None:
    """Returns the operator type written as ``DML_OPERATOR_ARGMAX``, ``ARGMAX`` or 138, or None if there is none."""
    if isinstance(given, int) and not isinstance(given, bool):
        return _BY_VALUE.get(given)
    if not isinstance(given, str):
        return None
    name = given.removeprefix(PREFIX)
    return CATALOG.get(_ALIASES.get(name, name))
