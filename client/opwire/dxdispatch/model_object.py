"""Reads the members of an object in a model file, with their pointers, and reports violations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ..desc import Report, pointer_to, show
from ..operator import Code

SIZE_MAX = 2**63 - 1
"""Maximum size or offset in bytes, as in numpy."""


@dataclass(frozen=True, slots=True)
class ModelObject:
    """An object of the model. Members that are null count as omitted; unknown members are ignored."""

    values: Mapping[str, Any]
    pointer: str
    report: Report

    def at(self, name: str) -> str:
        return pointer_to(self.pointer, name)

    def has(self, name: str) -> bool:
        return self.values.get(name) is not None

    def required(self, name: str) -> bool:
        """Returns whether a required member is present, and reports it if not."""
        if not self.has(name):
            self.report.add(Code.MISSING_FIELD, self.pointer, f"{name} is required and missing")
        return self.has(name)

    def string(self, name: str) -> str | None:
        """Returns a required string, or reports a violation and returns None."""
        if not self.required(name):
            return None
        value = self.values[name]
        if isinstance(value, str):
            return value
        self.report.add(Code.WRONG_TYPE, self.at(name), f"{show(value)} given; expected a string")
        return None

    def integer(self, name: str, default: int | None = None, greatest: int = SIZE_MAX) -> int | None:
        """Returns an unsigned integer, the default if it is omitted, or reports a violation and returns None."""
        if not self.has(name):
            return default
        return self.report.integer(self.values[name], self.at(name), 0, greatest)

    def child(self, name: str) -> ModelObject | None:
        """Returns a required object, or reports a violation and returns None."""
        return self.nested(self.values[name], name) if self.required(name) else None

    def nested(self, value: object, name: str | int) -> ModelObject | None:
        """Returns a value below this object that must be an object itself, or reports a violation and returns None."""
        at = pointer_to(self.pointer, name)
        if isinstance(value, Mapping):
            return ModelObject(value, at, self.report)
        self.report.add(Code.WRONG_TYPE, at, f"{show(value)} given; expected an object")
        return None

    def children(self) -> Iterator[tuple[str, ModelObject]]:
        """Yields every member that is an object, by name, and reports the others."""
        for name, value in self.values.items():
            members = self.nested(value, name)
            if members is not None:
                yield name, members

    def named(self, name: str, known: Iterable[str], what: str) -> str | None:
        """Returns a required string that names a part of the model, or reports a violation and returns None."""
        given = self.string(name)
        if given is None or not is_known(given, self.at(name), known, what, self.report):
            return None
        return given


def is_known(given: str, pointer: str, known: Iterable[str], what: str, report: Report) -> bool:
    """Returns whether the model has a name, and reports it, with the closest match, if not."""
    names = list(known)
    if given in names:
        return True
    near = get_close_matches(given[:100], names, n=1)
    hint = f"; did you mean {show(near[0])}?" if near else ""
    report.add(Code.UNKNOWN_VALUE, pointer, f"the model has no {what} {show(given)}{hint}", names)
    return False
