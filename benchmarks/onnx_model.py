"""ONNX models of one node, as the bytes of their protocol buffers; so the benchmark needs no library to make them.

Field numbers are those of ``onnx.proto3``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

ELEMENT_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "float16": 10, "bool": 9}
"""``TensorProto.DataType`` by NumPy name."""

_IR_VERSION, _OPSET = 9, 18
_ELEMENTWISE_OPSET = 20
"""The first with Gelu."""

_INT, _INTS = 2, 7
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


def _attribute(name: str, value: int | Sequence[int]) -> bytes:
    if isinstance(value, int):
        return _bytes(1, name) + _integer(20, _INT) + _integer(3, value)
    return _bytes(1, name) + _integer(20, _INTS) + b"".join(_integer(8, item) for item in value)


def _tensor_info(name: str, dtype: str, sizes: Sequence[int] | None) -> bytes:
    tensor = _integer(1, ELEMENT_TYPES[dtype])
    if sizes is not None:
        tensor += _bytes(2, b"".join(_bytes(1, _integer(1, size)) for size in sizes))
    return _bytes(1, name) + _bytes(2, _bytes(1, tensor))


def _constant(name: str, integers: Sequence[int]) -> bytes:
    data = np.array(integers, "<i8").tobytes()
    return _integer(1, len(integers)) + _integer(2, ELEMENT_TYPES["int64"]) + _bytes(8, name) + _bytes(9, data)


def model(
    operator: str,
    dtype: str,
    sizes: Sequence[int],
    outputs: Mapping[str, str],
    attributes: Mapping[str, int | Sequence[int]],
    axes: Sequence[int] | None = None,
) -> bytes:
    """A model that applies one operator to an input ``x``.

    Args:
        operator: of the default domain.
        dtype: of the input.
        sizes: of the input.
        outputs: data types by name.
        attributes: of the operator.
        axes: its second input, a constant, if it has one.
    """
    node = _bytes(1, "x") + (b"" if axes is None else _bytes(1, "axes"))
    node += b"".join(_bytes(2, name) for name in outputs) + _bytes(4, operator)
    node += b"".join(_bytes(5, _attribute(name, value)) for name, value in attributes.items())
    graph = _bytes(1, node) + _bytes(2, "benchmark")
    if axes is not None:
        graph += _bytes(5, _constant("axes", axes))
    graph += _bytes(11, _tensor_info("x", dtype, sizes))
    graph += b"".join(_bytes(12, _tensor_info(name, of, None)) for name, of in outputs.items())
    return _integer(1, _IR_VERSION) + _bytes(8, _integer(2, _OPSET)) + _bytes(7, graph)


def elementwise(operator: str, inputs: Sequence[tuple[str, Sequence[int], bool]], output: str) -> bytes:
    """A model of an operator of single elements, with inputs ``x0``, ``x1`` and the output ``y``.

    Args:
        operator: of the default domain.
        inputs: of each the data type, the sizes in memory, and whether its two dimensions are to be transposed.
        output: the data type of the result.
    """
    graph, names = b"", []
    for number, (_, _, is_transposed) in enumerate(inputs):
        names.append(f"t{number}" if is_transposed else f"x{number}")
        if is_transposed:
            node = _bytes(1, f"x{number}") + _bytes(2, names[-1]) + _bytes(4, "Transpose")
            graph += _bytes(1, node + _bytes(5, _attribute("perm", [1, 0])))
    graph += _bytes(1, b"".join(_bytes(1, name) for name in names) + _bytes(2, "y") + _bytes(4, operator))
    graph += _bytes(2, "benchmark")
    graph += b"".join(_bytes(11, _tensor_info(f"x{i}", dtype, sizes)) for i, (dtype, sizes, _) in enumerate(inputs))
    graph += _bytes(12, _tensor_info("y", output, None))
    return _integer(1, _IR_VERSION) + _bytes(8, _integer(2, _ELEMENTWISE_OPSET)) + _bytes(7, graph)
