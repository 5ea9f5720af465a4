"""Number types (FLOAT, UINT, INT, BOOL and UINT64), and members that are a number or an array of numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any, ClassVar

import numpy as np

from ..desc import MAX_REPORTED, Report, as_integer, pointer_to, show
from ..violation import Code
from .member import UNREAD, FieldInfo, Member, Schema, StructuredMember, Unread

MAX_NUMBERS = 4096
"""Maximum length of an array member. DirectML's arrays are no longer than the number of dimensions or channels."""


@dataclass(frozen=True, slots=True)
class NumberType(ABC):
    """A number type, with its name in directml.h."""

    name: str

    @abstractmethod
    def read(self, value: object, pointer: str, report: Report, least: int | None) -> int | float | Unread:
        """Returns the given number, or reports a violation and returns UNREAD; ``least`` is the minimum."""

    def read_all(
        self, values: Sequence[object], pointer: str, report: Report, least: int | None
    ) -> tuple[int | float, ...] | None:
        """Returns the numbers of a list, or reports the violations and returns None."""
        found = len(report.violations)
        numbers: list[int | float] = []
        for i, item in enumerate(values):
            number = self.read(item, pointer_to(pointer, i), report, least)
            if number is not UNREAD:
                numbers.append(number)
            elif len(report.violations) - found >= MAX_REPORTED:
                break
        return tuple(numbers) if len(report.violations) == found else None

    @abstractmethod
    def json_schema(self, least: int | None) -> Schema:
        """Returns the JSON Schema of its values."""

    @abstractmethod
    def hint(self, least: int | None) -> str:
        """Returns a short description of its values, in the plural."""


@dataclass(frozen=True, slots=True)
class Integer(NumberType):
    """Integers in a range."""

    least: int
    greatest: int

    def read(self, value: object, pointer: str, report: Report, least: int | None) -> int | Unread:
        number = report.integer(value, pointer, self.least if least is None else least, self.greatest)
        return UNREAD if number is None else number

    def read_all(
        self, values: Sequence[object], pointer: str, report: Report, least: int | None
    ) -> tuple[int, ...] | None:
        return report.integers(values, pointer, self.least if least is None else least, self.greatest)

    def json_schema(self, least: int | None) -> Schema:
        return {"type": "integer", "minimum": self.least if least is None else least, "maximum": self.greatest}

    def hint(self, least: int | None) -> str:
        return f"integers from {self.least if least is None else least}"


_INFINITIES = {"inf": inf, "+inf": inf, "infinity": inf, "-inf": -inf, "-infinity": -inf}
_NAN = ("nan", "+nan", "-nan")


@dataclass(frozen=True, slots=True)
class Float(NumberType):
    """FLOAT32 numbers. Infinities and NaN may be strings."""

    def read(self, value: object, pointer: str, report: Report, least: int | None) -> float | Unread:
        number = as_float(value)
        if number is None:
            report.add(Code.WRONG_TYPE, pointer, f"{show(value)} given; expected a number")
        elif isfinite(number) and abs(number) > _FLOAT32_LIMIT:
            report.add(
                Code.OUT_OF_RANGE, pointer, f"{show(value)} given; the magnitude of a FLOAT is at most {_FLOAT32_MAX}"
            )
        else:
            return float(np.float32(number))
        return UNREAD

    def json_schema(self, least: int | None) -> Schema:
        return {"anyOf": [{"type": "number"}, {"enum": ["nan", "inf", "-inf"]}]}

    def hint(self, least: int | None) -> str:
        return "numbers"


_FLOAT32_MAX = float(np.finfo(np.float32).max)
_FLOAT32_LIMIT = _FLOAT32_MAX * (1 + 2.0**-25)
"""Doubles of greater magnitude round to an infinity."""


@dataclass(frozen=True, slots=True)
class Boolean(NumberType):
    """``true`` and ``false``. Numbers are rejected, as in DxDispatch."""

    def read(self, value: object, pointer: str, report: Report, least: int | None) -> bool | Unread:
        if isinstance(value, bool | np.bool_):
            return bool(value)
        report.add(Code.WRONG_TYPE, pointer, f"{show(value)} given; expected true or false", [False, True])
        return UNREAD

    def json_schema(self, least: int | None) -> Schema:
        return {"type": "boolean"}

    def hint(self, least: int | None) -> str:
        return "true or false"


def as_float(value: object) -> float | None:
    """Converts a JSON number, or a string that names an infinity or NaN, to a float; returns None for anything else."""
    if isinstance(value, str):
        text = value.lower()
        return float("nan") if text in _NAN else _INFINITIES.get(text)
    if isinstance(value, float | np.floating):
        return float(value)
    integer = as_integer(value)
    if integer is None:
        return None
    try:
        return float(integer)
    except OverflowError:
        return 2.0**1023 if integer > 0 else -(2.0**1023)  # out of range of every format, like the integer itself


NUMBERS: Mapping[str, NumberType] = {
    number.name: number
    for number in (
        Float("FLOAT"),
        Integer("UINT", 0, 2**32 - 1),
        Integer("INT", -(2**31), 2**31 - 1),
        Integer("UINT64", 0, 2**64 - 1),
        Boolean("BOOL"),
    )
}
"""The number types by name."""


@dataclass(frozen=True, slots=True)
class Scalar(Member):
    """A member that is a number; ``least`` is its minimum, None for that of the type."""

    kind: ClassVar[str] = "scalar"

    number: NumberType
    least: int | None = None

    def read_value(self, given: Any, desc: Mapping[str, Any], pointer: str, report: Report) -> object:
        return self.number.read(given, pointer, report, self.least)

    def describe(self) -> FieldInfo:
        info: FieldInfo = {"name": self.name, "kind": self.kind, "number": self.number.name}
        return info if self.least is None else {**info, "least": self.least}

    def json_schema(self) -> Schema:
        return self.number.json_schema(self.least)

    def hint(self) -> str:
        return f"one of {self.number.hint(self.least)}" if self.number.name != "BOOL" else self.number.hint(None)


@dataclass(frozen=True, slots=True)
class Array(StructuredMember):
    """A member that is an array of numbers.

    Attributes:
        number: the type of its elements.
        least: the minimum of an element, None for that of the type.
        count: the member that counts it, if any.
    """

    kind: ClassVar[str] = "array"

    number: NumberType
    least: int | None = None
    count: str | None = field(default=None, kw_only=True)

    def left_out(self, desc: Mapping[str, Any], pointer: str, report: Report) -> object:
        # In C, an empty array may be a null pointer if its count is 0.
        if self.count is not None and as_integer(desc.get(self.count)) == 0:
            return ()
        return StructuredMember.left_out(self, desc, pointer, report)

    def read_value(self, given: Any, desc: Mapping[str, Any], pointer: str, report: Report) -> object:
        if not isinstance(given, list | tuple):
            of = "integers" if isinstance(self.number, Integer) else "numbers"
            report.add(Code.WRONG_TYPE, pointer, f"{show(given)} given; expected a list of {of}")
            return UNREAD
        if len(given) > MAX_NUMBERS:
            report.add(Code.OUT_OF_RANGE, pointer, f"{len(given)} elements given; at most {MAX_NUMBERS} allowed")
            return UNREAD
        numbers = self.number.read_all(given, pointer, report, self.least)
        return UNREAD if numbers is None else numbers

    def describe(self) -> FieldInfo:
        info: FieldInfo = {"name": self.name, "kind": self.kind, "number": self.number.name}
        if self.count is not None:
            info["count"] = self.count
        if self.number.name == "UINT":
            info["least"] = self.least or 0
        return info

    def json_schema(self) -> Schema:
        return {"type": "array", "items": self.number.json_schema(self.least)}

    def hint(self) -> str:
        return f'{self.number.hint(self.least)}, as "[1, 2]" or "1,2" or one number'

    def from_parameter(self, value: object) -> object:
        whole = isinstance(self.number, Integer)
        is_number = not isinstance(value, str) and (as_integer if whole else as_float)(value) is not None
        return [value] if is_number else StructuredMember.from_parameter(self, value)
