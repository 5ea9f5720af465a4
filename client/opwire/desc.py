"""Reads members of descs from JSON: objects, numbers and names. Reports every structural violation and its location.

Accepts what Microsoft's DxDispatch accepts: enums by full name, short name or value; null for absent members.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import islice
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from .level import LOWEST, FeatureLevel
from .tensor import DataType
from .violation import OBSERVED_SOURCE, Basis, Code, Violation

UINT_MAX = 2**32 - 1

DATA_TYPE_PREFIX = "DML_TENSOR_DATA_TYPE_"
DATA_TYPES = {row.code: row for row in DataType}
DATA_TYPE_CODES = {row.name: row.code for row in DataType}

_MAX_QUOTE = 60
_JSON = json.JSONEncoder(ensure_ascii=False)

MAX_REPORTED = 100
"""Maximum number of violations reported for one object or list, to keep the answers to large requests small."""


def pointer_to(base: str, *path: str | int) -> str:
    """Returns a JSON pointer (RFC 6901) below another one.

    For the names of declared fields, which need no escaping, callers join with a slash instead, which is faster.
    """
    for part in path:
        text = str(part)
        base += "/" + (text if text.isalnum() else text.replace("~", "~0").replace("/", "~1"))
    return base


def data_type_name(given: Any) -> Any:
    """Returns the name of a data type given as such or as one of numpy; anything else is returned unchanged.

    Raises:
        TypeError: DirectML lacks the type.
    """
    if isinstance(given, DataType):
        return given.name
    if isinstance(given, np.dtype) or (isinstance(given, type) and issubclass(given, np.generic)):
        return DataType.of(np.dtype(given)).name
    return given


def show(value: object) -> str:
    """Quotes a value for a message: as JSON, truncated, and without serializing all of a large value."""
    text = ""
    try:
        for piece in _JSON.iterencode(value[:_MAX_QUOTE] if isinstance(value, str) else value):
            text += piece
            if len(text) > _MAX_QUOTE:
                break
    except TypeError:  # not JSON: a Python object in a desc built in Python
        text = repr(value)
    except ValueError:  # a circular reference, or an integer with more digits than Python converts
        text = f"an integer of {value.bit_length()} bits" if isinstance(value, int) else f"{text}..."
    return text if len(text) <= _MAX_QUOTE else text[: _MAX_QUOTE - 3] + "..."


def as_integer(value: object) -> int | None:
    """Converts an integer of JSON or numpy to int. Returns None for anything else, including bools and floats."""
    if type(value) is int:  # fast path
        return value
    return int(value) if isinstance(value, int | np.integer) and not isinstance(value, bool) else None


def plain_integers(items: Sequence[Any], least: int, greatest: int) -> tuple[int, ...] | None:
    """Fast path: returns a list of plain integers in range as a tuple, or None for anything else."""
    for item in items:
        if type(item) is not int or not least <= item <= greatest:
            return None
    return tuple(items)


def is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Returns whether a value is a JSON object."""
    return type(value) is dict or isinstance(value, Mapping)  # the first test is cheaper, and usually enough


class ViolationAtLevels(NamedTuple):
    """A violation at the levels in ``[since, until)``; ``until`` of None is unbounded."""

    violation: Violation
    since: FeatureLevel
    until: FeatureLevel | None

    def counts_at(self, level: FeatureLevel) -> bool:
        """Returns whether it is a violation at a level."""
        return self.since <= level and (self.until is None or level < self.until)


@dataclass(slots=True)
class Report:
    """What was found so far.

    Attributes:
        violations: the violations at all levels.
        at_levels: the violations at some levels.
        warnings: what the documentation forbids and DirectML accepts, at all or some levels.
        uncomputable: why opwire cannot compute what is otherwise valid.
        most: the maximum number of ``violations``; further ones are dropped.
        page: the URL of the page that states the rules.
    """

    violations: list[Violation] = field(default_factory=list)
    at_levels: list[ViolationAtLevels] = field(default_factory=list)
    warnings: list[ViolationAtLevels] = field(default_factory=list)
    uncomputable: list[Violation] = field(default_factory=list)
    most: int = sys.maxsize
    page: str | None = None

    @property
    def is_full(self) -> bool:
        """Whether further violations at all levels are dropped."""
        return len(self.violations) >= self.most

    def add(
        self,
        code: Code,
        pointer: str,
        message: str,
        allowed: Sequence[object] | None = None,
        *,
        since: FeatureLevel | None = None,
        until: FeatureLevel | None = None,
        basis: Basis | None = None,
    ) -> None:
        """Adds a violation or, if its rule does not rest on DirectML's own answers, a warning or an obstacle.

        With ``since`` or ``until`` it counts only at levels in ``[since, until)``. A ``basis`` of None is for the form
        of descs in JSON.
        """
        documented = basis is Basis.BOTH or basis is Basis.PAGE
        source = OBSERVED_SOURCE if basis is Basis.OBSERVED else self.page if documented else None
        violation = Violation(code, pointer, message, allowed, until, source, documented)
        if basis is Basis.PAGE:
            self.warnings.append(ViolationAtLevels(violation, since or LOWEST, until))
        elif basis is Basis.OPWIRE:
            self.uncomputable.append(violation)
        elif since is not None or until is not None:
            self.at_levels.append(ViolationAtLevels(violation, since or LOWEST, until))
        elif not self.is_full:
            self.violations.append(violation)

    def missing(self, name: str, desc: Mapping[str, Any], pointer: str) -> None:
        """Reports a required member that is null or missing."""
        at = f"{pointer}/{name}" if name in desc else pointer
        self.add(Code.MISSING_FIELD, at, f"{name} is required and {'null' if name in desc else 'missing'}")

    def unknown_fields(self, given: Mapping[str, Any], allowed: Mapping[str, object], pointer: str, owner: str) -> None:
        """Reports names that are not fields of their owner, each with its closest match."""
        if given.keys() <= allowed.keys():
            return
        for name in islice([name for name in given if name not in allowed], MAX_REPORTED):
            near = get_close_matches(str(name)[:100], allowed, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            self.add(
                Code.UNKNOWN_FIELD,
                pointer_to(pointer, str(name)),
                f"{owner} has no field {show(name)}{hint}",
                list(allowed),
            )

    def integer(self, value: object, pointer: str, least: int = 0, greatest: int = UINT_MAX) -> int | None:
        """Returns the given integer, or reports a violation and returns None."""
        number = as_integer(value)
        if number is None:
            self.add(Code.WRONG_TYPE, pointer, f"{show(value)} given; expected an integer")
        elif not least <= number <= greatest:
            self.add(Code.OUT_OF_RANGE, pointer, f"{show(number)} given; the allowed range is {least} to {greatest}")
        else:
            return number
        return None

    def integers(self, value: object, pointer: str, least: int = 0, greatest: int = UINT_MAX) -> tuple[int, ...] | None:
        """Returns the integers of a list, or reports the violations and returns None."""
        if not isinstance(value, list | tuple):
            self.add(Code.WRONG_TYPE, pointer, f"{show(value)} given; expected a list of integers")
            return None
        plain = plain_integers(value, least, greatest)
        if plain is not None:
            return plain
        found = len(self.violations)
        numbers = []
        for i, item in enumerate(value):
            number = as_integer(item)
            if number is not None and least <= number <= greatest:
                numbers.append(number)
                continue
            self.integer(item, pointer_to(pointer, i), least, greatest)
            if len(self.violations) - found >= MAX_REPORTED:
                break
        return tuple(numbers) if len(self.violations) == found else None

    def member(self, value: object, pointer: str, names: Mapping[str, int], prefix: str) -> int | None:
        """Returns the value of an enum member given by full name, short name or value, or reports a violation."""
        if names is DATA_TYPE_CODES and not isinstance(value, str | int):
            with suppress(TypeError):  # a data type that DirectML lacks is refused below
                value = data_type_name(value)
        if isinstance(value, str):
            number = names.get(value.removeprefix(prefix))
            known = number is not None
        else:
            number = as_integer(value)
            known = number in names.values()
        if known:
            return number
        code = Code.UNKNOWN_VALUE if isinstance(value, str) or number is not None else Code.WRONG_TYPE
        self.add(code, pointer, f"{show(value)} given; allowed: {', '.join(names)}", list(names))
        return None
