"""Block-wise quantization, and quantization with parameters computed from the data.

Source: the pages of ``DML_QUANTIZE_OPERATOR_DESC``, ``DML_DEQUANTIZE_OPERATOR_DESC`` and
``DML_DYNAMIC_QUANTIZE_LINEAR_OPERATOR_DESC``; ONNX Runtime for what they do not say about the parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..enums import QuantizationType
from ..operator import BadExample, Example, Operator, Tensors, declare
from ..rules import (
    Derived,
    Output,
    OutputRule,
    Rule,
    Sizes,
    Values,
    blocks,
    length_is,
    one_of,
    same_rank,
    same_sizes,
    sizes_of,
    when,
)
from ..tensor import DataType
from ..violation import Code, Fault
from .work import elements_visited

PARAMETERS = "QuantizationTensors"
SCALE, ZERO_POINT = 0, 1
"""The indices of the parameters in their array."""


@dataclass(frozen=True, slots=True)
class ParameterType(Rule):
    """A parameter has the data type of a tensor: the scale of the float one, the zero point of the quantized one."""

    code = Code.DATA_TYPES_DIFFER
    members = (PARAMETERS,)

    at: int
    of: str

    def faults(self, values: Values) -> Iterator[Fault]:
        parameters, wanted = values[PARAMETERS], values[self.of].data_type
        if len(parameters) > self.at and parameters[self.at].data_type is not wanted:
            given = parameters[self.at].data_type.name
            message = f"{PARAMETERS}[{self.at}] has {given} and {self.of} {wanted.name}; they must be equal"
            yield Fault(self.code, (PARAMETERS, self.at, "DataType"), message, [wanted.name])


@dataclass(frozen=True, slots=True)
class _LikeParameter(Output):
    """An output with the sizes of the input and the data type of a parameter, or a default one without it."""

    at: int
    default: DataType

    def rule(self, values: Values) -> OutputRule:
        sizes = tuple((size,) for size in values["InputTensor"].sizes)
        parameters = values[PARAMETERS] or ()
        if len(parameters) > self.at:
            return OutputRule(sizes, parameters[self.at].data_type, f"{PARAMETERS}[{self.at}]")
        return OutputRule(sizes, self.default)


def _in_blocks(
    name: str,
    own: int,
    other: int,
    default: DataType,
    examples: tuple[Example, ...],
    bad_examples: tuple[BadExample, ...],
) -> Operator[object]:
    """Declares an operator; ``own`` is the parameter with the type of the input, ``other`` that of the output."""
    kinds = (QuantizationType.SCALE, QuantizationType.SCALE_ZERO_POINT)
    return declare(
        name,
        rules=(
            same_rank("InputTensor", PARAMETERS),
            one_of("QuantizationType", *kinds),
            *(when("QuantizationType", kind, length_is(kind.value, PARAMETERS)) for kind in kinds),
            ParameterType(own, "InputTensor"),
            same_sizes(PARAMETERS),
            blocks(PARAMETERS, of="InputTensor"),
        ),
        outputs={"OutputTensor": _LikeParameter(other, default)},
        work=elements_visited,
        examples=examples,
        bad_examples=bad_examples,
    )


def _desc(source: str, sizes: list[int], *parameters: tuple[str, list[int]], **changes: object) -> dict[str, object]:
    return {
        "InputTensor": {"DataType": source, "Sizes": sizes},
        "QuantizationType": "SCALE" if len(parameters) == 1 else "SCALE_ZERO_POINT",
        PARAMETERS: [{"DataType": data_type, "Sizes": shape} for data_type, shape in parameters],
        **changes,
    }


_QUANTIZE = _in_blocks(
    "QUANTIZE",
    SCALE,
    ZERO_POINT,
    DataType.UINT8,
    examples=(
        Example(
            "halves_to_even_and_saturated",
            _desc("FLOAT32", [4], ("FLOAT32", [1]), ("INT8", [1])),
            {"InputTensor": [1, 3, -5, 1000], "QuantizationTensors": [[2], [10]]},
            {"OutputTensor": [10, 12, 8, 127]},
        ),
        Example(
            "a_scale_for_two_elements",
            _desc("FLOAT32", [4], ("FLOAT32", [2]), OutputTensor={"DataType": "INT8", "Sizes": [4]}),
            {"InputTensor": [2, 4, 2, 4], "QuantizationTensors": [[1, 2]]},
            {"OutputTensor": [2, 4, 1, 2]},
        ),
    ),
    bad_examples=(
        BadExample(
            "zero_point_left_out",
            _desc("FLOAT32", [4], ("FLOAT32", [1]), QuantizationType="SCALE_ZERO_POINT"),
            Code.COUNT_MISMATCH,
            "/QuantizationTensors",
        ),
        BadExample(
            "no_parameters",
            _desc("FLOAT32", [4], ("FLOAT32", [1]), QuantizationType="NONE"),
            Code.VALUE_NOT_ALLOWED,
            "/QuantizationType",
        ),
        BadExample(
            "block_that_does_not_divide",
            _desc("FLOAT32", [4], ("FLOAT32", [3]), ("INT8", [3])),
            Code.SIZES_MISMATCH,
            "/QuantizationTensors/0/Sizes/0",
        ),
        BadExample(
            "output_of_another_type_than_its_zero_point",
            _desc("FLOAT32", [4], ("FLOAT32", [1]), ("INT8", [1]), OutputTensor={"DataType": "UINT8", "Sizes": [4]}),
            Code.DATA_TYPES_DIFFER,
            "/OutputTensor/DataType",
        ),
    ),
)

_DEQUANTIZE = _in_blocks(
    "DEQUANTIZE",
    ZERO_POINT,
    SCALE,
    DataType.FLOAT32,
    examples=(
        Example(
            "with_a_zero_point",
            _desc("UINT8", [3], ("FLOAT32", [1]), ("UINT8", [1])),
            {"InputTensor": [0, 128, 255], "QuantizationTensors": [[0.5], [128]]},
            {"OutputTensor": [-64, 0, 63.5]},
        ),
        Example(
            "a_scale_for_two_elements",
            _desc("INT8", [4], ("FLOAT16", [2])),
            {"InputTensor": [1, -2, 3, -4], "QuantizationTensors": [[1, 0.5]]},
            {"OutputTensor": [1, -2, 1.5, -2]},
        ),
    ),
    bad_examples=(
        BadExample(
            "zero_point_of_another_type",
            _desc("UINT8", [3], ("FLOAT32", [1]), ("INT8", [1])),
            Code.DATA_TYPES_DIFFER,
            "/QuantizationTensors/1/DataType",
        ),
        BadExample(
            "parameters_of_different_sizes",
            _desc("UINT8", [4], ("FLOAT32", [2]), ("UINT8", [1])),
            Code.SIZES_MISMATCH,
            "/QuantizationTensors/1/Sizes",
        ),
    ),
)


def _single(values: Values) -> Sizes:
    """Returns the sizes of a single element, with the rank of the input."""
    return ((1,),) * int(values["InputTensor"].rank)


def _dynamic_work(attributes: object, tensors: Tensors) -> int:
    """Each element is visited to find the extremes, and again to be quantized."""
    return 2 * elements_visited(attributes, tensors)


_DYNAMIC = declare(
    "DYNAMIC_QUANTIZE_LINEAR",
    outputs={
        "OutputTensor": Derived(sizes_of("InputTensor"), default=DataType.UINT8),
        "OutputScaleTensor": Derived(_single, default=DataType.FLOAT32),
        "OutputZeroPointTensor": Derived(_single, like="OutputTensor"),
    },
    work=_dynamic_work,
    examples=(
        Example(
            "from_the_extremes",
            {"InputTensor": {"DataType": "FLOAT32", "Sizes": [3]}},
            {"InputTensor": [-51, 0, 204]},
            {"OutputTensor": [0, 51, 255], "OutputScaleTensor": [1], "OutputZeroPointTensor": [51]},
        ),
        Example(
            "signed",
            {"InputTensor": {"DataType": "FLOAT32", "Sizes": [2]}, "OutputTensor": {"DataType": "INT8", "Sizes": [2]}},
            {"InputTensor": [127.5, 63.75]},
            {"OutputTensor": [127, 0], "OutputScaleTensor": [0.5], "OutputZeroPointTensor": [-128]},
        ),
    ),
    bad_examples=(
        BadExample(
            "zero_point_of_another_type",
            {
                "InputTensor": {"DataType": "FLOAT32", "Sizes": [3]},
                "OutputTensor": {"DataType": "INT8", "Sizes": [3]},
                "OutputZeroPointTensor": {"DataType": "UINT8", "Sizes": [1]},
            },
            Code.DATA_TYPES_DIFFER,
            "/OutputZeroPointTensor/DataType",
        ),
        BadExample(
            "a_scale_for_each_element",
            {
                "InputTensor": {"DataType": "FLOAT32", "Sizes": [3]},
                "OutputScaleTensor": {"DataType": "FLOAT32", "Sizes": [3]},
            },
            Code.SIZES_MISMATCH,
            "/OutputScaleTensor/Sizes/0",
        ),
    ),
)

BLOCKWISE = (_DYNAMIC, _QUANTIZE, _DEQUANTIZE)
