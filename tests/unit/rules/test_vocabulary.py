"""The vocabulary of rules, on hand-made tensors: what satisfies them, and their faults."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from opwire.fields.structs import Size2D
from opwire.level import FeatureLevel
from opwire.rules import (
    Derived,
    NamedSize,
    Rule,
    Windows,
    absent,
    any_given,
    at_least,
    at_most_one_given,
    axis,
    below,
    between,
    blocks,
    broadcast,
    elements,
    exactly_one_given,
    finite_or_nan,
    from_level,
    given_together,
    in_interval,
    length_is,
    not_empty,
    not_owned,
    number,
    one_element,
    one_of,
    part,
    pooled,
    rank,
    required,
    same_leading,
    same_sizes,
    shapes,
    size,
    sizes_of,
    sum_along,
    window_steps,
    with_tensor,
    without_tensor,
)
from opwire.tensor import BufferTensorDesc, DataType, TensorFlags


def tensor(*sizes: int, flags: TensorFlags = TensorFlags.NONE) -> BufferTensorDesc:
    return BufferTensorDesc(DataType.FLOAT32, sizes, flags=flags)


ROW = Windows(over="A", dilated=False)
POOLING = {"A": tensor(1, 1, 6), "Strides": (2,), "WindowSize": (3,), "StartPadding": (0,), "EndPadding": (0,)}
"""Windows of three over six elements with stride two: two of them, or three with one that extends beyond."""

MOST = Windows(over="A", dilated=False, most=2)
"""The same, with a number in excess."""

OWNED = tensor(1, flags=TensorFlags.OWNED_BY_DML)


def places(rule: Rule | tuple[Rule, ...], values: dict[str, Any]) -> list[tuple[str, tuple[str | int, ...]]]:
    """Returns code and place of each fault, with nothing given but what the rules declare to read."""
    rules = rule if isinstance(rule, tuple) else (rule,)
    assert frozenset[str]().union(*(each.reads for each in rules)) <= values.keys()
    return [(fault.code.value, fault.path) for each in rules for fault in each.faults(values)]


@pytest.mark.parametrize(
    ("rule", "values", "found"),
    [
        (broadcast("B", to="A"), {"A": tensor(2, 3), "B": tensor(1, 3)}, []),
        (broadcast("B", to="A"), {"A": tensor(2, 3), "B": tensor(3, 1)}, [("sizes_mismatch", ("B", "Sizes", 0))]),
        (broadcast("B", to="A"), {"A": tensor(2, 3), "B": None}, []),
        (blocks("B", of="A"), {"A": tensor(4, 6), "B": tensor(2, 3)}, []),
        (blocks("B", of="A"), {"A": tensor(4, 6), "B": tensor(2, 4)}, [("sizes_mismatch", ("B", "Sizes", 1))]),
        (axis("Axis", of="As"), {"Axis": 2, "As": (tensor(1, 1, 1), tensor(1))}, []),
        (axis("Axis", of="As"), {"Axis": 2, "As": (tensor(1, 1),)}, [("axis_out_of_range", ("Axis",))]),
        (axis("Axis", of="As"), {"Axis": 2, "As": ()}, []),
        (sum_along("Axis", "As", "B"), {"Axis": 0, "As": (), "B": tensor(3)}, []),
        (
            blocks("Bs", of="A"),
            {"A": tensor(4), "Bs": (tensor(2), tensor(3))},
            [("sizes_mismatch", ("Bs", 1, "Sizes", 0))],
        ),
        (between(part("A", "Width"), 1, None), {"A": Size2D(1, 0)}, []),
        (between(part("A", "Height"), 1, None), {"A": Size2D(1, 0)}, [("out_of_range", ("A", "Height"))]),
        (pooled(ROW, "B"), {**POOLING, "B": tensor(1, 1, 2)}, []),
        (pooled(ROW, "B"), {**POOLING, "B": tensor(1, 1, 3)}, []),
        (pooled(ROW, "B"), {**POOLING, "B": tensor(2, 1, 4)}, [("sizes_mismatch", ("B", "Sizes", 2))]),
        (pooled(ROW, "B", exact=True), {**POOLING, "B": tensor(1, 1, 3)}, [("sizes_mismatch", ("B", "Sizes", 2))]),
        (pooled(ROW, "B", exact=True), {**POOLING, "WindowSize": (9,), "B": tensor(1, 1, 1)}, []),
        (pooled(ROW, "B"), {**POOLING, "B": tensor(4)}, []),
        (pooled(ROW, "B"), {**POOLING, "WindowSize": (9,), "B": tensor(1, 1, 1)}, []),
        (pooled(ROW, "B"), {**POOLING, "WindowSize": (2, 2), "B": tensor(1, 1, 1)}, []),
        (length_is(1, "A"), {"A": (tensor(1), tensor(1))}, [("count_mismatch", ("A",))]),
        (one_element("A", "B"), {"A": tensor(1, 1), "B": None}, []),
        (one_element("A", "B"), {"A": tensor(1, 1), "B": tensor(1, 2)}, [("sizes_mismatch", ("B", "Sizes"))]),
        (same_sizes("A", "B", but_along="Axis"), {"A": tensor(2, 3), "B": tensor(2, 9), "Axis": 1}, []),
        (
            same_sizes("A", "B", but_along="Axis"),
            {"A": tensor(2, 3), "B": tensor(2, 9), "Axis": 0},
            [("sizes_mismatch", ("B", "Sizes"))],
        ),
        (sum_along("Axis", "As", "B"), {"As": (tensor(1), tensor(2)), "B": tensor(3), "Axis": 0}, []),
        (
            sum_along("Axis", "As", "B"),
            {"As": (tensor(1), tensor(1)), "B": tensor(3), "Axis": 0},
            [("sizes_mismatch", ("As",))],
        ),
        (not_owned("A", "B"), {"A": tensor(1), "B": OWNED}, [("flags_invalid", ("B", "Flags"))]),
        (one_of("P", 1, 2), {"P": 2}, []),
        (one_of("P", 1, 2), {"P": 3}, [("value_not_allowed", ("P",))]),
        (in_interval("Beta", 0, 1), {"Beta": 1.0}, []),
        (in_interval("Beta", 0, 1), {"Beta": 1.5}, [("out_of_range", ("Beta",))]),
        (at_least(0.5, "Scales"), {"Scales": (1.0, inf, 0.0, nan)}, [("out_of_range", ("Scales", i)) for i in (2, 3)]),
        (finite_or_nan("X", "Y", "Z", least=0), {"X": 0.0, "Y": -1.0, "Z": nan}, [("out_of_range", ("Y",))]),
        (finite_or_nan("X", least=0), {"X": inf}, [("out_of_range", ("X",))]),
        (same_leading(2, "A", "B"), {"A": tensor(1, 2, 3), "B": tensor(1, 2, 4, 5)}, []),
        (same_leading(2, "A", "B"), {"A": tensor(1, 2), "B": tensor(1, 3)}, [("sizes_mismatch", ("B", "Sizes", 1))]),
        (window_steps(ROW), {**POOLING, "Strides": (0,)}, [("out_of_range", ("Strides", 0))]),
        (window_steps(MOST), {**POOLING, "Strides": (1, 0)}, []),
        (not_empty("Axes"), {"Axes": ()}, [("count_mismatch", ("Axes",))]),
        (not_empty("Axes"), {"Axes": (1,)}, []),
        (length_is(rank("A"), "X", "Y"), {"A": tensor(1, 2), "X": (1, 2), "Y": (1,)}, [("count_mismatch", ("Y",))]),
        (
            between(number("K"), 1, size("A", "Axis")),
            {"K": 4, "A": tensor(2, 3), "Axis": 1},
            [("out_of_range", ("K",))],
        ),
        (between(number("K"), 1, size("A", "Axis")), {"K": 3, "A": tensor(2, 3), "Axis": 1}, []),
        (between(elements("A"), 2, None), {"A": tensor(1)}, [("out_of_range", ("A", "Sizes"))]),
        (given_together("A", "B"), {"A": None, "B": None}, []),
        (given_together("A", "B"), {"A": None, "B": tensor(1)}, [("missing_tensor", ("A",))]),
        (any_given("A", "B"), {"A": None, "B": tensor(1)}, []),
        (any_given("A", "B"), {"A": None, "B": None}, [("missing_tensor", ("A",))]),
        (exactly_one_given("A", "B"), {"A": None, "B": None}, [("missing_tensor", ("A",))]),
        (exactly_one_given("A", "B"), {"A": tensor(1), "B": tensor(1)}, [("unexpected_tensor", ("B",))]),
        (at_most_one_given("A", "B"), {"A": None, "B": None}, []),
        (with_tensor("A", required("B")), {"A": tensor(1), "B": None}, [("missing_tensor", ("B",))]),
        (with_tensor("A", required("B")), {"A": None, "B": None}, []),
        (without_tensor("A", absent("B")), {"A": None, "B": tensor(1)}, [("unexpected_tensor", ("B",))]),
    ],
)
def test_rules_find_their_faults(rule, values, found):
    assert places(rule, values) == found


def test_faults_carry_the_levels_of_conditions():
    (old,) = below(FeatureLevel.V4_0, not_empty("Axes"))
    (new,) = from_level(FeatureLevel.V4_0, not_empty("Axes"))
    (fault,) = old.faults({"Axes": ()})
    assert (fault.since, fault.until) == (None, FeatureLevel.V4_0)
    (fault,) = new.faults({"Axes": ()})
    assert (fault.since, fault.until) == (FeatureLevel.V4_0, None)


RECURRENT = shapes(
    Input=(1, "steps", "batch", "input"),
    Weight=(1, number("directions"), 3 * NamedSize("hidden"), "input"),
    Output=("steps", number("directions"), "batch", "hidden"),
)
VALUES = {"Input": tensor(1, 7, 2, 5), "Weight": tensor(1, 2, 12, 5), "directions": 2, "Output": tensor(7, 2, 2, 4)}


def test_named_sizes_must_agree():
    assert places(RECURRENT, VALUES) == []
    rule = Derived(RECURRENT.sizes_of("Output"), default=DataType.FLOAT32).rule(
        {name: value for name, value in VALUES.items() if name != "Output"}
    )
    assert rule is not None
    assert rule.sizes == ((7,), (2,), (2,), (4,))
    assert places(RECURRENT, {**VALUES, "Weight": tensor(1, 2, 12, 6)}) == [("sizes_mismatch", ("Weight", "Sizes", 3))]
    assert places(RECURRENT, {**VALUES, "Weight": tensor(1, 2, 13, 5)}) == [("sizes_mismatch", ("Weight", "Sizes", 2))]
    assert places(RECURRENT, {**VALUES, "Output": tensor(7, 2, 2)}) == [("ranks_differ", ("Output", "Sizes"))]


def test_shapes_can_be_truncated_in_front():
    gemm = shapes(A=("N", "C", "M", "K"), B=("N", "C", "K", "P"), Output=("N", "C", "M", "P"), cut=True)
    two = {"A": tensor(2, 3), "B": tensor(3, 4)}
    assert places(gemm, {**two, "Output": tensor(2, 4)}) == []
    assert places(gemm, {**two, "Output": tensor(3, 4)}) == [("sizes_mismatch", ("Output", "Sizes", 0))]
    assert gemm.sizes_of("Output")(two) == ((2,), (4,))
    assert gemm.sizes_of("Output")({"A": tensor(1, 5, 2, 3), "B": tensor(1, 5, 3, 4)}) == ((1,), (5,), (2,), (4,))


def test_undecided_outputs_are_not_derived():
    regions = shapes(Regions=(..., "count", 4), Output=("count", "height"))
    assert places(regions, {"Regions": tensor(1, 1, 6, 4), "Output": tensor(6, 9)}) == []
    assert regions.sizes_of("Output")({"Regions": tensor(6, 4)}) is None
    assert sizes_of("A")({"A": None}) is None


@pytest.mark.parametrize(
    ("sizes", "found"),
    [
        ((5, 2), []),
        ((1, 1, 5, 3), []),
        ((5,), [("ranks_differ", ("Output", "Sizes"))]),
        ((2, 5, 2), [("sizes_mismatch", ("Output", "Sizes", 0))]),
        ((1, 5, 4), [("sizes_mismatch", ("Output", "Sizes", 2))]),
    ],
)
def test_outputs_can_have_any_number_of_leading_ones(sizes, found):
    output = Derived(lambda values: ((1,), (5,), (3, 2)), default=DataType.FLOAT32, leading_ones=True)
    rule = output.rule({})
    assert rule is not None
    assert rule.derived().sizes == (1, 5, 3)
    assert [(fault.code.value, fault.path) for fault in rule.faults("Output", tensor(*sizes))] == found


def test_outputs_have_the_type_of_an_array():
    rule = Derived(lambda values: ((3,),), like="Parts").rule({"Parts": (tensor(1), tensor(2))})
    assert rule is not None
    given = BufferTensorDesc(DataType.INT8, (3,))
    assert [fault.path for fault in rule.faults("Output", given)] == [("Output", "DataType")]
    assert Derived(lambda values: ((3,),), like="Parts").rule({"Parts": ()}) is None


def test_an_output_like_an_unreadable_tensor_is_undecided():
    assert Derived(sizes_of("A"), like="B").rule({"A": tensor(2)}) is None
