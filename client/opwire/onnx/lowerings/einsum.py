"""Sums of products of elements, by the labels of their dimensions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from math import prod
from typing import NamedTuple

from ...client.graph_tensors import GraphTensor
from ..errors import NotLowered
from ..lowering import NodeLowering, lifted, lowers
from .products import FLOATS, product

Labels = tuple[str, ...]

_ELLIPSIS = "..."

_ONE = "1"
"""The label of the only dimension of a scalar."""


class _Operand(NamedTuple):
    """A tensor with a label for each dimension, all different."""

    tensor: GraphTensor
    labels: Labels

    @property
    def strides(self) -> dict[str, int]:
        """The strides by label; 0 for a single element, which is repeated where other operands have more."""
        each = zip(self.labels, self.tensor.sizes, self.tensor.desc.element_strides, strict=True)
        return {label: stride if size > 1 else 0 for label, size, stride in each}


@lowers("Einsum")
def einsum(node: NodeLowering) -> GraphTensor:
    """Lowers a sum of products, operand by operand: a GEMM where labels are summed, else a product of elements."""
    operands, output = _read(node)
    sizes = _sizes(operands)
    found, *others = operands
    for i, other in enumerate(others, 1):
        kept = {*output, *(label for operand in operands[i + 1 :] for label in operand.labels)}
        found = _multiplied(node, found, other, kept, sizes)
    return _laid_out(_summed(node, found, output), output or (_ONE,), sizes)


def _read(node: NodeLowering) -> tuple[list[_Operand], Labels]:
    """Returns the operands of the equation, and the labels of its result."""
    terms, arrow, result = "".join(node.attribute("equation", "").split()).partition("->")
    listed = terms.split(",")
    if len(listed) != node.input_count:
        raise NotLowered(f"its equation has {len(listed)} terms for {node.input_count} inputs")
    labelled = [_labels(term, node.rank(i)) for i, term in enumerate(listed)]
    operands = [_diagonal(node.tensor(i), labels or (_ONE,)) for i, labels in enumerate(labelled)]
    dots = max(([each for each in labels if each.startswith(_ELLIPSIS)] for labels in labelled), key=len)
    if arrow:
        before, ellipsis, after = result.partition(_ELLIPSIS)
        return operands, (*before, *(dots if ellipsis else ()), *after)
    letters = Counter(terms.replace(_ELLIPSIS, "").replace(",", ""))
    return operands, (*dots, *sorted(label for label, count in letters.items() if count == 1))


def _labels(term: str, rank: int) -> Labels:
    """Returns the labels of the dimensions of a term; those of an ellipsis are numbered from the last one."""
    before, ellipsis, after = term.partition(_ELLIPSIS)
    hidden = rank - len(before) - len(after)
    if hidden < 0 or (hidden and not ellipsis):
        raise NotLowered(f"its term {term!r} has another number of labels than its input, of rank {rank}, dimensions")
    return (*before, *(f"{_ELLIPSIS}{i}" for i in reversed(range(hidden))), *after)


def _diagonal(tensor: GraphTensor, labels: Labels) -> _Operand:
    """Returns a tensor with each label once: those of one label move along its dimensions together."""
    unique = tuple(dict.fromkeys(labels))
    if unique == labels:
        return _Operand(tensor, labels)
    sizes, strides = dict(zip(labels, tensor.sizes, strict=True)), dict.fromkeys(unique, 0)
    for label, size, stride in zip(labels, tensor.sizes, tensor.desc.element_strides, strict=True):
        if size != sizes[label]:
            raise NotLowered(f"its label {label} stands for sizes {size} and {sizes[label]} of one input")
        strides[label] += stride
    return _Operand(tensor.with_strides(sizes.values(), strides.values()), unique)


def _sizes(operands: Sequence[_Operand]) -> dict[str, int]:
    """Returns the sizes by label; a size of 1 yields to others."""
    sizes = {_ONE: 1}
    for operand in operands:
        for label, size in zip(operand.labels, operand.tensor.sizes, strict=True):
            known = sizes.get(label, 1)
            if 1 not in (known, size) and size != known:
                raise NotLowered(f"its label {label} stands for the sizes {known} and {size}")
            sizes[label] = max(known, size)
    return sizes


def _summed(node: NodeLowering, operand: _Operand, kept: Collection[str]) -> _Operand:
    """Returns an operand without the labels that are not kept, over which it is summed."""
    left = tuple(label for label in operand.labels if label in kept)
    if left == operand.labels:
        return operand
    tensor = lifted(operand.tensor, 4)
    missing = len(tensor.sizes) - len(operand.labels)
    axes = [missing + i for i, label in enumerate(operand.labels) if label not in kept]
    sizes = [1 if axis in axes else size for axis, size in enumerate(tensor.sizes)]
    if prod(tensor.sizes) != prod(sizes):
        output = node.desc(tensor.data_type, sizes)
        tensor = node.emit("REDUCE", Function="SUM", InputTensor=tensor, OutputTensor=output, Axes=axes)
    known = dict(zip(operand.labels, operand.tensor.sizes, strict=True))
    return _Operand(tensor.reshape([known[label] for label in left] or [1]), left or (_ONE,))


def _multiplied(node: NodeLowering, a: _Operand, b: _Operand, kept: Set[str], sizes: Mapping[str, int]) -> _Operand:
    """Returns the product of two operands, summed over the labels that are not kept."""
    a = _summed(node, a, {*kept, *b.labels})
    b = _summed(node, b, {*kept, *a.labels})
    shared = tuple(label for label in a.labels if label in b.labels)
    batch, summed = (tuple(each for each in shared if (each in kept) is wanted) for wanted in (True, False))
    rows, columns = (tuple(each for each in operand.labels if each not in shared) for operand in (a, b))
    labels = (*batch, *rows, *columns)
    if summed and a.tensor.data_type in FLOATS:
        one, other = (_grouped(operand, (batch, own, summed), sizes) for operand, own in ((a, rows), (b, columns)))
        found = product(node, one, other)
        return _Operand(found.reshape([sizes[label] for label in labels] or [1]), labels or (_ONE,))
    every = (*labels, *summed)
    one, other = (lifted(_laid_out(operand, every, sizes), 4) for operand in (a, b))
    found = node.emit("ELEMENT_WISE_MULTIPLY", ATensor=one, BTensor=other)
    return _summed(node, _Operand(found.reshape([sizes[label] for label in every] or [1]), every or (_ONE,)), kept)


def _laid_out(operand: _Operand, labels: Labels, sizes: Mapping[str, int]) -> GraphTensor:
    """Returns a view with a dimension for each label, in their order; what an operand lacks is repeated."""
    wanted, strides = tuple(sizes[label] for label in labels), operand.strides
    if labels == operand.labels and wanted == operand.tensor.sizes:
        return operand.tensor
    return operand.tensor.with_strides(wanted or (1,), [strides.get(label, 0) for label in labels] or (1,))


def _grouped(operand: _Operand, groups: Sequence[Labels], sizes: Mapping[str, int]) -> GraphTensor:
    """Returns a view of rank 4 whose last dimensions stand for groups of labels, after a copy if these need one."""
    laid_out = _laid_out(operand, tuple(label for group in groups for label in group) or (_ONE,), sizes)
    if max(map(len, groups)) > 1:
        return laid_out.reshape(1, *(prod(sizes[label] for label in group) for group in groups))
    strides = [0, *(operand.strides.get(label, 0) for group in groups for label in group or ("",))]
    return laid_out.with_strides([1, *(sizes[label] for group in groups for label in group or (_ONE,))], strides)
