"""Keeps and breaks the rules of quantized tensors: single elements, and scales."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hypothesis import strategies as st

from opwire.operators.convolution import PerFilter
from opwire.operators.linear_quantization import ScaleFits
from opwire.rules import Rule
from opwire.rules.numbers import NotEmpty
from opwire.rules.tensors import OneElement

from .changes import changed
from .descs import Drawn, given_tensors
from .faults import Change
from .outputs import Sizes, convolved


def _one_element(rule: OneElement, drawn: Drawn, draw: st.DrawFn) -> None:
    for tensor in given_tensors(rule.tensors, drawn.desc):
        tensor["Sizes"] = [1] * len(tensor["Sizes"])


def _several_elements(rule: OneElement, drawn: Drawn) -> Iterator[Change]:
    for name in rule.tensors:
        if drawn.desc.get(name) is not None:
            *sizes, _ = drawn.desc[name]["Sizes"]
            yield changed(drawn, name, Sizes=[*sizes, 2]), "sizes_mismatch", f"/{name}/Sizes"


def _scale(rule: ScaleFits, drawn: Drawn, draw: st.DrawFn) -> None:
    given = drawn.desc[rule.source]["DataType"]
    drawn.desc[rule.scale]["DataType"] = given if given.startswith("FLOAT") else "FLOAT32"


def _other_scale(rule: ScaleFits, drawn: Drawn) -> Iterator[Change]:
    given = drawn.desc[rule.scale]["DataType"]
    for data_type in drawn.row.tensors[rule.scale].data_types:
        if data_type.name != given:
            yield changed(drawn, rule.scale, DataType=data_type.name), "data_types_differ", f"/{rule.scale}/DataType"


def _channels(rule: PerFilter, drawn: Drawn, draw: st.DrawFn) -> None:
    if rule.tensor in drawn.desc:
        filters = drawn.desc[rule.filters]["Sizes"][0]
        rank = draw(st.integers(*drawn.row.tensors[rule.tensor].ranks))
        at = 1 if rank == 4 else draw(st.integers(0, rank - 1))
        each = draw(st.sampled_from([1, filters]))
        drawn.desc[rule.tensor] |= {"Sizes": [each if i == at else 1 for i in range(rank)], "Strides": None}


def _other_channels(rule: PerFilter, drawn: Drawn) -> Iterator[Change]:
    if rule.tensor not in drawn.desc:
        return
    filters, rank = drawn.desc[rule.filters]["Sizes"][0], len(drawn.desc[rule.tensor]["Sizes"])
    for i in range(rank):
        sizes = [1] * i + [filters + 2] + [1] * (rank - i - 1)
        yield changed(drawn, rule.tensor, Sizes=sizes), "sizes_mismatch", f"/{rule.tensor}/Sizes/{i}"
    if filters > 1 and rank > 1:
        place = {2: 1, 3: 1, 4: 0}[rank]
        sizes = [filters, filters, *[1] * (rank - 2)]
        yield changed(drawn, rule.tensor, Sizes=sizes), "sizes_mismatch", f"/{rule.tensor}/Sizes/{place}"


def _not_empty(rule: NotEmpty, drawn: Drawn, draw: st.DrawFn) -> None:
    if not drawn.desc[rule.array]:
        drawn.desc[rule.array] = [0]


def _empty(rule: NotEmpty, drawn: Drawn) -> Iterator[Change]:
    yield {**drawn.desc, rule.array: []}, "count_mismatch", f"/{rule.array}"


FAMILIES = ("quantization", "softmax", "convolution")

SIZES: dict[str, Callable[[Mapping[str, Any]], Sizes]] = dict.fromkeys(
    ("CONVOLUTION_INTEGER", "QUANTIZED_LINEAR_CONVOLUTION"), convolved
)

SATISFY: dict[type[Rule], Callable[[Any, Drawn, st.DrawFn], None]] = {
    OneElement: _one_element,
    ScaleFits: _scale,
    PerFilter: _channels,
    NotEmpty: _not_empty,
}

BREAK: dict[type[Rule], Callable[[Any, Drawn], Iterator[Change]]] = {
    OneElement: _several_elements,
    ScaleFits: _other_scale,
    PerFilter: _other_channels,
    NotEmpty: _empty,
}
