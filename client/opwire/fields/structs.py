"""Members that are small structs of numbers, and unions whose type is given by a sibling member."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..desc import DATA_TYPE_CODES, DATA_TYPE_PREFIX, DATA_TYPES, Report, as_integer, is_object, pointer_to, show
from ..tensor import ALL_INTEGERS, DataType
from ..violation import Code
from .member import UNREAD, FieldInfo, Schema, StructuredMember
from .numbers import NUMBERS, NumberType, as_float


class ScaleBias(NamedTuple):
    """``DML_SCALE_BIAS``: maps x to ``x*Scale + Bias``."""

    Scale: float
    Bias: float


class Size2D(NamedTuple):
    """``DML_SIZE_2D``."""

    Width: int
    Height: int


STRUCTS: Mapping[str, tuple[type[ScaleBias] | type[Size2D], NumberType]] = {
    "DML_SCALE_BIAS": (ScaleBias, NUMBERS["FLOAT"]),
    "DML_SIZE_2D": (Size2D, NUMBERS["UINT"]),
}
"""The structs by name, each with the number type of its members."""


@dataclass(frozen=True, slots=True)
class Struct(StructuredMember):
    """A member that is a small struct, all of whose members are required."""

    kind: ClassVar[str] = "struct"

    struct: str

    def read_value(self, given: Any, desc: Mapping[str, Any], pointer: str, report: Report) -> object:
        made, number = STRUCTS[self.struct]
        if not is_object(given):
            report.add(Code.WRONG_TYPE, pointer, f"{show(given)} given; expected {self.struct} (an object)")
            return UNREAD
        found = len(report.violations)
        report.unknown_fields(given, dict.fromkeys(made._fields), pointer, self.struct)
        values = {}
        for name in made._fields:
            if given.get(name) is None:
                report.missing(name, given, pointer)
            else:
                values[name] = number.read(given[name], f"{pointer}/{name}", report, None)
        return made(**values) if len(report.violations) == found else UNREAD  # type: ignore[arg-type]

    def describe(self) -> FieldInfo:
        made, number = STRUCTS[self.struct]
        members = list(made._fields)
        return {
            "name": self.name,
            "kind": self.kind,
            "struct": self.struct,
            "number": number.name,
            "members": members,
            "optional": self.optional,
        }

    def json_schema(self) -> Schema:
        made, number = STRUCTS[self.struct]
        return {
            "type": "object",
            "required": list(made._fields),
            "properties": {name: number.json_schema(None) for name in made._fields},
            "additionalProperties": False,
        }

    def hint(self) -> str:
        return f"{self.struct} as JSON text" + "; optional" * self.optional


_VIEWS: Mapping[DataType, str] = {
    DataType.FLOAT32: "Float32",
    DataType.FLOAT16: "UInt16",
    DataType.FLOAT64: "Float64",
    **{
        data_type: data_type.name.capitalize() if data_type.is_signed else data_type.name.replace("UINT", "UInt")
        for data_type in ALL_INTEGERS
    },
    DataType.UINT4: "UInt8",
    DataType.INT4: "Int8",
}
"""The member of ``DML_SCALAR_UNION`` for each data type; the 4-bit ones have none of their own."""


@dataclass(frozen=True, slots=True)
class Union(StructuredMember):
    """``DML_SCALAR_UNION``: a number whose type a sibling member gives, or an object with one member of the union.

    Integers wrap around to the width of the type; floats are rounded to it, and may be NaN.
    """

    kind: ClassVar[str] = "union"

    data_type: str

    def read_value(self, given: Any, desc: Mapping[str, Any], pointer: str, report: Report) -> object:
        code = desc.get(self.data_type)
        number = Report().member(code, "", DATA_TYPE_CODES, DATA_TYPE_PREFIX)  # the sibling reports its own violations
        if number is None:
            return UNREAD
        data_type = DATA_TYPES[number]
        view = _VIEWS[data_type]
        if not is_object(given):
            return _read_number(given, data_type, pointer, report, bare=True)
        others = [name for name in given if name != view]
        if others or view not in given:
            written = ", ".join(map(str, others[:3])) or "no member"
            message = f"{show(written)} given; {self.data_type} is {data_type.name}, so the member must be {view}"
            report.add(Code.UNION_MISMATCH, pointer_to(pointer, *others[:1]), message, [view])
            return UNREAD
        if data_type is DataType.FLOAT16:
            bits = report.integer(given[view], f"{pointer}/{view}", 0, 2**16 - 1)
            return UNREAD if bits is None else float(np.uint16(bits).view(np.float16))
        return _read_number(given[view], data_type, f"{pointer}/{view}", report, bare=False)

    def describe(self) -> FieldInfo:
        return {"name": self.name, "kind": self.kind, "data_type": self.data_type}

    def json_schema(self) -> Schema:
        views = sorted(set(_VIEWS.values()))
        number: Schema = {"type": "number"}
        text: Schema = {"enum": ["nan", "inf", "-inf"]}
        alternatives: list[Schema] = [
            {
                "type": "object",
                "required": [view],
                "properties": {view: {"anyOf": [number, text]} if view.startswith("Float") else {"type": "integer"}},
                "additionalProperties": False,
            }
            for view in views
        ]
        return {"anyOf": [number, *alternatives]}

    def hint(self) -> str:
        return f"a number of the type given by {self.data_type}"

    def from_parameter(self, value: object) -> object:
        is_text = isinstance(value, str) and value.lstrip().startswith("{")
        return StructuredMember.from_parameter(self, value) if is_text else value


def _read_number(value: object, data_type: DataType, pointer: str, report: Report, *, bare: bool) -> object:
    if not data_type.is_float:
        number = report.integer(value, pointer, -(2**63), 2**64 - 1)
        return UNREAD if number is None else _wrapped(number, data_type)
    real = None if bare and isinstance(value, str) else as_float(value)
    if real is None:
        report.add(Code.WRONG_TYPE, pointer, f"{show(value)} given; expected a {data_type.name} number")
        return UNREAD
    integer = as_integer(value)
    if integer is not None and abs(integer) >= 2**1023:
        report.add(Code.OUT_OF_RANGE, pointer, f"{show(value)} given; expected a {data_type.name} number")
        return UNREAD
    with np.errstate(over="ignore"):
        return real if isnan(real) else float(np.float64(real).astype(data_type.dtype))


def _wrapped(number: int, data_type: DataType) -> int:
    rest = number & ((1 << data_type.bits) - 1)
    return rest - (1 << data_type.bits) if data_type.is_signed and rest >> (data_type.bits - 1) else rest
