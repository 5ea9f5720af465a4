"""Matrix products: of floats, of integers, and of quantized numbers.

Source: ``DML_GEMM_OPERATOR_DESC``, ``DML_MATRIX_MULTIPLY_INTEGER_OPERATOR_DESC``,
``DML_MATRIX_MULTIPLY_INTEGER_TO_FLOAT_OPERATOR_DESC`` and ``DML_QUANTIZED_LINEAR_MATRIX_MULTIPLY_OPERATOR_DESC``.
The matrices of integer products may have different ranks; leading sizes that they omit count as 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..enums import MatrixTransform
from ..fields.member import NestedOperator
from ..level import FeatureLevel
from ..operator import BadExample, Example, Tensors, declare
from ..rules import (
    Derived,
    Rule,
    Shapes,
    Sizes,
    Values,
    documented,
    either,
    observed,
    same_rank,
    same_sizes,
    same_type,
    shapes,
    when,
)
from ..rules.rule import Path
from ..tensor import DataType
from ..violation import Code, Fault

_MATRICES = ("ATensor", "BTensor", "OutputTensor")


def _shapes(a: MatrixTransform, b: MatrixTransform) -> Shapes:
    """Returns the shapes of a product; at ranks below 4 the leading sizes are omitted."""
    lead = ("BatchCount", "ChannelCount")
    rows = ("M", "K") if a is MatrixTransform.NONE else ("K", "M")
    columns = ("K", "N") if b is MatrixTransform.NONE else ("N", "K")
    return shapes(cut=True, ATensor=(*lead, *rows), BTensor=(*lead, *columns), CTensor=(*lead, "M", "N"))


_TRANSFORMS = [(a, b) for a in MatrixTransform for b in MatrixTransform]
_SHAPES = {pair: _shapes(*pair) for pair in _TRANSFORMS}
_PLAIN = _shapes(MatrixTransform.NONE, MatrixTransform.NONE).shapes
_PRODUCT = shapes(cut=True, ATensor=_PLAIN["ATensor"], BTensor=_PLAIN["BTensor"])


def _product(values: Values) -> Sizes:
    """Returns the sizes of a product: those of A, with the columns of B, after the leading ones of either."""
    a, b = values["ATensor"].sizes, values["BTensor"].sizes
    rows = -2 if values.get("TransA", MatrixTransform.NONE) is MatrixTransform.NONE else -1
    columns = -1 if values.get("TransB", MatrixTransform.NONE) is MatrixTransform.NONE else -2
    lead = (1,) * (len(b) - len(a)) + a[:-2]
    return tuple((size,) for size in (*lead, a[rows], b[columns]))


@dataclass(frozen=True, slots=True)
class FusedAxes(Rule):
    """The axes of a fused softmax are less than the rank of the output."""

    code = Code.AXIS_OUT_OF_RANGE

    operator: str = "FusedActivation"
    tensor: str = "ATensor"

    def faults(self, values: Values) -> Iterator[Fault]:
        rank = values[self.tensor].rank
        for at, i, axis in _fused_axes(self.operator, values):
            if axis >= rank:
                message = f"axis {axis} given; the output has rank {rank}, so axes range from 0 to {rank - 1}"
                yield Fault(self.code, (*at, i), message, list(range(rank)))


@dataclass(frozen=True, slots=True)
class FusedAlongRows(Rule):
    """A product with a fused softmax, which has no axes, is a single matrix."""

    code = Code.SIZES_MISMATCH

    operator: str = "FusedActivation"
    tensor: str = "ATensor"

    def faults(self, values: Values) -> Iterator[Fault]:
        fused: NestedOperator | None = values[self.operator]
        if fused is None or fused.name != "ACTIVATION_SOFTMAX":
            return
        for i, given in enumerate(values[self.tensor].sizes[:-2]):
            if given != 1:
                message = f"size {given} given for dimension {i} of {self.tensor}; with {fused.name} fused it must be 1"
                yield Fault(self.code, (self.tensor, "Sizes", i), message, [1])


def _fused_axes(member: str, values: Values) -> Iterator[tuple[Path, int, int]]:
    """Yields the axes of a fused operator, if it has any, with the path of the array and their index."""
    fused: NestedOperator | None = values[member]
    if fused is None:
        return
    below = fused.pointer.rpartition(f"/{member}")[2].split("/")[1:]
    for i, axis in enumerate(fused.values.get("Axes", ())):
        yield (member, *below, "Axes"), i, axis


@dataclass(frozen=True, slots=True)
class PerRowOrColumn(Rule):
    """A parameter has one element, or one per row of A or column of B, in that dimension.

    Attributes:
        tensor: the parameter.
        matrix: the matrix whose rows or columns it applies to.
        dimension: the dimension of the matrix, -2 or -1; at rank 1, the parameter has only the last one.
    """

    code = Code.SIZES_MISMATCH

    tensor: str
    matrix: str
    dimension: int

    def faults(self, values: Values) -> Iterator[Fault]:
        desc, matrix = values[self.tensor], values[self.matrix]
        if desc is None or matrix.rank < 2:
            return
        several = desc.rank + self.dimension
        for i, given in enumerate(desc.sizes):
            allowed = [1, matrix.sizes[self.dimension]] if i == several else [1]
            if given not in allowed:
                message = f"size {given} given for dimension {i} of {self.tensor}; allowed: {either(allowed)}"
                yield Fault(self.code, (self.tensor, "Sizes", i), message, allowed)


def _of_rows(*tensors: str) -> tuple[Rule, ...]:
    return tuple(PerRowOrColumn(tensor, "ATensor", -2) for tensor in tensors)


def _of_columns(*tensors: str) -> tuple[Rule, ...]:
    return tuple(PerRowOrColumn(tensor, "BTensor", -1) for tensor in tensors)


def _zero_points(*matrices: str) -> Iterator[Rule | tuple[Rule, ...]]:
    """Yields the rules for zero points that come with scales: those of the inputs, and of the output if it is named."""
    for matrix in matrices:
        scale, zero_point = f"{matrix}ScaleTensor", f"{matrix}ZeroPointTensor"
        if matrix != "Output":
            yield same_type(f"{matrix}Tensor", zero_point)
        yield observed(same_rank(scale, zero_point), same_sizes(scale, zero_point))


def _work(attributes: object, tensors: Tensors) -> int:
    """Each output element visits a row of A and a column of B."""
    output = int(tensors["OutputTensor"].element_count)
    a = tensors["ATensor"]
    transposed = getattr(attributes, "TransA", MatrixTransform.NONE) is MatrixTransform.TRANSPOSE
    return output + output * int(a.sizes[-2 if transposed else -1])


def _desc(data_type: str, a: list[int], b: list[int], **changes: Any) -> dict[str, Any]:
    return {"ATensor": {"DataType": data_type, "Sizes": a}, "BTensor": {"DataType": data_type, "Sizes": b}, **changes}


def _gemm(a: list[int], b: list[int], **changes: Any) -> dict[str, Any]:
    attributes = {"TransA": "NONE", "TransB": "NONE", "Alpha": 1, "Beta": 1}
    return _desc("FLOAT32", a, b, **(attributes | changes))


def _parameter(data_type: str, *sizes: int) -> dict[str, Any]:
    return {"DataType": data_type, "Sizes": list(sizes)}


_A, _B = [[1, 2, 3], [4, 5, 6]], [[1, 0], [0, 1], [1, 1]]


def _do_not_meet(desc: dict[str, Any]) -> BadExample:
    return BadExample("shapes_do_not_meet", desc, Code.SIZES_MISMATCH, "/BTensor/Sizes/0")


_GEMM = declare(
    "GEMM",
    rules=(
        same_type("ATensor", "BTensor", "CTensor"),
        same_rank("ATensor", "BTensor", "CTensor"),
        *(when("TransA", a, *when("TransB", b, _SHAPES[a, b])) for a, b in _TRANSFORMS),
        FusedAxes(),
        observed(FusedAlongRows()),
    ),
    outputs={"OutputTensor": Derived(_product, like="ATensor")},
    work=_work,
    examples=(
        Example("product", _gemm([2, 3], [3, 2]), {"ATensor": _A, "BTensor": _B}, {"OutputTensor": [[4, 5], [10, 11]]}),
        Example(
            "transposed_and_added",
            _gemm([2, 2], [2, 2], TransA="TRANSPOSE", Alpha=2, Beta=-1, CTensor=_parameter("FLOAT32", 2, 2)),
            {"ATensor": [[1, 2], [3, 4]], "BTensor": [[1, 0], [0, 1]], "CTensor": [[1, 1], [1, 1]]},
            {"OutputTensor": [[1, 5], [3, 7]]},
        ),
    ),
    bad_examples=(
        _do_not_meet(_gemm([2, 3], [2, 2])),
        BadExample(
            "matrices_before_4_0",
            _gemm([2, 3], [3, 2]),
            Code.RANK_NOT_IN_LEVEL,
            "/ATensor/Sizes",
            level=FeatureLevel.V3_1,
        ),
        BadExample(
            "softmax_before_6_1",
            _gemm([2, 3], [3, 2], FusedActivation={"Type": "ACTIVATION_SOFTMAX"}),
            Code.OPERATOR_NOT_FUSABLE,
            "/FusedActivation/Type",
            level=FeatureLevel.V6_0,
        ),
        BadExample(
            "softmax_past_the_rank",
            _gemm([2, 3], [3, 2], FusedActivation={"Type": "ACTIVATION_SOFTMAX1", "Axes": [2]}),
            Code.AXIS_OUT_OF_RANGE,
            "/FusedActivation/Axes/0",
        ),
        BadExample(
            "softmax_of_several_matrices",
            _gemm([2, 2, 3], [2, 3, 2], FusedActivation={"Type": "ACTIVATION_SOFTMAX"}),
            Code.SIZES_MISMATCH,
            "/ATensor/Sizes/0",
        ),
    ),
)

_INTEGER = declare(
    "MATRIX_MULTIPLY_INTEGER",
    rules=(
        documented(*(same_rank("ATensor", other) for other in _MATRICES[1:])),
        _PRODUCT,
        same_type("ATensor", "AZeroPointTensor"),
        same_type("BTensor", "BZeroPointTensor"),
        _of_rows("AZeroPointTensor"),
        _of_columns("BZeroPointTensor"),
    ),
    outputs={"OutputTensor": Derived(_product, default=DataType.INT32, leading_ones=True)},
    work=_work,
    examples=(
        Example(
            "row_by_row",
            _desc("UINT8", [2, 3], [3, 2], AZeroPointTensor=_parameter("UINT8", 2, 1)),
            {"ATensor": _A, "BTensor": _B, "AZeroPointTensor": [[1], [4]]},
            {"OutputTensor": [[2, 3], [2, 3]]},
        ),
    ),
    bad_examples=(
        _do_not_meet(_desc("INT8", [2, 3], [2, 2])),
        BadExample(
            "zero_point_of_columns",
            _desc("INT8", [2, 3], [3, 2], AZeroPointTensor=_parameter("INT8", 1, 3)),
            Code.SIZES_MISMATCH,
            "/AZeroPointTensor/Sizes/1",
        ),
    ),
)

_SCALES: dict[str, Any] = {"AScaleTensor": _parameter("FLOAT32", 1), "BScaleTensor": _parameter("FLOAT32", 1)}

_TO_FLOAT = declare(
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT",
    rules=(
        documented(*(same_rank("ATensor", other) for other in _MATRICES[1:])),
        same_rank("OutputTensor", "BiasTensor"),
        shapes(cut=True, ATensor=_PLAIN["ATensor"], BTensor=_PLAIN["BTensor"], BiasTensor=_PLAIN["CTensor"]),
        documented(
            same_type("ATensor", "BTensor"),
            same_type("AScaleTensor", "BScaleTensor"),
            same_type("AScaleTensor", "OutputTensor"),
        ),
        *_zero_points("A", "B"),
        documented(same_rank("AScaleTensor", "BScaleTensor")),
        _of_rows("AScaleTensor"),
        _of_columns("BScaleTensor"),
    ),
    outputs={"OutputTensor": Derived(_product, like="BiasTensor", default="AScaleTensor", leading_ones=True)},
    work=_work,
    examples=(
        Example(
            "with_bias",
            _desc("INT8", [2, 3], [3, 2], **_SCALES, BiasTensor=_parameter("FLOAT32", 2, 2)),
            {
                "ATensor": _A,
                "BTensor": _B,
                "AScaleTensor": [0.5],
                "BScaleTensor": [2],
                "BiasTensor": [[0.5, 0], [0, 0]],
            },
            {"OutputTensor": [[4.5, 5], [10, 11]]},
        ),
    ),
    bad_examples=(
        _do_not_meet(_desc("INT8", [2, 3], [2, 2], **_SCALES)),
        BadExample(
            "zero_point_of_another_type",
            _desc("INT8", [2, 3], [3, 2], **_SCALES, BZeroPointTensor=_parameter("UINT8", 1)),
            Code.DATA_TYPES_DIFFER,
            "/BZeroPointTensor/DataType",
        ),
    ),
)

_QUANTIZED = declare(
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY",
    rules=(
        documented(*(same_rank("ATensor", other) for other in _MATRICES[1:])),
        _PRODUCT,
        *_zero_points("A", "B", "Output"),
        documented(same_rank("AScaleTensor", "BScaleTensor", "OutputScaleTensor")),
        _of_rows("AScaleTensor", "OutputScaleTensor"),
        _of_columns("BScaleTensor"),
    ),
    outputs={"OutputTensor": Derived(_product, like="OutputZeroPointTensor", default="ATensor", leading_ones=True)},
    work=_work,
    examples=(
        Example(
            "halves_to_even",
            _desc("UINT8", [2, 3], [3, 2], **_SCALES, OutputScaleTensor=_parameter("FLOAT32", 1)),
            {"ATensor": _A, "BTensor": _B, "AScaleTensor": [0.5], "BScaleTensor": [2], "OutputScaleTensor": [2]},
            {"OutputTensor": [[2, 2], [5, 6]]},
        ),
    ),
    bad_examples=(
        _do_not_meet(_desc("INT8", [2, 3], [2, 2], **_SCALES, OutputScaleTensor=_parameter("FLOAT32", 1))),
        BadExample(
            "zero_point_of_another_rank",
            _desc(
                "INT8",
                [2, 3],
                [3, 2],
                **_SCALES,
                OutputScaleTensor=_parameter("FLOAT32", 1),
                OutputZeroPointTensor=_parameter("INT8", 1, 1),
            ),
            Code.RANKS_DIFFER,
            "/OutputZeroPointTensor/Sizes",
        ),
    ),
)

FAMILY = (_GEMM, _INTEGER, _QUANTIZED, _TO_FLOAT)
