"""Lays out operator descs in memory as directml.h does, with the structs made from opwire's schema.

Descs are JSON as in requests and DxDispatch models. DirectML derives nothing, so every output has to be written out;
other members that are missing are null or 0.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np

from opwire.schema import document, find, operator_document

_POINTER = c.c_void_p
_NUMBERS: Mapping[str, type[Any]] = {
    "FLOAT": c.c_float,
    "UINT": c.c_uint32,
    "INT": c.c_int32,
    "BOOL": c.c_int32,
    "UINT64": c.c_uint64,
}
_BITS = {
    name: int("".join(filter(str.isdigit, name)))
    for name in document("types")["enums"]["DML_TENSOR_DATA_TYPE"]["members"]
}

Desc = Mapping[str, Any]


class OperatorDesc(c.Structure):
    """``DML_OPERATOR_DESC``"""

    _fields_ = (("Type", c.c_uint32), ("Desc", _POINTER))


class TensorDesc(c.Structure):
    """``DML_TENSOR_DESC``"""

    _fields_ = (("Type", c.c_uint32), ("Desc", _POINTER))


class BufferTensorDesc(c.Structure):
    """``DML_BUFFER_TENSOR_DESC``"""

    _fields_ = (
        ("DataType", c.c_uint32),
        ("Flags", c.c_uint32),
        ("DimensionCount", c.c_uint32),
        ("Sizes", _POINTER),
        ("Strides", _POINTER),
        ("TotalTensorSizeInBytes", c.c_uint64),
        ("GuaranteedBaseOffsetAlignment", c.c_uint32),
    )


@cache
def _small_struct(name: str) -> type[c.Structure]:
    """Returns the type of a struct of numbers."""
    found = document("types")["structs"][name]
    return type(name, (c.Structure,), {"_fields_": [(each, _NUMBERS[found["number"]]) for each in found["members"]]})


def _field(member: Desc) -> type[Any]:
    """Returns the C type of a member."""
    match member["kind"]:
        case "count" | "enum":
            return c.c_uint32
        case "scalar":
            return _NUMBERS[member["number"]]
        case "union":
            return c.c_uint64
        case "struct" if not member.get("optional"):
            return _small_struct(member["struct"])
    return _POINTER


@cache
def struct_of(operator: str) -> type[c.Structure]:
    """Returns the type of the desc struct of an operator type."""
    found = operator_document(operator)
    fields = [(member["name"], _field(member)) for member in found["members"]]
    return type(found["struct"], (c.Structure,), {"_fields_": fields})


class Layout:
    """Descs in memory; they and all that they point to live as long as this object."""

    def __init__(self) -> None:
        self._kept: list[Any] = []
        self._kinds: Mapping[str, Callable[[Desc, Desc], Any]] = {
            "tensor": lambda member, desc: self._one(desc[member["name"]], self._tensor),
            "tensors": lambda member, desc: self._several(TensorDesc, desc[member["name"]], self._tensor),
            "operator": lambda member, desc: self._one(desc[member["name"]], self._nested),
            "operators": lambda member, desc: self._several(OperatorDesc, desc[member["name"]], self._nested),
            "array": lambda member, desc: self._array(_NUMBERS[member["number"]], desc[member["name"]]),
            "enum": lambda member, desc: _enumerated(member["enum"], desc[member["name"]]),
            "scalar": lambda member, desc: _number(_NUMBERS[member["number"]], desc[member["name"]]),
            "count": lambda member, desc: desc[member["name"]],
            "struct": self._struct,
            "union": _union,
        }

    def operator(self, type_: object, desc: Desc) -> int:
        """Returns the address of the ``DML_OPERATOR_DESC`` of a desc."""
        return self._keep(self._operator(type_, desc))

    def _keep(self, value: Any) -> int:
        self._kept.append(value)
        return c.addressof(value)

    def _operator(self, type_: object, desc: Desc) -> OperatorDesc:
        kind = find(type_)
        assert kind is not None, type_
        struct = struct_of(kind.name)()
        for member in operator_document(kind.name)["members"]:
            given = _with_alias(member, desc)
            if given.get(member["name"]) is not None:
                setattr(struct, member["name"], self._kinds[member["kind"]](member, given))
            elif member["kind"] == "count":
                setattr(struct, member["name"], _counted(member, desc))
        return OperatorDesc(kind.value, self._keep(struct))

    def _nested(self, given: Desc) -> OperatorDesc:
        """Returns a nested operator, whose members may be inline."""
        inline = {name: value for name, value in given.items() if name not in ("type", "Type", "desc", "Desc")}
        return self._operator(given.get("type") or given["Type"], given.get("desc") or given.get("Desc") or inline)

    def _one(self, given: Desc, make: Callable[[Desc], Any]) -> int:
        return self._keep(make(given))

    def _several(self, struct: type[Any], given: Sequence[Desc], make: Callable[[Desc], Any]) -> int:
        return self._keep((struct * len(given))(*map(make, given)))

    def _array(self, number: type[Any], given: Sequence[Any]) -> int:
        return self._keep((number * len(given))(*(_number(number, each) for each in given)))

    def _struct(self, member: Desc, desc: Desc) -> Any:
        struct, given = _small_struct(member["struct"]), desc[member["name"]]
        made = struct(*(_number(kind, given[name]) for name, kind, *_ in struct._fields_))
        return self._keep(made) if member.get("optional") else made

    def _tensor(self, given: Desc) -> TensorDesc:
        tensor = given.get("Desc") or given
        data_type, sizes, strides = (
            _enumerated("DML_TENSOR_DATA_TYPE", tensor["DataType"]),
            tensor["Sizes"],
            tensor.get("Strides"),
        )
        desc = BufferTensorDesc(
            data_type,
            _flags(tensor.get("Flags")),
            len(sizes) if tensor.get("DimensionCount") is None else tensor["DimensionCount"],
            self._array(c.c_uint32, sizes),
            None if strides is None else self._array(c.c_uint32, strides),
            tensor.get("TotalTensorSizeInBytes") or _byte_size(data_type, sizes, strides),
            tensor.get("GuaranteedBaseOffsetAlignment") or 0,
        )
        return TensorDesc(1, self._keep(desc))


def _with_alias(member: Desc, desc: Desc) -> Desc:
    """Returns a desc that has a member under its own name."""
    alias = next((alias for alias in member.get("aliases", ()) if alias in desc and member["name"] not in desc), None)
    return desc if alias is None else {**desc, member["name"]: desc[alias]}


def _counted(member: Desc, desc: Desc) -> int:
    return next((len(desc[name]) for name in member["counts"] if desc.get(name) is not None), 0)


def _enumerated(enum: str, given: int | str) -> int:
    if isinstance(given, int):
        return given
    found = document("types")["enums"][enum]
    value: int = found["members"][given.removeprefix(found["prefix"])]["value"]
    return value


def _number(kind: type[Any], given: Any) -> Any:
    """Returns a number as a C type takes it; infinities and NaN may be text."""
    return float(given) if kind is c.c_float else int(given)


def _union(member: Desc, desc: Desc) -> int:
    """Returns the bytes of a ``DML_SCALAR_UNION`` as an integer: those after the number are 0."""
    given, name = desc[member["name"]], _type_name(desc[member["data_type"]])
    if isinstance(given, Mapping):
        ((view, given),) = given.items()
        if name == "FLOAT16" and view == "UInt16":
            return int(given)
    if name.startswith("FLOAT"):
        with np.errstate(over="ignore"):
            data = np.float64(given).astype(f"<f{_BITS[name] // 8}").tobytes()
        return int.from_bytes(data, "little")
    return int(given) % (1 << _BITS[name])


def _type_name(given: int | str) -> str:
    enum = document("types")["enums"]["DML_TENSOR_DATA_TYPE"]
    if isinstance(given, str):
        return given.removeprefix(str(enum["prefix"]))
    named = (name for name, member in enum["members"].items() if member["value"] == given)
    return next(named, "UINT64")  # for a type that does not exist, as many bytes as the union has


def _flags(given: Any) -> int:
    names = given if isinstance(given, list) else [given]
    return int(any(str(name).endswith("OWNED_BY_DML") or name == 1 for name in names))


def _byte_size(data_type: int, sizes: Sequence[int], strides: Sequence[int] | None) -> int:
    """Returns the smallest buffer that holds a tensor, rounded up to a multiple of 4 bytes."""
    extent = prod(sizes)
    if strides is not None:
        extent = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    return -(-extent * _BITS[_type_name(data_type)] // 32) * 4
