"""Reads tensor descs from JSON, with their members inline or under ``Desc``, as Microsoft's DxDispatch does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .desc import (
    DATA_TYPE_CODES,
    DATA_TYPE_PREFIX,
    DATA_TYPES,
    MAX_REPORTED,
    UINT_MAX,
    Report,
    is_object,
    plain_integers,
    pointer_to,
    show,
)
from .tensor import LEAST_ALIGNMENT, MAX_ELEMENTS, MAX_RANK, BufferTensorDesc, DataType, TensorFlags, TensorType
from .violation import Basis, Code

_TENSOR_TYPES = {row.name: row.value for row in TensorType}
_TENSOR_TYPE_PREFIX = "DML_TENSOR_TYPE_"
_FLAG_PREFIX = "DML_TENSOR_FLAG_"
_DATA_TYPE_NAMES = {prefix + row.name: row for row in DataType for prefix in ("", DATA_TYPE_PREFIX)}


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
    data_type, sizes = _DATA_TYPE_NAMES.get(name), plain_integers(given, 1, UINT_MAX)
    strides = None if steps is None else plain_integers(steps, 0, UINT_MAX)
    if data_type is None or sizes is None or (strides is None and steps is not None):
        return None
    return BufferTensorDesc(data_type, sizes, strides, total)


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
