"""Pictures of operators: what depends on what, against what the operators are defined to do, and what is drawn."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest

from opwire.operator import Example
from opwire.operators import OPERATORS
from opwire.schema import CATALOG
from scripts.drawing.picture import pictures
from scripts.drawing.trace import Trace, trace


@pytest.fixture(scope="module")
def drawn():
    return pictures()


def traced(operator: str, example: str) -> tuple[Example, Trace]:
    (found,) = (each for each in OPERATORS[operator].examples if each.name == example)
    return found, trace(OPERATORS[operator], found)


def read(found: Trace, output: tuple[int, ...], name: str = "InputTensor") -> list[tuple[int, ...]]:
    return [at for tensor, at in found.reads["OutputTensor", output] if tensor == name]


@pytest.mark.parametrize("operator", ["AVERAGE_POOLING", "CONVOLUTION"])
def test_windows_slide_over_the_input(operator):
    _, found = traced(operator, "four_windows")
    for i, j in product(range(2), repeat=2):
        assert read(found, (0, 0, i, j)) == [(0, 0, i + y, j + x) for y, x in product(range(2), repeat=2)]


def test_sums_read_all_before_them():
    _, found = traced("CUMULATIVE_SUMMATION", "sums")
    for row, column in product(range(3), range(4)):
        assert read(found, (0, 0, row, column)) == [(0, 0, row, i) for i in range(column + 1)]


def test_saturated_elements_are_read():
    _, found = traced("ACTIVATION_SOFTMAX", "rows")
    assert read(found, (1, 0)) == [(1, 0), (1, 1)]


def test_slices_copy_what_they_select():
    example, found = traced("SLICE", "block")
    starts: Any = example.desc["Offsets"]
    assert found.is_flow
    assert found.copies == {
        ("OutputTensor", (0, 0, i, j)): ("InputTensor", (0, 0, i + starts[2], j + starts[3]))
        for i, j in product(range(3), range(2))
    }


def test_gathered_elements_depend_on_their_index():
    example, found = traced("GATHER", "elements")
    indices: Any = example.inputs["IndicesTensor"]
    for i, index in enumerate(indices):
        assert read(found, (i,), "IndicesTensor") == [(i,)]
        assert found.copies["OutputTensor", (i,)] == ("InputTensor", (index % 4,))


def test_functions_of_single_elements_need_no_picture(drawn):
    for name, kind in CATALOG.items():
        if kind.family in ("arithmetic", "functions", "logic", "clipping", "bits"):
            assert name not in drawn


@pytest.mark.parametrize(
    "family",
    ["pooling", "max_pooling", "convolution", "gather", "movement", "reduce", "resampling", "cumulative", "matrix"],
)
def test_families_where_a_picture_helps_have_one(drawn, family):
    names = [name for name, kind in CATALOG.items() if kind.family == family and name != "CAST"]
    assert [name for name in names if name not in drawn] == []


def test_pictures_show_the_results_of_their_example(drawn):
    for name in ("GEMM", "MAX_POOLING", "JOIN"):
        (values,) = drawn[name].example.outputs.values()
        flat = re.findall(r"-?[\d.]+", str(values))
        shown = re.findall(r'class="v"[^>]*>([^<]+)<', drawn[name].svg)
        assert shown[-len(flat) :] == flat
