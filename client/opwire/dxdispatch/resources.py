"""The buffers of a DxDispatch model: their sizes and initial values.

Source: ``doc/Guide.md``, ``models/_schema.json`` and ``JsonParsers.cpp`` of DxDispatch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..desc import UINT_MAX, Report, pointer_to, show
from ..jsontensor import NumberError, read_numbers
from ..operator import Code
from ..tensor import Array, BufferTensorDesc, DataType
from .model_object import ModelObject

_DATA_TYPES = {row.name: row for row in DataType if row.bits >= 8}
_CODES = {name: row.code for name, row in _DATA_TYPES.items()}
_WITH_UNKNOWN = {"UNKNOWN": 0, **_CODES}
_BY_CODE = {row.code: row for row in _DATA_TYPES.values()}
_DATA_TYPE_PREFIX = "DML_TENSOR_DATA_TYPE_"
_SPECIAL = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Values from a list or a file. Values of mixed types are given as bytes."""

    array: Array

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    @property
    def size_in_bytes(self) -> int:
        return self.array.nbytes

    def fill(self, target: Array) -> None:
        target[...] = self.array


@dataclass(frozen=True, slots=True, eq=False)
class RepeatedValue:
    """A value repeated ``count`` times. ``value`` is an array of one element of the buffer's type."""

    value: Array
    count: int

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.value.dtype

    @property
    def size_in_bytes(self) -> int:
        return self.value.itemsize * self.count

    def fill(self, target: Array) -> None:
        target[...] = self.value


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """``count`` values, each ``delta`` more than the one before."""

    start: Array
    delta: Array
    count: int

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.start.dtype

    @property
    def size_in_bytes(self) -> int:
        return self.start.itemsize * self.count

    def fill(self, target: Array) -> None:
        """Accumulates the values in the buffer's type: floats are rounded at each step, and integers wrap around."""
        target[...] = self.delta
        target[:1] = self.start
        with np.errstate(over="ignore", invalid="ignore"):
            np.add.accumulate(target, dtype=target.dtype, out=target)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """Values in a file: ``.npy``, or raw little-endian bytes."""

    path: str


@dataclass(frozen=True, slots=True)
class Deferred:
    """The size and values are determined by an ONNX model when it runs."""


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """A buffer of the model.

    Attributes:
        data_type: data type of the initial values; None for mixed types, or if a file that has not been read gives it.
        initial: the initial values.
        offset_in_bytes: offset of the initial values; the rest of the buffer is zero.
        declared_size_in_bytes: size of the buffer, if the model gives it.
        pointer: the pointer to the buffer in the model.
    """

    data_type: DataType | None
    initial: Values | RepeatedValue | Sequence | SourceFile | Deferred
    offset_in_bytes: int
    declared_size_in_bytes: int | None
    pointer: str

    @property
    def is_loaded(self) -> bool:
        """Whether the initial values are known, and with them the size."""
        return not isinstance(self.initial, SourceFile | Deferred)

    @property
    def value_end_in_bytes(self) -> int:
        """End of the initial values.

        Raises:
            TypeError: they are in a file that has not been read, or are deferred.
        """
        if isinstance(self.initial, SourceFile):
            raise TypeError(f"the values of {self.pointer} are in {self.initial.path}, which was not read")
        if isinstance(self.initial, Deferred):
            raise TypeError(f"the values of {self.pointer} are deferred")
        return self.offset_in_bytes + self.initial.size_in_bytes

    @property
    def size_in_bytes(self) -> int:
        """The declared size, or the end of the values rounded up to a multiple of 4."""
        if self.declared_size_in_bytes is not None:
            return self.declared_size_in_bytes
        return (self.value_end_in_bytes + 3) & ~3

    def allocate(self) -> Array:
        """Returns a new UINT8 array with the initial values in it.

        Raises:
            TypeError: the values are in a file that has not been read, or are deferred.
        """
        end = self.value_end_in_bytes
        memory = np.zeros(self.size_in_bytes, np.uint8)
        if not isinstance(self.initial, SourceFile | Deferred):
            self.initial.fill(memory[self.offset_in_bytes : end].view(self.initial.dtype))
        return memory

    def with_file(self, array: Array, data_type: DataType | None, report: Report) -> Buffer:
        """Returns the buffer with the values from its file.

        Args:
            array: the values, as a one-dimensional array.
            data_type: the data type that the file gives, or None if it is raw.
            report: collects the violations: a different or missing data type, no values, or too many of them.
        """
        declared = self.data_type
        if declared is None and data_type is None:
            message = "initialValuesDataType is required: a raw file does not specify its data type"
            report.add(Code.MISSING_FIELD, self.pointer, message, list(_DATA_TYPES))
        elif declared is not None and data_type not in (None, declared):
            message = f"{declared.name} given; the file contains {DataType.of(array.dtype).name}"
            report.add(Code.DATA_TYPES_DIFFER, self.pointer + "/initialValuesDataType", message)
        buffer = replace(self, data_type=self.data_type or data_type, initial=Values(array))
        check_size(buffer, report)
        return buffer


def read_buffer(members: ModelObject) -> Buffer | None:
    """Reads a member of ``resources``, or reports its violations and returns None."""
    report = members.report
    found = len(report.violations)
    kind = members.values.get("type")
    if kind not in (None, "buffer"):
        message = f"{show(kind)} given; a resource must be a buffer"
        report.add(Code.UNKNOWN_VALUE, members.at("type"), message, ["buffer"])
    data_type = _data_type(members, "initialValuesDataType", _WITH_UNKNOWN)
    initial = None
    if members.required("initialValues") and len(report.violations) == found:
        initial = _initial(members, data_type)
    offset = members.integer("initialValuesOffsetInBytes", 0)
    size = members.integer("sizeInBytes")
    if initial is None or offset is None or len(report.violations) > found:
        return None
    buffer = Buffer(data_type, initial, offset, size, members.pointer)
    if buffer.is_loaded:
        check_size(buffer, report)
    return buffer if len(report.violations) == found else None


def check_size(buffer: Buffer, report: Report) -> None:
    """Reports a buffer without values, or whose values exceed its declared size."""
    if buffer.value_end_in_bytes == buffer.offset_in_bytes:
        report.add(
            Code.OUT_OF_RANGE, buffer.pointer + "/initialValues", "a buffer must have at least one initial value"
        )
    if buffer.value_end_in_bytes > buffer.size_in_bytes:
        message = f"{buffer.declared_size_in_bytes} bytes given; the initial values end at {buffer.value_end_in_bytes}"
        report.add(Code.TOTAL_SIZE_INVALID, buffer.pointer + "/sizeInBytes", message)


def _data_type(members: ModelObject, name: str, allowed: Mapping[str, int]) -> DataType | None:
    """Reads a data type; returns None for UNKNOWN, if it is omitted, and if a violation is reported."""
    if not members.has(name):
        return None
    code = members.report.member(members.values[name], members.at(name), allowed, _DATA_TYPE_PREFIX)
    return None if code is None else _BY_CODE.get(code)


def _initial(
    members: ModelObject, data_type: DataType | None
) -> Values | RepeatedValue | Sequence | SourceFile | Deferred | None:
    value, at = members.values["initialValues"], members.at("initialValues")
    if isinstance(value, list):
        return _mixed(value, members) if data_type is None else _values(value, data_type, at, members.report)
    if isinstance(value, Mapping):
        return _generated(ModelObject(value, at, members.report), data_type, members)
    if value == "deferred":
        return Deferred()
    message = f"{show(value)} given; allowed are a list, or an object with value, valueStart or sourcePath"
    members.report.add(Code.WRONG_TYPE, at, message)
    return None


def _generated(
    given: ModelObject, data_type: DataType | None, owner: ModelObject
) -> RepeatedValue | Sequence | SourceFile | None:
    kinds = [name for name in ("value", "valueStart", "sourcePath") if given.has(name)]
    if len(kinds) != 1:
        message = f"{' and '.join(kinds) or 'none'} given; exactly one of value, valueStart and sourcePath is required"
        given.report.add(Code.MISSING_FIELD, given.pointer, message, ["value", "valueStart", "sourcePath"])
        return None
    if kinds == ["sourcePath"]:
        path = given.string("sourcePath")
        return None if path is None else SourceFile(path)
    if data_type is None:
        message = "initialValuesDataType is required and missing, or UNKNOWN"
        owner.report.add(Code.MISSING_FIELD, owner.pointer, message, list(_DATA_TYPES))
        return None
    count = given.integer("valueCount", greatest=UINT_MAX) if given.required("valueCount") else None
    if kinds == ["value"]:
        value = _number(given, "value", data_type)
        return None if value is None or count is None else RepeatedValue(value, count)
    start, delta = _number(given, "valueStart", data_type), _number(given, "valueDelta", data_type)
    return None if start is None or delta is None or count is None else Sequence(start, delta, count)


def _number(given: ModelObject, name: str, data_type: DataType) -> Array | None:
    if not given.required(name):
        return None
    values = _values([given.values[name]], data_type, given.pointer, given.report, given.at(name))
    return None if values is None else values.array


def _mixed(items: list[Any], owner: ModelObject) -> Values | None:
    """Reads values with individual data types, and packs them without gaps."""
    packed: list[bytes] = []
    for i, item in enumerate(items):
        at = pointer_to(owner.at("initialValues"), i)
        if not isinstance(item, Mapping):
            message = f"{show(item)} given; without initialValuesDataType a value is an object with type and value"
            owner.report.add(Code.WRONG_TYPE, at, message)
            return None
        given = ModelObject(item, at, owner.report)
        data_type = _data_type(given, "type", _CODES) if given.required("type") else None
        value = None if data_type is None else _number(given, "value", data_type)
        if value is not None:
            packed.append(value.tobytes())
    return Values(np.frombuffer(b"".join(packed), np.uint8)) if len(packed) == len(items) else None


def _values(
    items: list[Any], data_type: DataType, pointer: str, report: Report, single: str | None = None
) -> Values | None:
    """Reads a list of values; for a single value, read as a list of one, ``single`` is its pointer."""
    if not items:
        return Values(np.empty(0, data_type.dtype))
    spelled = [_spelled(item) for item in items] if data_type.is_float else items
    try:
        return Values(read_numbers(spelled, BufferTensorDesc(data_type, (len(spelled),)), pointer))
    except NumberError as error:
        wrong = error.violation
        report.add(wrong.code, single or wrong.pointer, wrong.message)
        return None


def _spelled(item: object) -> object:
    """Converts a value to opwire's spelling: DxDispatch accepts nan, inf and -inf in any case."""
    return _SPECIAL.get(item.lower(), item) if isinstance(item, str) else item
