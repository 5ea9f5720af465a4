"""Bytes of a tensor: sizes, strides, totals, alignment, and overlapping outputs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opwire.check import check
from opwire.errors import ContractViolation
from opwire.tensor import BufferTensorDesc, DataType
from tests.support.profiles import examples

MOST = 2**32 - 1


def copying(tensor: Mapping[str, object], **output: object) -> dict[str, object]:
    """Returns a reduction along no axis, which copies its input."""
    return {"type": "REDUCE", "desc": {"Function": "MAX", "InputTensor": tensor, "Axes": [], **output}}


def refused(tensor: Mapping[str, object], **output: object) -> list[tuple[str, str]]:
    """Returns the violations of an input, or of an output of the same sizes."""
    with pytest.raises(ContractViolation) as refusal:
        check(copying(tensor, **output))
    return [(violation.code.value, violation.pointer) for violation in refusal.value.violations]


def accepted(**members: object) -> BufferTensorDesc:
    return check({"type": "REDUCE", "desc": {"Function": "MAX", "InputTensor": members, "Axes": []}}).inputs[
        "InputTensor"
    ]


@pytest.mark.parametrize(
    ("data_type", "sizes", "strides", "data", "minimum"),
    [
        ("FLOAT16", (1, 1, 3, 3), None, 18, 20),
        ("UINT8", (5,), None, 5, 8),
        ("INT4", (5,), None, 3, 4),
        ("FLOAT32", (2, 3), (5, 1), 32, 32),
        ("FLOAT32", (2, 3), (0, 1), 12, 12),
        ("INT64", (3,), None, 24, 24),
        ("UINT8", (1,), (7,), 1, 4),
        ("UINT16", (2, 2), (1, 2), 8, 8),
        ("FLOAT64", (2,), (3,), 32, 32),
        ("UINT4", (3,), (2,), 3, 4),
        ("UINT8", (65535, 65537), None, MOST, 2**32),
    ],
)
def test_sizes_in_bytes(data_type, sizes, strides, data, minimum):
    desc = BufferTensorDesc(DataType[data_type], sizes, strides)
    assert (desc.data_size_in_bytes, desc.minimum_size_in_bytes, desc.total_size_in_bytes) == (data, minimum, minimum)


@given(
    st.sampled_from([row for row in DataType if row.bits >= 8]),
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 12)), min_size=1, max_size=4),
)
def test_the_data_ends_at_the_last_element(data_type, dimensions):
    sizes, strides = zip(*dimensions, strict=True)
    desc = BufferTensorDesc(data_type, sizes, strides)
    last = max(sum(a * b for a, b in zip(at, strides, strict=True)) for at in itertools.product(*map(range, sizes)))
    assert desc.extent == last + 1
    assert desc.data_size_in_bytes == (last + 1) * data_type.bits // 8
    assert 0 <= desc.minimum_size_in_bytes - desc.data_size_in_bytes < 4
    assert desc.minimum_size_in_bytes % 4 == 0


def test_the_total_size_must_cover_the_data():
    tensor = {"DataType": "FLOAT16", "Sizes": [3, 3]}
    at = "/desc/InputTensor/TotalTensorSizeInBytes"
    for total in (0, 20, 21, 22, 24, 2**33 - 1):
        assert accepted(**tensor, TotalTensorSizeInBytes=total).total_size_in_bytes == max(total, 20)
    for total in (1, 16, 18, 19, 2**33, 2**63 + 1):
        assert refused({**tensor, "TotalTensorSizeInBytes": total}) == [("total_size_invalid", at)]
    assert refused({**tensor, "TotalTensorSizeInBytes": 2**64}) == [("out_of_range", at)]
    assert refused({**tensor, "TotalTensorSizeInBytes": -4}) == [("out_of_range", at)]
    # The classic mistake: strides changed, but not the total size.
    assert refused({**tensor, "Strides": [4, 1], "TotalTensorSizeInBytes": 20}) == [("total_size_invalid", at)]


@pytest.mark.parametrize(
    ("data_type", "alignment", "valid"),
    [
        ("FLOAT32", 0, True),
        ("FLOAT32", 16, True),
        ("FLOAT32", 2**31, True),
        ("FLOAT32", 4, False),
        ("FLOAT32", 24, False),
        ("UINT8", 1, False),
        ("INT64", 8, False),
        ("INT64", 32, True),
    ],
)
def test_alignment_must_be_valid(data_type, alignment, valid):
    tensor = {"DataType": data_type, "Sizes": [2], "GuaranteedBaseOffsetAlignment": alignment}
    if valid:
        assert accepted(**tensor).guaranteed_base_offset_alignment == alignment
    else:
        at = "/desc/InputTensor/GuaranteedBaseOffsetAlignment"
        assert ("alignment_invalid", at) in refused(tensor)


def test_the_number_of_elements_is_bounded():
    assert accepted(DataType="FLOAT32", Sizes=[65535, 65537]).element_count == MOST
    assert accepted(DataType="FLOAT32", Sizes=[2], Strides=[MOST - 1]).extent == MOST
    assert accepted(DataType="FLOAT32", Sizes=[MOST], Strides=[0]).extent == 1
    sizes, strides = "/desc/InputTensor/Sizes", "/desc/InputTensor/Strides"
    # Rounded up to a multiple of 4 bytes, this has room for one element more.
    at = "/desc/InputTensor/TotalTensorSizeInBytes"
    assert refused({"DataType": "UINT8", "Sizes": [65535, 65537]}) == [("total_size_invalid", at)]
    assert refused({"DataType": "FLOAT32", "Sizes": [65536, 65536]}) == [("too_many_elements", sizes)]
    assert refused({"DataType": "FLOAT32", "Sizes": [65536, 65536], "Strides": [0, 0]}) == [
        ("too_many_elements", sizes)
    ]
    assert refused({"DataType": "FLOAT32", "Sizes": [2], "Strides": [MOST]}) == [("too_many_elements", strides)]
    assert refused({"DataType": "FLOAT32", "Sizes": [MOST] * 8}) == [("too_many_elements", sizes)]


def test_the_number_of_elements_of_derived_outputs_is_bounded():
    padding = [2**17, 2**17]
    desc = {
        "InputTensor": {"DataType": "UINT8", "Sizes": [1, 1, 1, 1]},
        "Strides": [1, 1],
        "WindowSize": padding,
        "StartPadding": [2**17 - 1] * 2,
        "EndPadding": [2**17 - 1] * 2,
    }
    with pytest.raises(ContractViolation) as refusal:
        check({"type": "MAX_POOLING", "desc": desc})
    assert [(violation.code.value, violation.pointer) for violation in refusal.value.violations] == [
        ("too_many_elements", "/desc")
    ]


def addresses_differ(sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether all addresses are different, by enumeration."""
    addresses = [sum(a * b for a, b in zip(at, strides, strict=True)) for at in itertools.product(*map(range, sizes))]
    return len(set(addresses)) == len(addresses)


@examples(500)
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 30)), min_size=1, max_size=4))
@example([(2, 3), (3, 2)])
@example([(3, 2), (3, 3)])
@example([(2, 3), (2, 5), (2, 8)])
@example([(1, 0), (4, 1)])
def test_overlap_matches_enumeration(dimensions):
    sizes, strides = zip(*dimensions, strict=True)
    assert BufferTensorDesc(DataType.UINT8, sizes, strides).addresses_are_unique() == addresses_differ(sizes, strides)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8), st.data())
def test_permuted_dimensions_with_gaps_do_not_overlap(sizes, data):
    strides, step = [0] * len(sizes), 1
    for i in data.draw(st.permutations(range(len(sizes)))):
        strides[i] = step
        step = step * sizes[i] + data.draw(st.integers(0, 3))
    assert BufferTensorDesc(DataType.UINT8, tuple(sizes), tuple(strides)).addresses_are_unique()


@pytest.mark.parametrize(
    ("sizes", "strides", "unique"),
    [
        ((8, 512, 512, 64), (512 * 512 * 64, 512, 1, 512 * 512), True),
        ((1000, 1000), (1000, 1), True),
        ((1000, 1000), (1024, 1), True),
        ((1000, 1000), (999, 1), False),
        ((1000, 1000), (1, 1000), True),
        ((65535, 65537), (65537, 1), True),
        ((65535, 65537), (1, 65535), True),
        ((2, 2**31 - 1), (2**31 - 1, 1), True),
        ((2, 2**31 - 1), (2**31 - 2, 1), False),
        # Interleaved by an odd and an even step: they first meet at 999 * 1001 = 1001 * 999.
        ((999, 1001), (1001, 999), True),
        ((1000, 1002), (1001, 999), False),
    ],
)
def test_overlap_of_large_outputs_is_decided(sizes, strides, unique):
    assert BufferTensorDesc(DataType.UINT8, sizes, strides).addresses_are_unique() is unique


@examples(100)
@given(st.lists(st.tuples(st.integers(1, 2**16), st.integers(0, 2**32 - 1)), min_size=8, max_size=8))
def test_the_search_for_overlap_is_bounded(dimensions):
    sizes, strides = zip(*dimensions, strict=True)
    began = time.process_time()
    unique = BufferTensorDesc(DataType.UINT8, sizes, strides).addresses_are_unique()
    assert time.process_time() - began < 5
    if 0 in [stride for size, stride in dimensions if size > 1]:
        assert not unique


def test_an_output_that_overlaps_is_refused_and_an_input_is_not():
    source = {"DataType": "FLOAT32", "Sizes": [2, 3], "Strides": [1, 1]}
    assert accepted(**source).extent == 4
    assert refused(source, OutputTensor=source) == [("output_overlaps", "/desc/OutputTensor/Strides")]
    assert refused(source, OutputTensor={"Desc": source}) == [("output_overlaps", "/desc/OutputTensor/Desc/Strides")]
    output = {**source, "Strides": [1, 2]}
    plan = check(
        {"type": "REDUCE", "desc": {"Function": "SUM", "InputTensor": source, "Axes": [], "OutputTensor": output}}
    )
    assert plan.outputs["OutputTensor"].strides == (1, 2)


@pytest.mark.parametrize("strides", [None, (1, 100), (300, 1)], ids=["packed", "across", "with gaps"])
def test_large_buffers_are_aligned_to_cache_lines(strides):
    desc = BufferTensorDesc(DataType.FLOAT32, (100, 200), strides)
    buffer, view = desc.allocate()
    assert (view.shape, buffer.shape) == ((100, 200), (desc.data_size_in_bytes,))
    assert buffer.ctypes.data == view.ctypes.data
    assert buffer.ctypes.data % 64 == 0
    view[...] = 1
    assert buffer.view(np.float32).sum() == 20_000  # gaps are zero
