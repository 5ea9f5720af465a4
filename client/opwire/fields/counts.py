"""Members that count arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..desc import UINT_MAX, Report
from ..violation import Code
from .member import FieldInfo, Member, Schema
from .numbers import NUMBERS


@dataclass(frozen=True, slots=True)
class Count(Member):
    """A ``UINT`` member that counts the elements of array members. It may be omitted.

    It has no value of its own, since the arrays have lengths.
    """

    kind: ClassVar[str] = "count"

    counts: tuple[str, ...]

    @property
    def required(self) -> bool:
        return False

    def read_value(self, given: Any, desc: Mapping[str, Any], pointer: str, report: Report) -> object:
        return NUMBERS["UINT"].read(given, pointer, report, None)

    def agree(self, desc: Mapping[str, Any], lengths: Mapping[str, int], pointer: str, report: Report) -> bool:
        """Checks that the arrays have the length given by the count or, if it is omitted, the same length.

        Args:
            desc: the desc as JSON.
            lengths: the lengths of the arrays that could be read.
            pointer: the pointer to the desc.
            report: collects the violations.
        """
        given = desc.get(self.name)
        if type(given) is int and 0 <= given <= UINT_MAX and {given}.issuperset(lengths.values()):
            return True  # fast path
        if given is not None:
            count = report.integer(given, f"{pointer}/{self.name}")
            if count is None:
                return False
            source = f"{self.name} is {count}"
        elif lengths:
            first, count = next(iter(lengths.items()))
            source = f"{first} has {count}"
        else:
            return False
        wrong = [name for name, length in lengths.items() if length != count]
        for name in wrong:
            # A single array is taken as right and its count as wrong; of several arrays, those that differ are wrong.
            at = self.name if len(self.counts) == 1 else name
            message = f"{name} has {lengths[name]} elements and {source}; they must agree"
            report.add(Code.COUNT_MISMATCH, f"{pointer}/{at}", message)
        return not wrong

    def describe(self) -> FieldInfo:
        return {"name": self.name, "kind": self.kind, "counts": list(self.counts)}

    def json_schema(self) -> Schema:
        return {**NUMBERS["UINT"].json_schema(None), "description": f"counts {', '.join(self.counts)}; optional"}

    def hint(self) -> str:
        return f"the count of {' and of '.join(self.counts)}; optional"
