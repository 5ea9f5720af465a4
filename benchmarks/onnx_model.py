"""Writes ONNX models as protocol buffers, so that the benchmarks need no library for it.

Field numbers are those of ``onnx.proto3``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np

from opwire.tensor import Array

ELEMENT_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10}
"""``TensorProto.DataType`` by NumPy name."""

_IR_VERSION, _OPSET = 9, 18
_ELEMENTWISE_OPSET = 20
"""The first opset with Gelu."""

_FLOAT, _INT, _STRING, _INTS = 1, 2, 3, 7
"""``AttributeProto.AttributeType``."""


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes((*encoded, value))


def _integer(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes | str) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _attribute(name: str, value: float | str | Sequence[int]) -> bytes:
    if isinstance(value, str):
        return _bytes(1, name) + _integer(20, _STRING) + _bytes(4, value)
    if isinstance(value, float):
        return _bytes(1, name) + _integer(20, _FLOAT) + _varint(2 << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return _bytes(1, name) + _integer(20, _INT) + _integer(3, value)
    return _bytes(1, name) + _integer(20, _INTS) + b"".join(_integer(8, item) for item in value)


def _tensor_info(name: str, dtype: str, sizes: Sequence[int] | None) -> bytes:
    tensor = _integer(1, ELEMENT_TYPES[dtype])
    if sizes is not None:
        tensor += _bytes(2, b"".join(_bytes(1, _integer(1, size)) for size in sizes))
    return _bytes(1, name) + _bytes(2, _bytes(1, tensor))


def _constant(name: str, array: Array) -> bytes:
    sizes = b"".join(_integer(1, size) for size in array.shape)
    return sizes + _integer(2, ELEMENT_TYPES[array.dtype.name]) + _bytes(8, name) + _bytes(9, array.tobytes())


def node(
    operator: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    attributes: Mapping[str, float | str | Sequence[int]],
    domain: str = "",
) -> bytes:
    """Encodes a node; integers become integer attributes."""
    content = b"".join(_bytes(1, name) for name in inputs) + b"".join(_bytes(2, name) for name in outputs)
    content += _bytes(4, operator) + b"".join(_bytes(5, _attribute(name, value)) for name, value in attributes.items())
    return content + (_bytes(7, domain) if domain else b"")


def network(
    nodes: Sequence[bytes],
    constants: Mapping[str, Array],
    inputs: Mapping[str, tuple[str, Sequence[int]]],
    outputs: Mapping[str, str],
    domains: Mapping[str, int],
) -> bytes:
    """Encodes a model with several nodes.

    Args:
        nodes: in topological order.
        constants: arrays by name.
        inputs: data types and sizes by name.
        outputs: data types by name.
        domains: the operator domains with their versions.
    """
    graph = b"".join(_bytes(1, each) for each in nodes) + _bytes(2, "benchmark")
    graph += b"".join(_bytes(5, _constant(name, array)) for name, array in constants.items())
    graph += b"".join(_bytes(11, _tensor_info(name, dtype, sizes)) for name, (dtype, sizes) in inputs.items())
    graph += b"".join(_bytes(12, _tensor_info(name, dtype, None)) for name, dtype in outputs.items())
    imports = b"".join(
        _bytes(8, (_bytes(1, domain) if domain else b"") + _integer(2, version)) for domain, version in domains.items()
    )
    return _integer(1, _IR_VERSION) + imports + _bytes(7, graph)


def model(
    operator: str,
    dtype: str,
    sizes: Sequence[int],
    outputs: Mapping[str, str],
    attributes: Mapping[str, int | Sequence[int]],
    axes: Sequence[int] | None = None,
) -> bytes:
    """Encodes a model that applies one operator to an input ``x``.

    Args:
        operator: an operator of the default domain.
        dtype: data type of the input.
        sizes: sizes of the input.
        outputs: data types by name.
        attributes: attributes of the operator.
        axes: its constant second input, if any.
    """
    constants = {} if axes is None else {"axes": np.array(axes, "<i8")}
    only = node(operator, ["x", *constants], list(outputs), attributes)
    return network([only], constants, {"x": (dtype, sizes)}, outputs, {"": _OPSET})


def elementwise(operator: str, inputs: Sequence[tuple[str, Sequence[int], bool]], output: str) -> bytes:
    """Encodes a model of an elementwise operator, with inputs ``x0``, ``x1`` and the output ``y``.

    Args:
        operator: an operator of the default domain.
        inputs: data type, sizes in memory, and whether to transpose the two dimensions, for each input.
        output: data type of the result.
    """
    names = [f"t{number}" if is_transposed else f"x{number}" for number, (_, _, is_transposed) in enumerate(inputs)]
    transposed = [number for number, (_, _, is_transposed) in enumerate(inputs) if is_transposed]
    nodes = [node("Transpose", [f"x{number}"], [f"t{number}"], {"perm": [1, 0]}) for number in transposed]
    nodes.append(node(operator, names, ["y"], {}))
    given = {f"x{number}": (dtype, sizes) for number, (dtype, sizes, _) in enumerate(inputs)}
    return network(nodes, {}, given, {"y": output}, {"": _ELEMENTWISE_OPSET})
