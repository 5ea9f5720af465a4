"""The members of an object in a model file, read with their places; what is wrong goes into the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ..desc import Report, pointer_to, show
from ..operator import Code

SIZE_MAX = 2**63 - 1
"""The greatest size or offset in bytes, as numpy counts them."""


@dataclass(frozen=True, slots=True)
class ModelObject:
    """One object of the model. A member that is null counts as left out; members that nobody asks for are ignored."""

    values: Mapping[str, Any]
    pointer: str
    report: Report

    def at(self, name: str) -> str:
        return pointer_to(self.pointer, name)

    def has(self, name: str) -> bool:
        return self.values.get(name) is not None

    def required(self, name: str) -> bool:
        """Whether a required member is there; reported if it is not."""
        if not self.has(name):
            self.report.add(Code.MISSING_FIELD, self.pointer, f"{name} is required and missing")
        return self.has(name)

    def string(self, name: str) -> str | None:
        """A required string, or None once what is wrong is reported."""
        if not self.required(name):
            return None
        value = self.values[name]
        if isinstance(value, str):
            return value
        self.report.add(Code.WRONG_TYPE, self.at(name), f"{show(value)} given where a string belongs")
        return None

    def integer(self, name: str, default: int | None = None, greatest: int = SIZE_MAX) -> int | None:
        """An unsigned integer; the default where it is left out, None once what is wrong is reported."""
        if not self.has(name):
            return default
        return self.report.integer(self.values[name], self.at(name), 0, greatest)

    def child(self, name: str) -> ModelObject | None:
        """A required object, or None once what is wrong is reported."""
        return self.nested(self.values[name], name) if self.required(name) else None

    def nested(self, value: object, name: str | int) -> ModelObject | None:
        """A value below this object that has to be an object itself."""
        at = pointer_to(self.pointer, name)
        if isinstance(value, Mapping):
            return ModelObject(value, at, self.report)
        self.report.add(Code.WRONG_TYPE, at, f"{show(value)} given where an object belongs")
        return None

    def children(self) -> Iterator[tuple[str, ModelObject]]:
        """Every member that is an object, by name; the others are reported."""
        for name, value in self.values.items():
            members = self.nested(value, name)
            if members is not None:
                yield name, members

    def named(self, name: str, known: Iterable[str], what: str) -> str | None:
        """A required string that names something of the model."""
        given = self.string(name)
        if given is None or not is_known(given, self.at(name), known, what, self.report):
            return None
        return given


def is_known(given: str, pointer: str, known: Iterable[str], what: str, report: Report) -> bool:
    """Whether the model has what is named; reported, with the nearest name, if it has not."""
    names = list(known)
    if given in names:
        return True
    near = get_close_matches(given[:100], names, n=1)
    hint = f"; did you mean {show(near[0])}?" if near else ""
    report.add(Code.UNKNOWN_VALUE, pointer, f"the model has no {what} {show(given)}{hint}", names)
    return False
