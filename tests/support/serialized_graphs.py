"""Writes single-operator graphs in ONNX Runtime's file format, with the official FlatBuffers package.

Descs are written according to the header's fields, which the reader does not use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import flatbuffers
import numpy as np

from opwire.check import Plan
from opwire.tensor import BufferTensorDesc, DataType
from tests.directml.documented import OPERATORS

_OPERATOR, _CONSTANT = 1, 2
_CONSTANT_BYTES = 2
_BYTE_ARRAY = 1

Builder = Any


def file_of(plan: Plan, constants: Mapping[str, bytes] = {}, names: Mapping[str, str] = {}) -> bytes:
    """Returns the file of a graph with one operator, whose tensors are those of the graph, except for constants.

    Args:
        plan: The plan of the operator.
        constants: The bytes of constants, by tensor.
        names: The names of nodes: of constants by tensor, and of the operator by "node". By default the same.
    """
    builder = flatbuffers.Builder(1024)
    inputs, outputs = (_slots(plan, role) for role in ("input", "output"))
    held = [_constant(builder, names.get(name, name), name, data) for name, data in constants.items()]
    node = _table(
        builder,
        {
            0: ("Uint8", _OPERATOR),
            1: _operator(builder, plan),
            2: _text(builder, names.get("node", "node")),
            3: _texts(builder, [name if desc else "" for name, desc in inputs.items()]),
            4: _texts(builder, [name if desc else "" for name, desc in outputs.items()]),
        },
    )
    fed = [name for name, desc in inputs.items() if desc and name not in constants]
    given = [name for name, desc in outputs.items() if desc]
    root = _table(builder, {0: _offsets(builder, [*held, node]), 1: _texts(builder, fed), 2: _texts(builder, given)})
    builder.Finish(root)
    return bytes(builder.Output())


def _slots(plan: Plan, role: str) -> dict[str, BufferTensorDesc | None]:
    """Returns all inputs or outputs of the struct, those of arrays one by one; None for those the desc omits."""
    tensors = {**plan.inputs, **plan.outputs}
    slots: dict[str, BufferTensorDesc | None] = {}
    for field in OPERATORS[plan.operator.name]["fields"]:
        if field.get("role") != role:
            continue
        if field["type"] == "tensor[]":
            slots |= {name: desc for name, desc in tensors.items() if name.startswith(field["name"] + "[")}
        else:
            slots[field["name"]] = tensors.get(field["name"])
    return slots


def _operator(builder: Builder, plan: Plan) -> int:
    fields = [field for field in OPERATORS[plan.operator.name]["fields"] if "role" not in field]
    values: dict[str, Any] = {}
    for name in (field["name"] for field in fields if "counts" not in field):
        values[name] = getattr(plan.attributes, name)
    for name in (*plan.inputs, *plan.outputs):
        values.setdefault(name.partition("[")[0], []).append(name)
    return _table(
        builder,
        {
            0: _text(builder, f"DML_OPERATOR_{plan.operator.name}"),
            1: _offsets(builder, [_tensor(builder, desc) for desc in _slots(plan, "input").values() if desc]),
            2: _offsets(builder, [_tensor(builder, desc) for desc in _slots(plan, "output").values() if desc]),
            3: _attributes(builder, fields, values),
        },
    )


def _tensor(builder: Builder, desc: BufferTensorDesc) -> int:
    return _table(
        builder,
        {
            0: _text(builder, f"DML_TENSOR_DATA_TYPE_{desc.data_type.name}"),
            1: _numbers(builder, "Uint32", desc.sizes),
            2: None if desc.strides is None else _numbers(builder, "Uint32", desc.strides),
            3: ("Uint64", desc.total_size_in_bytes),
        },
    )


def _constant(builder: Builder, name: str, tensor: str, data: bytes) -> int:
    """Writes a node that holds constant bytes."""
    detail = _table(builder, {0: builder.CreateByteVector(data)})
    desc = _table(builder, {0: ("Uint8", _CONSTANT_BYTES), 1: detail})
    named = _texts(builder, [tensor])
    return _table(builder, {0: ("Uint8", _CONSTANT), 1: desc, 2: _text(builder, name), 4: named})


def _attributes(builder: Builder, fields: Iterable[Mapping[str, Any]], values: Mapping[str, Any]) -> int:
    """Writes an entry for each field that is not a tensor, in the order of the struct."""
    types = next((field["name"] for field in fields if field["type"] == "enum:DML_TENSOR_DATA_TYPE"), "")
    made = []
    for field in fields:
        value = len(values[field["counts"][0]]) if "counts" in field else values[field["name"]]
        if field["type"] == "DML_SCALAR_UNION":
            value = np.array([value], values[types].dtype).tobytes().ljust(8, b"\0")
        kind, write = _kind(field["type"])
        stored = None if value is None else write(builder, value)
        made.append(_table(builder, {0: _text(builder, field["name"]), 1: ("Uint8", kind), 2: stored}))
    return _offsets(builder, made)


def _kind(declared: str) -> tuple[int, Callable[[Builder, Any], int]]:
    """Returns an attribute's type code in the file, and the function that writes it."""
    return _KINDS["UINT" if declared.startswith("enum:") else declared]


def _number(form: str) -> Callable[[Builder, Any], int]:
    return lambda builder, value: _struct(builder, form, [value])


def _struct(builder: Builder, form: str, values: Iterable[Any]) -> int:
    """Writes numbers inline, without a table."""
    listed = [_plain(value) for value in values]
    builder.Prep(4, 4 * len(listed))
    for value in reversed(listed):
        getattr(builder, f"Prepend{form}")(value)
    return int(builder.Offset())


def _plain(value: Any) -> int | float:
    if isinstance(value, DataType):
        return value.code
    return value if isinstance(value, float) else int(value)


def _array(form: str) -> Callable[[Builder, Any], int]:
    return lambda builder, value: _table(builder, {0: _numbers(builder, form, value)})


def _union(builder: Builder, data: bytes) -> int:
    builder.Prep(1, 8)
    for byte in reversed(data):
        builder.PrependByte(byte)
    inner = int(builder.Offset())
    return _table(builder, {0: ("Uint8", _BYTE_ARRAY), 1: inner})


def _nested(builder: Builder, operator: Any) -> int:
    fields = [field for field in OPERATORS[operator.name]["fields"] if "role" not in field]
    name = _text(builder, f"DML_OPERATOR_{operator.name}")
    return _table(builder, {0: name, 1: _attributes(builder, fields, operator.values)})


def _all_nested(builder: Builder, operators: Iterable[Any]) -> int:
    return _table(builder, {0: _offsets(builder, [_nested(builder, each) for each in operators])})


_KINDS: dict[str, tuple[int, Callable[[Builder, Any], int]]] = {
    "operator": (1, _nested),
    "operator[]": (2, _all_nested),
    "UINT": (3, _number("Uint32")),
    "BOOL": (3, _number("Uint32")),
    "UINT64": (4, _number("Uint64")),
    "INT": (5, _number("Int32")),
    "FLOAT": (6, _number("Float32")),
    "UINT[]": (7, _array("Uint32")),
    "INT[]": (8, _array("Int32")),
    "FLOAT[]": (9, _array("Float32")),
    "DML_SCALE_BIAS": (10, lambda builder, value: _struct(builder, "Float32", value)),
    "DML_SIZE_2D": (11, lambda builder, value: _struct(builder, "Uint32", value)),
    "DML_SCALAR_UNION": (12, _union),
}


def _table(builder: Builder, fields: Mapping[int, Any]) -> int:
    """Writes a table from offsets, (form, number) pairs, and None for absent fields."""
    builder.StartObject(max(fields) + 1)
    for number, value in fields.items():
        if isinstance(value, tuple):
            getattr(builder, f"Prepend{value[0]}Slot")(number, value[1], 0)
        elif value is not None:
            builder.PrependUOffsetTRelativeSlot(number, value, 0)
    return int(builder.EndObject())


def _text(builder: Builder, text: str) -> int:
    return int(builder.CreateString(text))


def _texts(builder: Builder, texts: Iterable[str]) -> int:
    return _offsets(builder, [_text(builder, text) for text in texts])


def _offsets(builder: Builder, offsets: list[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _numbers(builder: Builder, form: str, values: Iterable[Any]) -> int:
    listed = [_plain(value) for value in values]
    builder.StartVector(4, len(listed), 4)
    for value in reversed(listed):
        getattr(builder, f"Prepend{form}")(value)
    return int(builder.EndVector())
