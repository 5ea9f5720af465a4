"""Products of matrices, also of quantized ones."""

from __future__ import annotations

from math import prod

import numpy as np

from ...client.graph_tensors import GraphTensor
from ...tensor import DataType
from ..errors import NotLowered
from ..lowering import NodeLowering, lifted, lowers, spread

FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
"""The data types that GEMM takes."""


@lowers("Gemm")
def gemm(node: NodeLowering) -> GraphTensor:
    """Lowers Alpha A B + Beta C of matrices."""
    a, b = node.lifted(0), node.lifted(1)
    trans_a, trans_b = bool(node.attribute("transA")), bool(node.attribute("transB"))
    sizes = (1, 1, a.sizes[2 + trans_a], b.sizes[3 - trans_b])
    c = spread(lifted(node.tensor(2), 4), sizes) if node.has(2) else None
    return node.emit(
        "GEMM",
        ATensor=a,
        BTensor=b,
        CTensor=c,
        TransA="TRANSPOSE" if trans_a else "NONE",
        TransB="TRANSPOSE" if trans_b else "NONE",
        Alpha=node.attribute("alpha"),
        Beta=node.attribute("beta"),
    )


def product(node: NodeLowering, a: GraphTensor, b: GraphTensor, bias: GraphTensor | None = None) -> GraphTensor:
    """Emits A B^T + bias of matrices at rank 4, for B with a row for each column of the result."""
    c = None if bias is None else spread(lifted(bias, 4), (*a.sizes[:3], b.sizes[2]))
    return node.emit(
        "GEMM",
        ATensor=a,
        BTensor=b,
        CTensor=c,
        TransA="NONE",
        TransB="TRANSPOSE",
        Alpha=1.0,
        Beta=0.0 if c is None else 1.0,
    )


def matrices(a: GraphTensor, b: GraphTensor, batches: int = 2) -> tuple[GraphTensor, GraphTensor]:
    """Returns the operands of a product as NumPy takes them, as stacks of matrices with common batch dimensions.

    Args:
        a, b: the operands; one of a single dimension is a row or a column.
        batches: the number of batch dimensions.
    """
    a = a.reshape(1, -1) if len(a.sizes) == 1 else a
    b = b.reshape(-1, 1) if len(b.sizes) == 1 else b
    try:
        batch = np.broadcast_shapes(a.sizes[:-2], b.sizes[:-2])
    except ValueError:
        raise NotLowered(f"the matrices {list(a.sizes)} and {list(b.sizes)} cannot be multiplied") from None
    return _stacked(a, batch, batches), _stacked(b, batch, batches)


def _stacked(tensor: GraphTensor, batch: tuple[int, ...], batches: int) -> GraphTensor:
    """Returns matrices spread over a batch, whose first dimensions are merged if there are too many."""
    matrix, excess = tensor.sizes[-2:], len(batch) - batches
    merged = batch if excess <= 0 else (prod(batch[: excess + 1]), *batch[excess + 1 :])
    wanted = ((1,) * (batches - len(merged)) + merged)[-batches:]
    if prod(tensor.sizes[:-2]) == 1:  # one matrix for the whole batch
        return spread(tensor.reshape(matrix), (*wanted, *matrix))
    return spread(tensor, (*batch, *matrix)).reshape(*wanted, *matrix) if excess > 0 else _in_batch(tensor, wanted)


def _in_batch(tensor: GraphTensor, batch: tuple[int, ...]) -> GraphTensor:
    return spread(lifted(tensor, len(batch) + 2), (*batch, *tensor.sizes[-2:]))


@lowers("MatMul")
def matmul(node: NodeLowering) -> GraphTensor:
    if node.data_type(0) not in FLOATS:
        return _by_sums(node)
    a, b = matrices(node.tensor(0), node.tensor(1))
    return node.emit("GEMM", ATensor=a, BTensor=b, TransA="NONE", TransB="NONE", Alpha=1.0, Beta=0.0)


def _by_sums(node: NodeLowering) -> GraphTensor:
    """Lowers a product of integers, which GEMM does not take, to sums of products of elements."""
    a, b = matrices(node.tensor(0), node.tensor(1), 1)
    (batch, m, k), n = a.sizes, b.sizes[2]
    (a_batch, *a_strides), (b_batch, *b_strides) = a.desc.element_strides, b.desc.element_strides
    sizes = (batch, m, k, n)
    products = node.emit(
        "ELEMENT_WISE_MULTIPLY",
        ATensor=a.with_strides(sizes, (a_batch, *a_strides, 0)),
        BTensor=b.with_strides(sizes, (b_batch, 0, *b_strides)),
    )
    output = node.desc(a.data_type, (batch, m, 1, n))
    return node.emit("REDUCE", Function="SUM", InputTensor=products, OutputTensor=output, Axes=[2])


def _parameter(node: NodeLowering, i: int, axis: int, count: int) -> GraphTensor:
    """Returns a parameter of one element, or of one for each row or column, along that axis of rank 4.

    Args:
        node: the node.
        i: the place of the parameter among its inputs.
        axis: -2 if it belongs to rows, -1 if to columns.
        count: the number of rows or columns.
    """
    given = node.tensor(i)
    elements = given.desc.element_count
    if elements == 1:
        return given.reshape(1, 1, 1, 1)
    along = given.sizes[-1] if len(given.sizes) == 1 else given.sizes[axis]
    if elements != along or along != count:
        kind = "row" if axis == -2 else "column"
        raise NotLowered(f"{node.value(i)} is neither one number nor one for each {kind}, of which there are {count}")
    return given.reshape((1, 1, -1, 1) if axis == -2 else (1, 1, 1, -1))


def quantized_parameters(
    node: NodeLowering, name: str, places: tuple[int, int], axis: int, count: int
) -> dict[str, GraphTensor]:
    """Returns the scale and, if it is given, the zero point of an operand, with common sizes.

    Args:
        node: the node.
        name: the prefix of the members.
        places: where scale and zero point are among the inputs.
        axis: -2 if they belong to rows, -1 if to columns.
        count: the number of rows or columns.
    """
    scale = _parameter(node, places[0], axis, count)
    if not node.has(places[1]):
        return {f"{name}ScaleTensor": scale}
    zero_point = _parameter(node, places[1], axis, count)
    sizes = tuple(np.broadcast_shapes(scale.sizes, zero_point.sizes))
    return {f"{name}ScaleTensor": spread(scale, sizes), f"{name}ZeroPointTensor": spread(zero_point, sizes)}


@lowers("MatMulInteger")
def matmul_integer(node: NodeLowering) -> GraphTensor:
    a, b = matrices(node.tensor(0), node.tensor(1))
    return node.emit(
        "MATRIX_MULTIPLY_INTEGER",
        ATensor=a,
        AZeroPointTensor=_parameter(node, 2, -2, a.sizes[2]) if node.has(2) else None,
        BTensor=b,
        BZeroPointTensor=_parameter(node, 3, -1, b.sizes[3]) if node.has(3) else None,
    )


@lowers("QLinearMatMul")
def qlinear_matmul(node: NodeLowering) -> GraphTensor:
    a, b = matrices(node.tensor(0), node.tensor(3))
    rows, columns = a.sizes[2], b.sizes[3]
    parameters = {
        **quantized_parameters(node, "A", (1, 2), -2, rows),
        **quantized_parameters(node, "B", (4, 5), -1, columns),
        **quantized_parameters(node, "Output", (6, 7), -2, rows),
    }
    scales = {name: each for name, each in parameters.items() if name.endswith("ScaleTensor")}
    return node.emit(
        "QUANTIZED_LINEAR_MATRIX_MULTIPLY",
        ATensor=a,
        BTensor=b,
        OutputTensor=node.desc(node.data_type(7), (*a.sizes[:3], columns)),
        **parameters | {name: node.cast(each, DataType.FLOAT32) for name, each in scales.items()},
    )
