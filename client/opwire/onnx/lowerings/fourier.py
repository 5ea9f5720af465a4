"""Fourier transforms as products with constant matrices, which DirectML has no other operator for."""

from __future__ import annotations

from math import prod

import numpy as np

from ...client.graph_tensors import GraphTensor
from ...tensor import Array, DataType
from ..errors import NotLowered
from ..lowering import NodeLowering, lifted, lowers, spread
from .products import FLOATS

_LARGEST = 2**24
"""The most elements of a matrix; the fast transform of longer ones is better left to the CPU."""


@lowers("DFT")
def dft(node: NodeLowering) -> GraphTensor:
    sizes = node.sizes(0)
    axis = node.axis(_axis(node), len(sizes))
    inverse, onesided = (bool(node.attribute(name, 0)) for name in ("inverse", "onesided"))
    default = 2 * (sizes[axis] - 1) if inverse and onesided else sizes[axis]
    length = node.integers(1)[0] if node.has(1) else default
    matrix = _matrix(sizes[axis], sizes[-1], length, inverse=inverse, onesided=onesided)
    parts = 1 if inverse and onesided else 2
    return _along(node, axis, matrix, parts)


def _axis(node: NodeLowering) -> int:
    """Returns the axis, which was an attribute before it became an input."""
    if node.since < 20:
        return int(node.attribute("axis", 1))
    return node.integers(2)[0] if node.has(2) else -2


def _matrix(count: int, parts: int, length: int, *, inverse: bool, onesided: bool) -> Array:
    """Returns the transform as a matrix: a row for each number of the input, a column for each of the result.

    Args:
        count: the number of elements to transform.
        parts: 1 if they are real, 2 if they are complex.
        length: the length of the transform, to which elements are cut, or continued by zeros.
        inverse, onesided: as in ONNX.
    """
    if count * parts * length * 2 > _LARGEST:
        raise NotLowered(f"its length {length} takes a matrix of more than {_LARGEST} elements")
    units = [np.eye(count), np.eye(count) * 1j][:parts]
    basis = np.stack(units, 1).reshape(count * parts, count)
    if inverse and onesided:
        return np.fft.irfft(basis, length)
    found = (np.fft.ifft if inverse else np.fft.fft)(basis, length)
    kept = found[:, : length // 2 + 1] if onesided else found
    return np.stack([kept.real, kept.imag], -1).reshape(count * parts, -1)


def _along(node: NodeLowering, axis: int, matrix: Array, parts: int) -> GraphTensor:
    """Returns the transform along an axis, which the view before the product has before real and imaginary parts."""
    sizes = node.sizes(0)
    outer, inner = prod(sizes[:axis]), prod(sizes[axis + 1 : -1])
    x = node.tensor(0).reshape(outer, sizes[axis], inner, sizes[-1]).transpose(0, 2, 1, 3)
    found = _transformed(node, x, matrix).reshape(outer, inner, -1, parts)
    count = found.sizes[2]
    return found.transpose(0, 2, 1, 3).reshape(*sizes[:axis], count, *sizes[axis + 1 : -1], parts)


def _transformed(node: NodeLowering, x: GraphTensor, matrix: Array) -> GraphTensor:
    """Returns the product of rows, which the last two dimensions are, with a matrix."""
    data_type = node.data_type(0)
    if data_type not in FLOATS:
        raise NotLowered(f"it transforms {data_type.name}, which DirectML has no products of")
    rows = node.cast(x.reshape(1, 1, -1, matrix.shape[0]), DataType.FLOAT32)
    rounded = matrix.astype("f4")
    found: GraphTensor | None = None
    for part in ((matrix - rounded).astype("f4"), rounded):  # two numbers of FLOAT32 are as good as one of FLOAT64
        found = node.emit(
            "GEMM",
            ATensor=rows,
            BTensor=lifted(node.graph.constant(part), 4),
            CTensor=found,
            TransA="NONE",
            TransB="NONE",
            Alpha=1.0,
            Beta=1.0,
        )
    assert found is not None
    return node.cast(found, data_type)


@lowers("STFT")
def stft(node: NodeLowering) -> GraphTensor:
    """Lowers the transforms of frames, which overlap in a view, times a window."""
    batch, total, parts = node.sizes(0)
    step = node.integers(1)[0]
    length = node.integers(3)[0] if node.has(3) else node.sizes(2)[0] if node.has(2) else total
    count = (total - length) // step + 1
    if count < 1:
        raise NotLowered(f"its frames of {length} elements are longer than the signal, of {total}")
    strides = (total * parts, step * parts, parts, 1)
    frames = node.tensor(0).with_strides((batch, count, length, parts), strides)
    if node.has(2):
        window = spread(node.tensor(2).reshape(length, 1), frames.sizes)
        frames = node.emit("ELEMENT_WISE_MULTIPLY", ATensor=frames, BTensor=window)
    matrix = _matrix(length, parts, length, inverse=False, onesided=bool(node.attribute("onesided", 1)))
    return _transformed(node, frames, matrix).reshape(batch, count, -1, 2)
