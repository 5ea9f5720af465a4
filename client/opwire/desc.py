"""Reads descs from JSON: objects, numbers, names and tensor descs. Reports every structural violation and its location.

Accepts what Microsoft's DxDispatch accepts: enums by full name, short name or value; tensor members inline or under
``Desc``; null for absent members.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import islice
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from .level import LOWEST, FeatureLevel
from .tensor import LEAST_ALIGNMENT, MAX_ELEMENTS, MAX_RANK, BufferTensorDesc, DataType, TensorFlags, TensorType
from .violation import OBSERVED_SOURCE, Basis, Code, Violation

UINT_MAX = 2**32 - 1

_TENSOR_TYPES = {row.name: row.value for row in TensorType}
_TENSOR_TYPE_PREFIX = "DML_TENSOR_TYPE_"
DATA_TYPE_PREFIX = "DML_TENSOR_DATA_TYPE_"
_FLAG_PREFIX = "DML_TENSOR_FLAG_"
DATA_TYPES = {row.code: row for row in DataType}
DATA_TYPE_CODES = {row.name: row.code for row in DataType}
_DATA_TYPE_NAMES = {prefix + row.name: row for row in DataType for prefix in ("", DATA_TYPE_PREFIX)}

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
        plain = _integers(value, least, greatest)
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


class GivenTensor(NamedTuple):
    """A tensor desc of a request, with the pointer to its members."""

    desc: BufferTensorDesc
    pointer: str


def read_tensor(value: object, pointer: str, report: Report, *, output: bool) -> GivenTensor | None:
    """Reads a tensor desc, with members inline or nested under ``Desc``, or reports its violations and returns None."""
    if not is_object(value):
        report.add(Code.WRONG_TYPE, pointer, f"{show(value)} given; expected a tensor desc (an object)")
        return None
    found = len(report.violations)
    desc, at = _read_common(value), pointer
    if desc is None:
        desc, at = _read_members(value, pointer, report)
    if desc is None:
        return None
    _check_layout(desc, at, report, output=output)
    return GivenTensor(desc, at) if len(report.violations) == found else None


def _read_common(members: Mapping[str, Any]) -> BufferTensorDesc | None:
    """Fast path: reads a desc in the usual form. Returns None, without a report, for any other form and for errors."""
    if not members.keys() <= _COMMON_MEMBERS:
        return None
    name, given, steps = members.get("DataType"), members.get("Sizes"), members.get("Strides")
    total = members.get("TotalTensorSizeInBytes", 0)
    if type(name) is not str or type(given) is not list or not 1 <= len(given) <= MAX_RANK:
        return None
    if type(total) is not int or not 0 <= total < 2**64:
        return None
    if steps is not None and (type(steps) is not list or len(steps) != len(given)):
        return None
    data_type, sizes = _DATA_TYPE_NAMES.get(name), _integers(given, 1, UINT_MAX)
    strides = None if steps is None else _integers(steps, 0, UINT_MAX)
    if data_type is None or sizes is None or (strides is None and steps is not None):
        return None
    return BufferTensorDesc(data_type, sizes, strides, total)


def _integers(items: Sequence[Any], least: int, greatest: int) -> tuple[int, ...] | None:
    """Fast path: returns a list of plain integers in range as a tuple, or None for anything else."""
    for item in items:
        if type(item) is not int or not least <= item <= greatest:
            return None
    return tuple(items)


def _read_members(value: Mapping[str, Any], pointer: str, report: Report) -> tuple[BufferTensorDesc | None, str]:
    """Reads the desc with its violations reported, None if there are any; and returns the pointer to its members."""
    found = len(report.violations)
    members, at = _members(value, pointer, report)
    if members is None:
        return None, at
    for name in _REQUIRED:
        if members.get(name) is None:
            report.missing(name, members, at)
    values = {
        name: read(given, f"{at}/{name}", report)
        for name, read in _READERS.items()
        if (given := members.get(name)) is not None
    }
    _count_dimensions(values, at, report)
    if len(report.violations) > found:
        return None, at
    desc = BufferTensorDesc(
        values["DataType"],
        values["Sizes"],
        values.get("Strides"),
        values.get("TotalTensorSizeInBytes", 0),
        values.get("Flags", TensorFlags.NONE),
        values.get("GuaranteedBaseOffsetAlignment", 0),
    )
    return desc, at


def _count_dimensions(values: Mapping[str, Any], pointer: str, report: Report) -> None:
    """``DimensionCount`` and ``Strides`` must agree with ``Sizes``."""
    sizes, strides = values.get("Sizes"), values.get("Strides")
    for name, length in (("DimensionCount", values.get("DimensionCount")), ("Strides", strides and len(strides))):
        if sizes is not None and length is not None and length != len(sizes):
            report.add(
                Code.COUNT_MISMATCH,
                f"{pointer}/{name}",
                f"{name} counts {length} dimensions and Sizes {len(sizes)}; they must agree",
                [len(sizes)],
            )


def _members(
    value: Mapping[str, Any], pointer: str, report: Report
) -> tuple[Mapping[str, Any], str] | tuple[None, str]:
    if value.get("Type") is not None:
        report.member(value["Type"], f"{pointer}/Type", _TENSOR_TYPES, _TENSOR_TYPE_PREFIX)
    nested = value.get("Desc")
    if nested is None:
        report.unknown_fields(value, _INLINE_MEMBERS, pointer, "a tensor desc")
        return value, pointer
    report.unknown_fields(value, _NESTING_MEMBERS, pointer, "a tensor desc with a nested Desc")
    pointer = f"{pointer}/Desc"
    if not is_object(nested):
        report.add(Code.WRONG_TYPE, pointer, f"{show(nested)} given; expected a tensor desc (an object)")
        return None, pointer
    report.unknown_fields(nested, _READERS, pointer, "a tensor desc")
    return nested, pointer


def _data_type(value: object, pointer: str, report: Report) -> DataType | None:
    code = report.member(value, pointer, DATA_TYPE_CODES, DATA_TYPE_PREFIX)
    return None if code is None else DATA_TYPES[code]


def _sizes(value: object, pointer: str, report: Report) -> tuple[int, ...] | None:
    if isinstance(value, list | tuple) and not 1 <= len(value) <= MAX_RANK:
        report.add(Code.OUT_OF_RANGE, pointer, f"{len(value)} sizes given; a tensor has 1 to {MAX_RANK} dimensions")
        return None
    return report.integers(value, pointer, least=1)


def _flags(value: object, pointer: str, report: Report) -> TensorFlags | None:
    names = {row.name or "NONE": row.value for row in (TensorFlags.NONE, TensorFlags.OWNED_BY_DML)}
    listed = list(enumerate(value)) if isinstance(value, list | tuple) else None
    given = [(pointer_to(pointer, i), item) for i, item in listed] if listed is not None else [(pointer, value)]
    if len(given) > MAX_REPORTED:
        report.add(Code.OUT_OF_RANGE, pointer, f"{len(given)} flags given; there are {len(names)}")
        return None
    flags = [report.member(item, at, names, _FLAG_PREFIX) for at, item in given]
    if None in flags:
        return None
    return TensorFlags(max((flag for flag in flags if flag), default=0))


_READERS: Mapping[str, Callable[[object, str, Report], Any]] = {
    "DataType": _data_type,
    "Sizes": _sizes,
    "Strides": lambda value, pointer, report: report.integers(value, pointer),
    "DimensionCount": lambda value, pointer, report: report.integer(value, pointer),
    "TotalTensorSizeInBytes": lambda value, pointer, report: report.integer(value, pointer, 0, 2**64 - 1),
    "Flags": _flags,
    "GuaranteedBaseOffsetAlignment": lambda value, pointer, report: report.integer(value, pointer),
}
"""The members of a tensor desc, each with a function that reads its value, or reports a violation and returns None."""

_REQUIRED = ("DataType", "Sizes")
_COMMON_MEMBERS = dict.fromkeys((*_REQUIRED, "Strides", "TotalTensorSizeInBytes")).keys()

_NESTING_MEMBERS: Mapping[str, None] = dict.fromkeys(("Type", "Desc"))
_INLINE_MEMBERS: Mapping[str, object] = {**_NESTING_MEMBERS, **_READERS}


def _check_layout(desc: BufferTensorDesc, pointer: str, report: Report, *, output: bool) -> None:
    if output and desc.flags:
        report.add(Code.FLAGS_INVALID, f"{pointer}/Flags", "OWNED_BY_DML is for inputs", ["NONE"], basis=Basis.BOTH)
    if desc.element_count > MAX_ELEMENTS or desc.extent > MAX_ELEMENTS:
        _report_many(desc, pointer, report)
        return
    _check_total_size(desc, f"{pointer}/TotalTensorSizeInBytes", report)
    alignment = desc.guaranteed_base_offset_alignment
    if alignment and (alignment & (alignment - 1) or alignment < LEAST_ALIGNMENT):
        message = f"{alignment} given; allowed are 0 and powers of two from {LEAST_ALIGNMENT}"
        report.add(Code.ALIGNMENT_INVALID, f"{pointer}/GuaranteedBaseOffsetAlignment", message, basis=Basis.OBSERVED)
    if output and desc.strides is not None and not desc.addresses_are_unique():
        _report_overlap(desc, f"{pointer}/Strides", report)


def _check_total_size(desc: BufferTensorDesc, pointer: str, report: Report) -> None:
    total, least = desc.total_size_in_bytes, desc.minimum_size_in_bytes
    if total < least:
        message = f"{total} bytes given; these sizes and strides take at least {least}"
        report.add(Code.TOTAL_SIZE_INVALID, pointer, message, basis=Basis.BOTH)
    elif total * 8 // desc.data_type.bits > MAX_ELEMENTS:
        message = f"{total} bytes given; that is room for more than {MAX_ELEMENTS} elements"
        report.add(Code.TOTAL_SIZE_INVALID, pointer, message, basis=Basis.OBSERVED)


def _report_overlap(desc: BufferTensorDesc, pointer: str, report: Report) -> None:
    """Reports an output whose elements share addresses, or may. DirectML's own test does not find every such output."""
    steps = [step for size, step in zip(desc.sizes, desc.element_strides, strict=True) if size > 1]
    found = 0 in steps or len(set(steps)) < len(steps) or desc.element_count > desc.extent
    code, basis = (Code.OUTPUT_OVERLAPS, Basis.OBSERVED) if found else (Code.NOT_COMPUTABLE, Basis.OPWIRE)
    message = f"with strides {list(desc.element_strides)} two elements of the output share an address"
    detail = "" if found else ", or may: opwire writes the elements of an output in any order"
    report.add(code, pointer, message + detail, basis=basis)


def _report_many(desc: BufferTensorDesc, pointer: str, report: Report) -> None:
    is_logical = desc.element_count > MAX_ELEMENTS
    what, count = ("elements", desc.element_count) if is_logical else ("buffer elements", desc.extent)
    member = "Sizes" if is_logical or desc.strides is None else "Strides"
    message = f"{count} {what} given; a tensor has at most {MAX_ELEMENTS}"
    report.add(Code.TOO_MANY_ELEMENTS, f"{pointer}/{member}", message, basis=Basis.OBSERVED)
