"""Keeps and breaks the rules of quantized tensors: single elements, and scales."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

from opwire.operators.linear_quantization import ScaleFits
from opwire.rules import Rule
from opwire.rules.numbers import NotEmpty
from opwire.rules.tensors import OneElement

from .changes import changed
from .descs import Drawn, given_tensors
from .faults import Change


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


def _not_empty(rule: NotEmpty, drawn: Drawn, draw: st.DrawFn) -> None:
    if not drawn.desc[rule.array]:
        drawn.desc[rule.array] = [0]


def _empty(rule: NotEmpty, drawn: Drawn) -> Iterator[Change]:
    yield {**drawn.desc, rule.array: []}, "count_mismatch", f"/{rule.array}"


FAMILIES = ("quantization", "softmax", "convolution")

SATISFY: dict[type[Rule], Callable[[Any, Drawn, st.DrawFn], None]] = {
    OneElement: _one_element,
    ScaleFits: _scale,
    NotEmpty: _not_empty,
}

BREAK: dict[type[Rule], Callable[[Any, Drawn], Iterator[Change]]] = {
    OneElement: _several_elements,
    ScaleFits: _other_scale,
    NotEmpty: _empty,
}
