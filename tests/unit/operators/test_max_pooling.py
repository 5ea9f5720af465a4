"""Sizes and windows of max pooling, checked by enumeration."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire.check import check, validate
from opwire.errors import ContractViolation
from opwire.rules.dimension import Dimension
from tests.support.profiles import examples

NAMES = ("Strides", "WindowSize", "StartPadding", "EndPadding", "Dilations")


def pooling(size: int, members: tuple[int, ...], output: int | None = None) -> dict[str, Any]:
    """Returns MAX_POOLING2 over one row of ``size`` elements."""
    desc: dict[str, Any] = {"InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 1, size]}}
    for name, value in zip(NAMES, members, strict=True):
        desc[name] = [0 if "Padding" in name else 1, value]
    if output is not None:
        desc["OutputTensor"] = {"DataType": "FLOAT32", "Sizes": [1, 1, 1, output]}
    return {"type": "MAX_POOLING2", "desc": desc}


def codes(operator: dict[str, Any]) -> set[str]:
    """Returns the codes of violations and warnings."""
    return {violation.code.value for violation in validate(operator, strict=True).violations}


def reaches(dimension: Dimension, at: int) -> bool:
    """Whether a window contains an input element."""
    begin = at * dimension.stride - dimension.start
    return any(0 <= begin + k * dimension.dilation < dimension.size for k in range(dimension.window))


def floor_count(size: int, stride: int, window: int, start: int, end: int, dilation: int) -> int:
    """Counts windows that start at a multiple of the stride and end within the padded input."""
    last = size + start + end - 1
    return sum(begin + (window - 1) * dilation <= last for begin in range(0, last + 1, stride))


MEMBERS = st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(0, 9), st.integers(0, 9), st.integers(1, 9))


@examples(300)
@given(st.integers(1, 8), MEMBERS, st.integers(0, 30))
def test_windows_with_elements_match_enumeration(size, members, count):
    dimension = Dimension(size, *members)
    assert dimension.windows_with_element(count) == sum(reaches(dimension, at) for at in range(count))


@examples(150)
@given(st.integers(1, 40), MEMBERS, st.integers(1, 12))
def test_the_declared_output_size_is_checked(size, members, declared):
    stride, window, start, end, dilation = members
    floor = floor_count(size, *members)
    if floor == 0:
        assert codes(pooling(size, members)) == {"missing_field"}
        return
    covered = (floor - 1) * stride + 1 + (window - 1) * dilation
    ceiling = floor + (covered < size + start + end)
    operator = pooling(size, members, declared)
    assert validate(operator).valid
    dimension = Dimension(size, *members)
    whole = all(reaches(dimension, at) for at in range(declared))
    undocumented = set() if declared in (floor, ceiling) else {"sizes_mismatch"}
    assert codes(operator) == undocumented | (set() if whole else {"not_computable"})
    if whole:
        assert check(operator).outputs["OutputTensor"].sizes == (1, 1, 1, declared)


@examples(100)
@given(st.integers(1, 40), MEMBERS)
def test_an_omitted_output_has_the_floor_size(size, members):
    found = validate(pooling(size, members))
    floor = floor_count(size, *members)
    dimension = Dimension(size, *members)
    if floor:
        assert found.outputs["OutputTensor"].sizes == (1, 1, 1, floor)
        assert bool(found.warnings) is not all(reaches(dimension, at) for at in range(floor))
    else:
        assert not found.valid
        assert not found.outputs


@given(
    st.tuples(st.integers(1, 2**16), st.integers(1, 2**31), st.integers(1, 2**31), st.integers(0, 2**31)),
    st.tuples(st.integers(0, 2**31), st.integers(1, 2**31)),
    st.integers(1, 2**32 - 1),
)
def test_counting_windows_takes_constant_time(first, second, count):
    dimension = Dimension(*first, *second)
    assert 0 <= dimension.windows_with_element(count) <= count


@pytest.mark.parametrize(
    ("size", "members", "output", "refused"),
    [
        (6, (2, 3, 0, 0, 1), 2, set()),
        (6, (2, 3, 0, 0, 1), 3, set()),
        (6, (2, 3, 0, 0, 1), 4, {"sizes_mismatch", "not_computable"}),
        (7, (2, 3, 0, 0, 1), 3, set()),
        (7, (2, 3, 0, 0, 1), 4, {"sizes_mismatch"}),
        # A window that is larger than the padded input.
        (2, (1, 3, 0, 0, 1), 1, set()),
        (2, (1, 3, 0, 0, 1), None, {"missing_field"}),
        (2, (0, 1, 0, 0, 1), 1, {"not_computable"}),
        (2, (1, 1, 0, 0, 0), 2, {"not_computable"}),
        # A window of the ceiling size would start after the last element.
        (2, (2, 1, 0, 1, 1), 2, {"not_computable"}),
        # Dilation skips the whole input.
        (1, (1, 2, 1, 1, 2), None, {"not_computable"}),
        (1, (1, 3, 2, 2, 2), None, set()),
        # Padding as wide as the window is valid while each window contains an element.
        (4, (4, 2, 2, 0, 1), None, {"not_computable"}),
        (4, (1, 8, 4, 0, 1), None, set()),
    ],
)
def test_worked_output_sizes(size, members, output, refused):
    assert codes(pooling(size, members, output)) == refused


def test_windows_of_padding_are_located():
    with pytest.raises(ContractViolation) as refusal:
        check(pooling(4, (1, 2, 2, 2, 1), 7))
    (violation,) = refusal.value.violations
    assert violation.pointer == "/desc/OutputTensor/Sizes/3"
    assert violation.message.startswith("2 of the 7 windows")
    with pytest.raises(ContractViolation) as refusal:
        check(pooling(4, (1, 2, 2, 2, 1)))
    assert [violation.pointer for violation in refusal.value.violations] == ["/desc"]


def test_both_outputs_must_have_the_same_size():
    # Floor for one and ceiling for the other; each would be valid on its own.
    operator = pooling(6, (2, 3, 0, 0, 1), 2)
    operator["desc"]["OutputIndicesTensor"] = {"DataType": "UINT32", "Sizes": [1, 1, 1, 3]}
    with pytest.raises(ContractViolation) as refusal:
        check(operator)
    assert [(violation.code.value, violation.pointer) for violation in refusal.value.violations] == [
        ("sizes_mismatch", "/desc/OutputIndicesTensor/Sizes")
    ]


@pytest.mark.parametrize(
    ("members", "size"),
    [
        ((3, 1, 1, 2**32 - 1, 0, 1), 2),
        ((3, 1, 1, 2**31, 2**31, 1), 3),
        ((3, 1, 2, 0, 0, 2**32 - 1), 4),
        ((3, 1, 3, 5, 0, 2**31), 8),
        ((3, 1, 4, 0, 0, 1), 1),
    ],
)
def test_sizes_of_gradients_wrap_around_as_directml_answered(members, size):
    assert Dimension(*members).gradient_size == size
