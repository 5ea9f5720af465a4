"""Keeps and breaks the rules of block quantization."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from opwire.operators.block_quantization import ParameterType
from opwire.rules import Rule
from opwire.rules.numbers import Length, OneOf
from opwire.rules.tensors import BlockSizes, SameSizes

from . import common
from .descs import Drawn, holds_as_drawn
from .faults import BREAK as BREAK_ANYWHERE
from .faults import Change
from .outputs import Sizes


def _parameters(drawn: Drawn) -> list[dict[str, Any]]:
    tensors: list[dict[str, Any]] = drawn.desc["QuantizationTensors"]
    return tensors


def _shaped(drawn: Drawn, draw: st.DrawFn) -> None:
    """Draws a scale and, depending on the kind, a zero point, with types that fit the input and the output."""
    kind = draw(st.sampled_from(["SCALE", "SCALE_ZERO_POINT"]))
    whole = drawn.desc["InputTensor"]
    scales = [whole["DataType"]] if drawn.operator.name == "QUANTIZE" else ["FLOAT32", "FLOAT16"]
    zero_points = ["INT8", "UINT4"] if drawn.operator.name == "QUANTIZE" else [whole["DataType"]]
    types = [draw(st.sampled_from(scales)), draw(st.sampled_from(zero_points))]
    drawn.desc["QuantizationType"] = kind
    drawn.desc["QuantizationTensors"] = [
        {"DataType": data_type, "Sizes": list(whole["Sizes"])} for data_type in types[: 1 + (kind != "SCALE")]
    ]


def _divide(rule: BlockSizes, drawn: Drawn, draw: st.DrawFn) -> None:
    whole = drawn.desc["InputTensor"]["Sizes"]
    sizes = [draw(st.sampled_from([part for part in range(1, size + 1) if size % part == 0])) for size in whole]
    for tensor in _parameters(drawn):
        tensor["Sizes"] = list(sizes)


def _do_not_divide(rule: BlockSizes, drawn: Drawn) -> Iterator[Change]:
    desc = deepcopy(drawn.desc)
    for tensor in desc["QuantizationTensors"]:
        tensor["Sizes"][0] = desc["InputTensor"]["Sizes"][0] + 1
    yield desc, "sizes_mismatch", "/QuantizationTensors/0/Sizes/0"


def _retyped(rule: ParameterType, drawn: Drawn) -> Iterator[Change]:
    tensors = _parameters(drawn)
    for data_type in ("FLOAT32", "FLOAT16", "INT8", "UINT8", "INT4", "UINT4"):
        if rule.at < len(tensors) and data_type != tensors[rule.at]["DataType"]:
            desc = deepcopy(drawn.desc)
            desc["QuantizationTensors"][rule.at]["DataType"] = data_type
            yield desc, "data_types_differ", f"/QuantizationTensors/{rule.at}/DataType"


def _wrong_count(rule: Length, drawn: Drawn) -> Iterator[Change]:
    tensors = _parameters(drawn)
    more = {**tensors[0], "DataType": drawn.desc["InputTensor"]["DataType"]}
    for other in ([*tensors, more], tensors[:-1]):
        yield {**drawn.desc, "QuantizationTensors": deepcopy(other)}, "count_mismatch", "/QuantizationTensors"


def _other_blocks(rule: SameSizes, drawn: Drawn) -> Iterator[Change]:
    if "QuantizationTensors" not in drawn.desc:
        yield from BREAK_ANYWHERE[SameSizes](rule, drawn)
        return
    for size in (1, drawn.desc["InputTensor"]["Sizes"][0]):
        if len(_parameters(drawn)) > 1 and size != _parameters(drawn)[1]["Sizes"][0]:
            desc = deepcopy(drawn.desc)
            desc["QuantizationTensors"][1]["Sizes"][0] = size
            yield desc, "sizes_mismatch", "/QuantizationTensors/1/Sizes"


def _single(desc: Mapping[str, Any]) -> dict[str, Sizes]:
    whole = desc["InputTensor"]["Sizes"]
    ones = [1 for _ in whole]
    return {"OutputTensor": whole, "OutputScaleTensor": ones, "OutputZeroPointTensor": ones}


FAMILIES = ("quantization",)
"""The operator families that these tables apply to."""

SATISFY: dict[type[Rule], Callable[[Any, Drawn, st.DrawFn], None]] = {
    OneOf: common.SATISFY[OneOf],
    Length: holds_as_drawn,
    ParameterType: holds_as_drawn,
    BlockSizes: _divide,
}
BREAK: dict[type[Rule], Callable[[Any, Drawn], Iterator[Change]]] = {
    OneOf: common.BREAK[OneOf],
    Length: _wrong_count,
    SameSizes: _other_blocks,
    ParameterType: _retyped,
    BlockSizes: _do_not_divide,
}
SHAPED = {"QUANTIZE": _shaped, "DEQUANTIZE": _shaped}
SEVERAL = {"DYNAMIC_QUANTIZE_LINEAR": _single}
