"""The worked examples of every operator, and common pitfalls, on every device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from opwire.check import check
from opwire.operator import Example, Operator
from opwire.tensor import DataType
from tests.oracles import oracle
from tests.support.examples import EXAMPLES, by_tensor
from tests.support.execution import execute, never_stop, run

NAN, INF = math.nan, math.inf
TOP = float(np.finfo(np.float32).max)
LEAST = 2.0**-149
STEP = 2.0**-24
"""Half an ULP of FLOAT32 values in [1, 2)."""


def reduce(device, function: str, values: object, axes=(0,), dtype=np.float32) -> np.ndarray:
    array = np.array(values, dtype)
    return run(device, "REDUCE", array, Function=function, Axes=list(axes))["OutputTensor"]


def position(device, name: str, values: object, direction="INCREASING", dtype=np.float32) -> int:
    array = np.array(values, dtype)
    return int(run(device, name, array, Axes=[0], AxisDirection=direction)["OutputTensor"][0])


def same(actual, right) -> bool:
    return oracle.same(actual, np.array(right, actual.dtype)[()])


@pytest.mark.parametrize(("operator", "example"), EXAMPLES)
def test_examples_match(device, operator: Operator[Any], example: Example):
    """A plan gives the results of its example, also when it runs again with other contents of the same arrays."""
    plan = check({"type": operator.name, "desc": example.desc}, example.level)
    given, answers = by_tensor(operator, example.inputs), by_tensor(operator, example.outputs)
    assert set(answers) == set(plan.outputs)
    right = {name: np.array(answers[name], object).astype(desc.data_type.dtype) for name, desc in plan.outputs.items()}
    buffers = {name: bytearray(desc.data_size_in_bytes) for name, desc in plan.inputs.items()}
    of_zeros = execute(device, plan, buffers)
    for name, desc in plan.inputs.items():
        desc.view(buffers[name])[...] = np.array(given[name], object).astype(desc.data_type.dtype)
    oracle.assert_answers(plan, execute(device, plan, buffers), right)
    inputs = {name: desc.allocate()[1] for name, desc in plan.inputs.items()}
    outputs = {name: desc.allocate()[1] for name, desc in plan.outputs.items()}
    for zeros in (True, False):
        for name, array in inputs.items():
            array[...] = 0 if zeros else np.array(given[name], object).astype(array.dtype)
        device.run(plan, inputs, outputs, never_stop)
        oracle.assert_answers(plan, outputs, of_zeros if zeros else right)


SUMS = [
    ([1, STEP], 1),
    ([1 + 2 * STEP, STEP], 1 + 4 * STEP),
    ([1, STEP, LEAST], 1 + 2 * STEP),
    ([1, STEP, -LEAST], 1),
    ([1e30, 1, -1e30, LEAST], 1),
    ([1e8, LEAST, -1e8], LEAST),
    ([LEAST, LEAST, -LEAST], LEAST),
    ([TOP, TOP, -TOP], TOP),
    ([TOP, 2.0**102, 2.0**102], INF),
    ([TOP, 2.0**102, 2.0**101], TOP),
    ([-TOP, -(2.0**103)], -INF),
    ([TOP, 2.0**103, -LEAST], TOP),
    ([1, -1], 0.0),
    ([-1, 1], 0.0),
    ([-0.0, -0.0], -0.0),
    ([-0.0, 0.0], 0.0),
    ([-0.0], -0.0),
    ([INF, -TOP], INF),
    ([INF, -INF], NAN),
    ([NAN, INF], NAN),
    ([-INF, -INF, 1], -INF),
]


@pytest.mark.parametrize(("values", "right"), SUMS)
def test_sums_are_correctly_rounded(device, values, right):
    assert same(reduce(device, "SUM", values)[0], right)
    assert same(reduce(device, "SUM", values[::-1])[0], right)


OTHERS = [
    ("AVERAGE", [TOP, TOP], TOP),
    ("AVERAGE", [-LEAST, 0, 0], -0.0),
    ("AVERAGE", [LEAST, LEAST, 0], LEAST),
    ("AVERAGE", [LEAST, 0], 0.0),
    ("AVERAGE", [-0.0, -0.0], -0.0),
    ("AVERAGE", [1, -1], 0.0),
    ("AVERAGE", [1, 1, 1 + 2 * STEP], 1),
    ("AVERAGE", [INF, -INF], NAN),
    ("L1", [-0.0], 0.0),
    ("L1", [INF, -INF], INF),
    ("L1", [NAN, -INF], NAN),
    ("L1", [-TOP, -TOP], INF),
    ("L2", [3e38], np.float32(3e38)),
    ("L2", [TOP, TOP], INF),
    ("L2", [3e-42, -4e-42], np.float32(5e-42)),
    ("L2", [-LEAST], LEAST),
    ("L2", [-0.0], 0.0),
    ("L2", [-INF, 1], INF),
    ("L2", [NAN, INF], NAN),
    ("SUM_SQUARE", [-0.0], 0.0),
    ("SUM_SQUARE", [2.0**-75], 0.0),
    ("SUM_SQUARE", [2.0**-75, LEAST], LEAST),
    ("SUM_SQUARE", [2.0**64], INF),
    ("SUM_SQUARE", [-INF, INF], INF),
    ("MULTIPLY", [1e-30, 1e-30, -1], -0.0),
    ("MULTIPLY", [-1e30, 1e30], -INF),
    ("MULTIPLY", [TOP, TOP, LEAST, LEAST], (2.0**48 - 2.0**25) * 2.0**-90),
    ("MULTIPLY", [-0.0, 5], -0.0),
    ("MULTIPLY", [-0.0, -5], 0.0),
    ("MULTIPLY", [0, INF], NAN),
    ("MULTIPLY", [INF, -1], -INF),
    ("MULTIPLY", [INF, 1e-45, -INF, -2], INF),
    ("MULTIPLY", [NAN, 0], NAN),
    ("LOG_SUM", [-0.0], -INF),
    ("LOG_SUM", [-LEAST], NAN),
    ("LOG_SUM", [INF, 1], INF),
    ("LOG_SUM", [-INF, 1], NAN),
    ("LOG_SUM", [INF, -INF], NAN),
    ("LOG_SUM", [0.5, 0.5], 0.0),
    ("LOG_SUM", [1, LEAST], LEAST),
    ("LOG_SUM", [1, -LEAST], -LEAST),
    ("LOG_SUM", [TOP, TOP], np.float32(math.log(TOP) + math.log(2))),
    ("LOG_SUM_EXP", [0], 0.0),
    ("LOG_SUM_EXP", [-0.0], 0.0),
    ("LOG_SUM_EXP", [LEAST], LEAST),
    ("LOG_SUM_EXP", [TOP, TOP], TOP),
    ("LOG_SUM_EXP", [-TOP, -TOP], -TOP),
    ("LOG_SUM_EXP", [0, -TOP], 0.0),
    ("LOG_SUM_EXP", [0, -103], LEAST),
    ("LOG_SUM_EXP", [1000, 1000], np.float32(1000 + math.log(2))),
    ("LOG_SUM_EXP", [INF, -INF], INF),
    ("LOG_SUM_EXP", [-INF, -INF], -INF),
    ("LOG_SUM_EXP", [-INF, 2], 2),
    ("LOG_SUM_EXP", [INF, NAN], NAN),
]


@pytest.mark.parametrize(("function", "values", "right"), OTHERS)
def test_special_values_give_special_results(device, function, values, right):
    actual = reduce(device, function, values)[0]
    agree = oracle.close if function in oracle.LOGARITHMS else oracle.same
    assert agree(actual, np.float32(right))


def test_half_sums_are_rounded_once(device):
    assert same(reduce(device, "SUM", [2048, 1], dtype=np.float16)[0], 2048)
    assert same(reduce(device, "SUM", [2048, 1, 2.0**-24], dtype=np.float16)[0], 2050)
    assert same(reduce(device, "SUM", [65504, 16], dtype=np.float16)[0], INF)
    assert same(reduce(device, "SUM", [65504, 16, -(2.0**-24)], dtype=np.float16)[0], 65504)
    assert same(reduce(device, "AVERAGE", [65504] * 7, dtype=np.float16)[0], 65504)


WRAPS = [
    ("SUM", np.int32, [2**31 - 1, 1], -(2**31)),
    ("SUM", np.uint64, [2**64 - 1, 2], 1),
    ("SUM", np.int64, [-(2**63), -1], 2**63 - 1),
    ("MULTIPLY", np.int64, [2**62, 2], -(2**63)),
    ("MULTIPLY", np.uint32, [2**31 + 1, 2], 2),
    ("L1", np.int64, [-(2**63)], -(2**63)),
    ("L1", np.int32, [-(2**31), -1], -(2**31) + 1),
    ("SUM_SQUARE", np.uint32, [2**16, 3], 9),
    ("SUM_SQUARE", np.int32, [46341], 46341**2 - 2**32),
    ("MAX", np.uint64, [2**64 - 1, 2**64 - 2], 2**64 - 1),
    ("MIN", np.int64, [-(2**63), -(2**63) + 1], -(2**63)),
]


@pytest.mark.parametrize(("function", "dtype", "values", "right"), WRAPS)
def test_integers_wrap_around_and_keep_all_bits(device, function, dtype, values, right):
    assert int(reduce(device, function, values, dtype=dtype)[0]) == right


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_maxima_and_minima_keep_the_bits_of_the_winner(device, dtype):
    assert same(reduce(device, "MIN", [0.0, -0.0], dtype=dtype)[0], 0.0)
    assert same(reduce(device, "MIN", [-0.0, 0.0], dtype=dtype)[0], -0.0)
    assert same(reduce(device, "MAX", [-0.0, 0.0], dtype=dtype)[0], -0.0)
    assert same(reduce(device, "MAX", [NAN, -INF], dtype=dtype)[0], -INF)
    assert same(reduce(device, "MIN", [INF, NAN], dtype=dtype)[0], INF)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("quiet", [True, False])
def test_all_nan_yields_the_first_with_its_bits(device, dtype, quiet):
    fraction_bits = np.finfo(dtype).nmant
    unsigned = f"u{dtype().itemsize}"
    infinity = int(np.array(INF, dtype).view(unsigned))
    payloads = [infinity | quiet << (fraction_bits - 1) | payload for payload in (5, 9, 3)]
    array = np.array(payloads, unsigned).view(dtype)
    for function in ("MIN", "MAX"):
        result = run(device, "REDUCE", array, Function=function, Axes=[0])["OutputTensor"]
        assert int(result.view(unsigned)[0]) == payloads[0]


POSITIONS = [
    ([1, 2, 2, 1], 0, 3, 1, 2),
    ([0.0, -0.0, 0.0], 0, 2, 0, 2),
    ([NAN, 3, NAN, 3, NAN], 1, 3, 1, 3),
    ([NAN, NAN, NAN], 0, 2, 0, 2),
    ([INF, NAN, -INF], 2, 2, 0, 0),
    ([-INF, NAN, -INF], 0, 2, 0, 2),
]


@pytest.mark.parametrize(("values", "first_least", "last_least", "first_greatest", "last_greatest"), POSITIONS)
def test_argmax_and_argmin_break_ties_by_direction(
    device, values, first_least, last_least, first_greatest, last_greatest
):
    for dtype in (np.float16, np.float32):
        assert position(device, "ARGMIN", values, dtype=dtype) == first_least
        assert position(device, "ARGMIN", values, "DECREASING", dtype) == last_least
        assert position(device, "ARGMAX", values, dtype=dtype) == first_greatest
        assert position(device, "ARGMAX", values, "DECREASING", dtype) == last_greatest
        assert int(reduce(device, "ARGMIN", values, dtype=dtype)[0]) == first_least
        assert int(reduce(device, "ARGMAX", values, dtype=dtype)[0]) == first_greatest


@pytest.mark.parametrize("count", [20_000, 100_000])
def test_indices_far_into_large_tensors(device, count):
    values = np.full(count, NAN, np.float32)
    assert position(device, "ARGMAX", values) == 0
    assert position(device, "ARGMAX", values, "DECREASING") == count - 1
    values[[9_000, 17_000, 17_500]] = 7
    for name in ("ARGMIN", "ARGMAX"):
        assert position(device, name, values) == 9_000
        assert position(device, name, values, "DECREASING") == 17_500
    values[[16_900, 19_000]] = 6, 8
    assert position(device, "ARGMIN", values) == 16_900
    assert position(device, "ARGMAX", values, "DECREASING") == 19_000


def test_sums_of_many_elements(device):
    values = np.random.default_rng(1).standard_normal(50_000).astype(np.float32)
    assert same(reduce(device, "SUM", values)[0], np.float32(math.fsum(values.tolist())))
    assert same(reduce(device, "SUM", np.append(values, -values))[0], 0.0)
    integers = np.arange(50_000, dtype=np.int64) * 2**50
    right = (sum(range(50_000)) * 2**50 + 2**63) % 2**64 - 2**63
    assert int(reduce(device, "SUM", integers, dtype=np.int64)[0]) == right


@pytest.mark.parametrize("index_type", ["INT64", "INT32", "UINT64", "UINT32"])
def test_every_index_type_is_written(device, index_type):
    array = np.array([[1, 9], [9, 0]], np.int16)
    desc = {"DataType": index_type, "Sizes": [1, 1]}
    result = run(device, "ARGMAX", array, Axes=[1, 0], AxisDirection="DECREASING", OutputTensor=desc)["OutputTensor"]
    assert result.dtype == DataType[index_type].dtype
    assert result.tolist() == [[2]]


def test_the_order_of_axes_does_not_matter(device):
    array = np.random.default_rng(2).permutation(120).reshape(2, 3, 4, 5).astype(np.int32)
    results = [
        run(device, "ARGMAX", array, Axes=axes, AxisDirection="INCREASING")["OutputTensor"]
        for axes in ([0, 1, 3], [3, 1, 0], [1, 3, 0])
    ]
    right = [int(array[:, :, i, :].argmax()) for i in range(4)]
    for result in results:
        assert result.ravel().tolist() == right


@pytest.mark.parametrize("rank", range(1, 9))
def test_every_rank_is_reduced(device, rank):
    array = np.arange(2**rank, dtype=np.float32).reshape((2,) * rank)
    result = reduce(device, "SUM", array, [rank - 1])
    assert result.shape == (*(2,) * (rank - 1), 1)
    assert result.ravel().tolist() == array.sum(axis=-1).ravel().tolist()
    assert reduce(device, "SUM", array, []).tolist() == array.tolist()
    assert reduce(device, "MAX", array, range(rank)).ravel().tolist() == [2**rank - 1]


def test_strided_inputs_and_outputs(device):
    # Elements at 3*i + 10*j, written at 5*i + 2*j: strided columns and rows with gaps between all of them.
    sizes, read, written = (2, 3), (3, 10), (5, 2)
    buffer = np.full(32, 999, np.int32)
    array = np.array([[1, 2, 3], [40, 50, 60]], np.int32)
    for i, j in np.ndindex(sizes):
        buffer[i * read[0] + j * read[1]] = array[i, j]
    desc = {
        "Function": "SUM_SQUARE",
        "Axes": [],
        "InputTensor": {"DataType": "INT32", "Sizes": sizes, "Strides": read},
        "OutputTensor": {"DataType": "INT32", "Sizes": sizes, "Strides": written, "TotalTensorSizeInBytes": 64},
    }
    result = execute(device, check({"type": "REDUCE", "desc": desc}), {"InputTensor": buffer.tobytes()})
    assert result["OutputTensor"].tolist() == (array**2).tolist()


def test_a_repeated_element_counts_each_time(device):
    tensor = {"DataType": "FLOAT32", "Sizes": [3, 100_000], "Strides": [0, 0]}
    for function, right in (
        ("SUM", np.float32(10_000.0001490116)),
        ("AVERAGE", np.float32(0.1)),
        ("MAX", np.float32(0.1)),
    ):
        plan = check({"type": "REDUCE", "desc": {"Function": function, "Axes": [1], "InputTensor": tensor}})
        result = execute(device, plan, {"InputTensor": np.float32(0.1).tobytes()})["OutputTensor"]
        assert result.ravel().tolist() == [right] * 3


def test_devices_describe_themselves(device):
    described = device.describe()
    assert described["name"] == device.name
