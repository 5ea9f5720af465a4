"""Matrices with matching sizes, and quantization parameters of any allowed rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from opwire.operators.matrix import FusedAlongRows, FusedAxes, PerRowOrColumn
from opwire.rules import Rule
from opwire.rules.shapes import Shapes
from opwire.rules.tensors import SameRank, SameSizes, SameType

from .changes import changed
from .descs import Desc, Drawn, holds_as_drawn
from .faults import BREAK as ANY
from .faults import Change
from .outputs import Sizes

TRANSPOSED = ("TRANSPOSE", "DML_MATRIX_TRANSFORM_TRANSPOSE", 1)


def ranked(drawn: Drawn, name: str, sizes: list[int]) -> None:
    """Changes a tensor's sizes, and drops its strides if the rank changes."""
    tensor = drawn.desc[name]
    tensor["Sizes"] = sizes
    if tensor["Strides"] is not None and len(tensor["Strides"]) != len(sizes):
        tensor["Strides"] = None


def _matrices(drawn: Drawn, draw: st.DrawFn) -> None:
    desc = drawn.desc
    *lead, _, _ = desc["ATensor"]["Sizes"]
    m, k, n = draw(st.tuples(*[st.integers(1, 3)] * 3))
    ranked(drawn, "ATensor", [*lead, k, m] if desc.get("TransA") in TRANSPOSED else [*lead, m, k])
    ranked(drawn, "BTensor", [*lead, n, k] if desc.get("TransB") in TRANSPOSED else [*lead, k, n])
    for name in ("CTensor", "BiasTensor"):
        if name in desc:
            ranked(drawn, name, [*lead, m, n])
    _parameters(drawn, draw, {"A": m, "Output": m, "B": n})


def _parameters(drawn: Drawn, draw: st.DrawFn, counts: dict[str, int]) -> None:
    """Draws the sizes of scales and zero points. Scales have one rank, and zero points the sizes of their scales."""
    alike = "AScaleTensor" in drawn.row.tensors
    common = draw(st.integers(*drawn.row.tensors["AScaleTensor"].ranks)) if alike else None
    for matrix, count in counts.items():
        names = [name for name in (f"{matrix}ScaleTensor", f"{matrix}ZeroPointTensor") if name in drawn.desc]
        for name in names[:1]:
            rank = common or draw(st.integers(*drawn.row.tensors[name].ranks))
            each = draw(st.sampled_from([1, count]))
            column = [each] if matrix == "B" else [each, 1]
            sizes = [1] * (rank - len(column)) + column if rank > 1 or matrix == "B" else [1]
            for each_of in names:
                ranked(drawn, each_of, list(sizes))


def _product(desc: Mapping[str, Any]) -> Sizes:
    *lead, first, second = desc["ATensor"]["Sizes"]
    *_, third, fourth = desc["BTensor"]["Sizes"]
    m = second if desc.get("TransA") in TRANSPOSED else first
    n = third if desc.get("TransB") in TRANSPOSED else fourth
    return [*lead, m, n]


def _unequal(rule: Shapes, drawn: Drawn) -> Iterator[Change]:
    """B disagrees in the shared dimension, other matrices in any."""
    shared = 1 if drawn.desc.get("TransB") in TRANSPOSED else 0
    for name in list(rule.shapes)[1:]:
        if name not in drawn.desc:
            continue
        sizes = drawn.desc[name]["Sizes"]
        at = len(sizes) - 2 + shared
        for i in [*range(len(sizes) - 2), at] if name == "BTensor" else range(len(sizes)):
            other = [*sizes[:i], sizes[i] + 1, *sizes[i + 1 :]]
            yield changed(drawn, name, Sizes=other), "sizes_mismatch", f"/{name}/Sizes/{i}"


def _other_zero_point(rule: SameSizes, drawn: Drawn) -> Iterator[Change]:
    """A zero point for every row or column, beside a single scale."""
    _, name = rule.tensors
    if name not in drawn.desc:
        return
    sizes = drawn.desc[name]["Sizes"]
    other = [size + 1 if i == len(sizes) - 1 else size for i, size in enumerate(sizes)]
    yield changed(drawn, name, Sizes=other, Strides=None), "sizes_mismatch", f"/{name}/Sizes"


def _output_type(drawn: Drawn) -> str:
    desc = drawn.desc
    if drawn.operator.name == "MATRIX_MULTIPLY_INTEGER":
        return "INT32"
    if drawn.operator.name == "MATRIX_MULTIPLY_INTEGER_TO_FLOAT":
        return str((desc.get("BiasTensor") or desc["AScaleTensor"])["DataType"])
    return str((desc.get("OutputZeroPointTensor") or desc["ATensor"])["DataType"])


def _other_rank(rule: SameRank, drawn: Drawn) -> Iterator[Change]:
    if "OutputTensor" not in rule.tensors:
        yield from ANY[SameRank](rule, drawn)
        return
    sizes, last = _product(drawn.desc), rule.tensors[-1]
    if len(sizes) < drawn.row.tensors["OutputTensor"].ranks[1]:
        output = {"DataType": _output_type(drawn), "Sizes": sizes}
        desc = {**deepcopy(drawn.desc), "OutputTensor": output}
        if last in desc:
            desc[last] |= {"Sizes": [1, *sizes], "Strides": None}
            yield desc, "ranks_differ", f"/{last}/Sizes"


def _other_type(rule: SameType, drawn: Drawn) -> Iterator[Change]:
    if "OutputTensor" not in rule.tensors:
        yield from ANY[SameType](rule, drawn)
        return
    other = "FLOAT16" if drawn.desc["AScaleTensor"]["DataType"] == "FLOAT32" else "FLOAT32"
    if "BiasTensor" not in drawn.desc:
        output = {"DataType": other, "Sizes": _product(drawn.desc)}
        yield {**drawn.desc, "OutputTensor": output}, "data_types_differ", "/OutputTensor/DataType"


def _other_count(rule: PerRowOrColumn, drawn: Drawn) -> Iterator[Change]:
    if rule.tensor in drawn.desc:
        sizes = drawn.desc[rule.tensor]["Sizes"]
        for i in range(len(sizes)):
            yield (
                changed(drawn, rule.tensor, Sizes=[1] * i + [7] + [1] * (len(sizes) - i - 1)),
                "sizes_mismatch",
                (f"/{rule.tensor}/Sizes/{i}"),
            )


def _softmax(drawn: Drawn, axes: list[int], code: str, at: int) -> Iterator[Change]:
    if drawn.level.value < 0x6100:
        return
    for fused, place in (
        ({"Type": "ACTIVATION_SOFTMAX1", "Axes": axes}, "/FusedActivation/Axes"),
        ({"Type": "DML_OPERATOR_ACTIVATION_SOFTMAX1", "Desc": {"Axes": axes}}, "/FusedActivation/Desc/Axes"),
    ):
        yield {**deepcopy(drawn.desc), "FusedActivation": fused}, code, f"{place}/{at}"


def _past_rank(rule: FusedAxes, drawn: Drawn) -> Iterator[Change]:
    rank = len(drawn.desc["ATensor"]["Sizes"])
    yield from _softmax(drawn, [0, rank], "axis_out_of_range", 1)


def _is_softmax(desc: Mapping[str, Any]) -> bool:
    fused = desc.get("FusedActivation") or {}
    return str(fused.get("Type", fused.get("type"))).removeprefix("DML_OPERATOR_") == "ACTIVATION_SOFTMAX"


def _single(rule: FusedAlongRows, drawn: Drawn, draw: st.DrawFn) -> None:
    if _is_softmax(drawn.desc):
        for name in ("ATensor", "BTensor", "CTensor"):
            if name in drawn.desc:
                *lead, rows, columns = drawn.desc[name]["Sizes"]
                drawn.desc[name]["Sizes"] = [*[1] * len(lead), rows, columns]


def _several(rule: FusedAlongRows, drawn: Drawn) -> Iterator[Change]:
    if drawn.level.value >= 0x6100 and len(drawn.desc["ATensor"]["Sizes"]) > 2:
        desc = {**deepcopy(drawn.desc), "FusedActivation": {"Type": "ACTIVATION_SOFTMAX"}}
        for name in ("ATensor", "BTensor", "CTensor"):
            if name in desc:
                desc[name]["Sizes"][0] = 2
        yield desc, "sizes_mismatch", "/ATensor/Sizes/0"


def _fused(rule: Rule, drawn: Drawn, draw: st.DrawFn) -> None:
    fused: Desc | None = drawn.desc.get("FusedActivation")
    if fused is not None:
        desc = fused.get("Desc", fused)
        if "Axes" in desc:
            desc["Axes"] = draw(st.lists(st.integers(0, 1), min_size=1, max_size=2, unique=True))


NAMES = ("GEMM", "MATRIX_MULTIPLY_INTEGER", "MATRIX_MULTIPLY_INTEGER_TO_FLOAT", "QUANTIZED_LINEAR_MATRIX_MULTIPLY")

FAMILIES = ("matrix",)

SHAPED: dict[str, Callable[[Drawn, st.DrawFn], None]] = dict.fromkeys(NAMES, _matrices)

SIZES: dict[str, Callable[[Mapping[str, Any]], Sizes]] = dict.fromkeys(NAMES, _product)

SATISFY: dict[type[Rule], Callable[[Any, Drawn, st.DrawFn], None]] = {
    FusedAlongRows: _single,
    FusedAxes: _fused,
    PerRowOrColumn: holds_as_drawn,
    SameSizes: holds_as_drawn,
    Shapes: holds_as_drawn,
}

BREAK: dict[type[Rule], Callable[[Any, Drawn], Iterator[Change]]] = {
    FusedAlongRows: _several,
    FusedAxes: _past_rank,
    PerRowOrColumn: _other_count,
    SameRank: _other_rank,
    SameSizes: _other_zero_point,
    SameType: _other_type,
    Shapes: _unequal,
}
