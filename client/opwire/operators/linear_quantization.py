"""Element-wise quantization, in which elements have individual scales and zero points or share them.

Source: ``DML_ELEMENT_WISE_QUANTIZE_LINEAR_OPERATOR_DESC``, ``DML_ELEMENT_WISE_DEQUANTIZE_LINEAR_OPERATOR_DESC`` and
``DML_ELEMENT_WISE_QUANTIZED_LINEAR_ADD_OPERATOR_DESC``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..level import FeatureLevel
from ..operator import BadExample, Example, declare
from ..rules import Derived, Rule, Values, one_element, same_rank, same_sizes, same_type, sizes_of
from ..tensor import DataType
from ..violation import Code, Fault
from .work import elements_written


@dataclass(frozen=True, slots=True)
class ScaleFits(Rule):
    """The scale has the data type of the values to quantize, or FLOAT32 for INT32."""

    code = Code.DATA_TYPES_DIFFER

    source: str = "InputTensor"
    scale: str = "ScaleTensor"

    def faults(self, values: Values) -> Iterator[Fault]:
        source, scale = values[self.source].data_type, values[self.scale].data_type
        wanted = DataType.FLOAT32 if source is DataType.INT32 else source
        if scale is not wanted:
            message = f"{self.scale} has {scale.name}; for {self.source} of {source.name} it must have {wanted.name}"
            yield Fault(self.code, (self.scale, "DataType"), message, [wanted.name])


def _tensors(sizes: list[int], **types: str) -> dict[str, Any]:
    return {f"{name}Tensor": {"DataType": data_type, "Sizes": sizes} for name, data_type in types.items()}


def _elements(**elements: list[Any]) -> dict[str, Any]:
    return {f"{name}Tensor": each for name, each in elements.items()}


_FLOATS = ("InputTensor", "ScaleTensor", "ZeroPointTensor")
_PARAMETERS = ("AScaleTensor", "AZeroPointTensor", "BScaleTensor", "BZeroPointTensor")
_OUTPUT_PARAMETERS = ("OutputScaleTensor", "OutputZeroPointTensor")

_QUANTIZE = declare(
    "ELEMENT_WISE_QUANTIZE_LINEAR",
    rules=(same_rank(*_FLOATS, sizes=True), same_sizes(*_FLOATS), ScaleFits()),
    outputs={"OutputTensor": Derived(sizes_of("InputTensor"), like="ZeroPointTensor", default=DataType.UINT8)},
    work=elements_written,
    examples=(
        Example(
            "halves_to_even",
            _tensors([4], Input="FLOAT32", Scale="FLOAT32", ZeroPoint="INT8"),
            _elements(Input=[1, 3, -1000, "NaN"], Scale=[2, 2, 2, 2], ZeroPoint=[1, 1, 1, 1]),
            {"OutputTensor": [1, 3, -128, 0]},
        ),
        Example(
            "no_zero_point",
            _tensors([2], Input="INT32", Scale="FLOAT32"),
            _elements(Input=[7, -7], Scale=[0.5, 0.5]),
            {"OutputTensor": [14, 0]},
        ),
    ),
    bad_examples=(
        BadExample(
            "half_of_integers",
            _tensors([2], Input="INT32", Scale="FLOAT16"),
            Code.DATA_TYPES_DIFFER,
            "/ScaleTensor/DataType",
        ),
        BadExample(
            "no_zero_point_before_6_2",
            _tensors([2], Input="FLOAT32", Scale="FLOAT32"),
            Code.MISSING_FIELD,
            "",
            level=FeatureLevel.V6_0,
        ),
    ),
)

_DEQUANTIZE = declare(
    "ELEMENT_WISE_DEQUANTIZE_LINEAR",
    rules=(same_rank(*_FLOATS, sizes=True), same_sizes(*_FLOATS), same_type("InputTensor", "ZeroPointTensor")),
    outputs={"OutputTensor": Derived(sizes_of("InputTensor"), like="ScaleTensor")},
    work=elements_written,
    examples=(
        Example(
            "bytes",
            _tensors([3], Input="UINT8", Scale="FLOAT32", ZeroPoint="UINT8"),
            _elements(Input=[0, 128, 255], Scale=[2, 2, 0.5], ZeroPoint=[128, 128, 128]),
            {"OutputTensor": [-256, 0, 63.5]},
        ),
    ),
    bad_examples=(
        BadExample(
            "signed_zero_point",
            _tensors([3], Input="UINT8", Scale="FLOAT32", ZeroPoint="INT8"),
            Code.DATA_TYPES_DIFFER,
            "/ZeroPointTensor/DataType",
        ),
        BadExample(
            "floats",
            _tensors([3], Input="FLOAT32", Scale="FLOAT32"),
            Code.DATA_TYPE_NOT_IN_LEVEL,
            "/InputTensor/DataType",
        ),
    ),
)


def _sum(**changes: Any) -> dict[str, Any]:
    summands = _tensors([3], A="UINT8", B="UINT8")
    return {**summands, **_tensors([1], AScale="FLOAT32", BScale="FLOAT32", OutputScale="FLOAT32"), **changes}


_ADD = declare(
    "ELEMENT_WISE_QUANTIZED_LINEAR_ADD",
    rules=(
        same_rank("ATensor", "BTensor", *_PARAMETERS, *_OUTPUT_PARAMETERS),
        same_sizes("ATensor", "BTensor"),
        same_type("ATensor", "AZeroPointTensor"),
        same_type("BTensor", "BZeroPointTensor"),
        one_element(*_PARAMETERS, *_OUTPUT_PARAMETERS),
    ),
    outputs={"OutputTensor": Derived(sizes_of("ATensor"), like="OutputZeroPointTensor", default="ATensor")},
    work=elements_written,
    examples=(
        Example(
            "no_zero_points",
            _sum(),
            {**_elements(A=[1, 2, 200], B=[2, 5, 100]), **_elements(AScale=[2], BScale=[1], OutputScale=[2])},
            {"OutputTensor": [2, 4, 250]},
        ),
        Example(
            "to_signed",
            _sum(OutputZeroPointTensor={"DataType": "INT8", "Sizes": [1]}),
            {
                **_elements(A=[1, 2, 200], B=[2, 5, 100], OutputZeroPoint=[-10]),
                **_elements(AScale=[1], BScale=[1], OutputScale=[1]),
            },
            {"OutputTensor": [-7, -3, 127]},
        ),
    ),
    bad_examples=(
        BadExample(
            "scale_of_each_element",
            _sum(AScaleTensor={"DataType": "FLOAT32", "Sizes": [3]}),
            Code.SIZES_MISMATCH,
            "/AScaleTensor/Sizes",
        ),
        BadExample(
            "signed_zero_point",
            _sum(BZeroPointTensor={"DataType": "INT8", "Sizes": [1]}),
            Code.DATA_TYPES_DIFFER,
            "/BZeroPointTensor/DataType",
        ),
    ),
)

ELEMENT_WISE = (_QUANTIZE, _DEQUANTIZE, _ADD)
"""The element-wise operators of the quantization family."""
