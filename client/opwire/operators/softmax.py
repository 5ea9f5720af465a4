"""Softmax, log-softmax and hardmax, along the last dimension or along axes.

Source: ``DML_ACTIVATION_SOFTMAX_OPERATOR_DESC``, ``DML_ACTIVATION_LOG_SOFTMAX_OPERATOR_DESC``,
``DML_ACTIVATION_HARDMAX_OPERATOR_DESC`` and their versions with a 1. Without axes, each element is a block of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ..level import FeatureLevel
from ..operator import Attributes, BadExample, Example, Operator, Tensors
from ..rules import axes, leading_ones, term
from ..violation import Code
from .axes import AlongAxes
from .elementwise import unary

_PER_BLOCK = 24
"""Fixed cost of a row or block, in element visits."""

_BLOCKS = [[[12, 0], [-101, 11]], [[3, 234], [0, -101]]]
"""The tensor in the worked example of HARDMAX1."""


def _desc(sizes: list[int], along: list[int] | None = None, data_type: str = "FLOAT32") -> dict[str, Any]:
    attributes = {} if along is None else {"AxisCount": len(along), "Axes": along}
    return {"InputTensor": {"DataType": data_type, "Sizes": sizes}, **attributes}


def _example(
    name: str, sizes: list[int], source: Sequence[Any], output: Sequence[Any], along: list[int] | None = None
) -> Example:
    return Example(
        name,
        _desc(sizes, along),
        {"InputTensor": source},
        {"OutputTensor": output},
        source="DML_ACTIVATION_HARDMAX1_OPERATOR_DESC, worked example" if source is _BLOCKS else "",
    )


def _work_of(name: str) -> Callable[[Attributes, Tensors], int]:
    """Each element is visited once, plus the fixed cost of a block; a softmax of a single element is constant."""
    least = 1 if "HARDMAX" in name else 2

    def work(attributes: Attributes, tensors: Tensors) -> int:
        output = tensors["OutputTensor"]
        size = prod(output.sizes[axis] for axis in getattr(attributes, "Axes", [-1]))
        count: int = output.element_count
        return count + (_PER_BLOCK * (count // size) if size >= least else 0)

    return work


def _of_rows(name: str, source: list[Any], output: list[Any], *more: Example) -> Operator[Attributes]:
    """Declares an operator along the last dimension of a matrix with optional leading ones."""
    bad = (
        BadExample("three_dimensions", _desc([2, 3, 4]), Code.SIZES_MISMATCH, "/InputTensor/Sizes/0"),
        BadExample(
            "matrix_before_3_0", _desc([3, 4]), Code.RANK_NOT_IN_LEVEL, "/InputTensor/Sizes", level=FeatureLevel.V2_1
        ),
    )
    rule = leading_ones("InputTensor", term(2))
    examples = (_example("rows", [2, 2], source, output), *more)
    return unary(name, rule, work=_work_of(name), examples=examples, bad_examples=bad)


def _along_axes(name: str, *examples: Example) -> Operator[Attributes]:
    """Declares an operator along axes, which together form blocks."""
    bad = (BadExample("axis_past_the_rank", _desc([2, 3], [2]), Code.AXIS_OUT_OF_RANGE, "/Axes/0"),)
    rule = axes("Axes", of="InputTensor")
    every = (*examples, _example("without_axes", [3], [-2, 0, 3], [0 if "LOG" in name else 1] * 3, []))
    return unary(name, rule, attributes=AlongAxes, work=_work_of(name), examples=every, bad_examples=bad)


_HALF = -0.6931471805599453

FAMILY = (
    _of_rows(
        "ACTIVATION_HARDMAX",
        [[1, 3], [5, 5]],
        [[0, 1], [1, 0]],
        _example("nan_wins_at_the_first_place", [2, 2], [["NaN", 1], [1, "NaN"]], [[1, 0], [1, 0]]),
    ),
    _of_rows("ACTIVATION_LOG_SOFTMAX", [[1, 1], [1000, 0]], [[_HALF, _HALF], [-0.0, -1000]]),
    _of_rows("ACTIVATION_SOFTMAX", [[1, 1], [1000, 0]], [[0.5, 0.5], [1, 0]]),
    _along_axes(
        "ACTIVATION_SOFTMAX1",
        _example("columns", [2, 2], [[1, 1000], [1, 0]], [[0.5, 1], [0.5, 0]], [0]),
        _example("one_block", [2, 2], [[3, 3], [3, 3]], [[0.25, 0.25], [0.25, 0.25]], [0, 1]),
    ),
    _along_axes(
        "ACTIVATION_LOG_SOFTMAX1",
        _example("columns", [2, 2], [[1, 1000], [1, 0]], [[_HALF, -0.0], [_HALF, -1000]], [0]),
    ),
    _along_axes(
        "ACTIVATION_HARDMAX1",
        _example("one_axis", [2, 2, 2], _BLOCKS, [[[1, 0], [0, 1]], [[1, 1], [0, 0]]], [1]),
        _example("two_axes", [2, 2, 2], _BLOCKS, [[[0, 0], [0, 1]], [[0, 1], [0, 0]]], [0, 2]),
    ),
)
