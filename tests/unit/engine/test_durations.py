"""How long work is predicted to take, from past measurements."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from opwire.check import Plan, check
from opwire_service.engine.durations import Durations, at_most, kind_of_work


def measured(*taken: tuple[str, int, float], times: int = 50) -> Durations:
    """Returns the knowledge after a number of runs of each."""
    durations = Durations()
    for kind, work, seconds in taken:
        for _ in range(times):
            durations.learn(kind, work, seconds)
    return durations


def test_unknown_work_is_expected_to_be_fast():
    assert Durations().expected("SUM", 10**9) == 1
    assert Durations().expected("SUM", 0) == 0


def test_fixed_costs_of_small_work_do_not_affect_large_work():
    durations = measured(("SUM", 1000, 0.001), ("SUM", 10**8, 0.1))
    assert durations.expected("SUM", 1000) == pytest.approx(0.001)
    assert durations.expected("SUM", 10**8) == pytest.approx(0.1)


def test_unmeasured_sizes_scale_from_the_nearest_one():
    durations = measured(("SUM", 2**20, 0.01), ("SUM", 2**30, 4.0))
    assert durations.expected("SUM", 2**21) == pytest.approx(0.02)
    assert durations.expected("SUM", 2**32) == pytest.approx(16.0)
    assert durations.expected("SUM", 2**18) == pytest.approx(0.0025)
    assert durations.expected("SUM", 0) == 0


def test_unmeasured_sizes_are_not_faster_than_unknown_work():
    durations = measured(("SUM", 2**20, 0.0001), ("MAX", 2**26, 0.01))
    assert durations.expected("SUM", 10**8) == pytest.approx(0.1)
    assert durations.expected("MAX", 2**26) == pytest.approx(0.01)


def test_operators_are_predicted_separately():
    durations = measured(("SUM", 2**20, 0.01), ("LOG_SUM_EXP", 2**20, 0.2))
    assert durations.expected("SUM", 2**20) == pytest.approx(0.01)
    assert durations.expected("LOG_SUM_EXP", 2**20) == pytest.approx(0.2)


def test_the_first_measurement_is_ignored():
    durations = measured(("SUM", 2**20, 5.0), times=1)
    assert durations.expected("SUM", 2**20) < 0.01
    durations.learn("SUM", 2**20, 0.02)
    assert durations.expected("SUM", 2**20) == pytest.approx(0.02)


def test_predictions_follow_changes():
    durations = measured(("SUM", 2**20, 5.0))
    for _ in range(40):
        durations.learn("SUM", 2**20, 0.01)
    assert durations.expected("SUM", 2**20) == pytest.approx(0.01, rel=0.1)


def test_kinds_are_operators_with_their_data_types_and_modes():
    def kind(function: str, data_type: str, size: int) -> str:
        tensor = {"DataType": data_type, "Sizes": [size]}
        return kind_of_work(
            check({"type": "REDUCE", "desc": {"Function": function, "InputTensor": tensor, "Axes": [0]}})
        )

    tensor = {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 2]}
    scaled = {"ScaleSize": {"Width": 2, "Height": 2}, "InputTensor": tensor}
    plans = [check({"type": "UPSAMPLE_2D", "desc": {**scaled, "InterpolationMode": mode}}) for mode in (0, 1)]
    assert len(set(map(kind_of_work, plans))) == 2
    assert kind("SUM", "FLOAT32", 3) == kind("SUM", "FLOAT32", 4)
    assert len({kind("SUM", "FLOAT32", 3), kind("SUM", "FLOAT16", 3), kind("LOG_SUM", "FLOAT32", 3)}) == 3


def reduction(strides: list[int] | None = None) -> Plan:
    tensor = {"DataType": "FLOAT32", "Sizes": [4, 1, 8], "Strides": strides}
    return check({"type": "REDUCE", "desc": {"Function": "SUM", "InputTensor": tensor, "Axes": [2]}})


def test_layouts_are_kinds_of_their_own():
    packed, gaps, across, repeated = (reduction(strides) for strides in (None, [16, 1, 1], [1, 1, 4], [1, 1, 0]))
    assert kind_of_work(packed) == kind_of_work(reduction([8, 99, 1]))
    assert kind_of_work(gaps) == kind_of_work(reduction([0, 1, 1]))
    assert len({kind_of_work(each) for each in (packed, gaps, across, repeated)}) == 4


def test_short_and_long_rows_are_different_kinds():
    def kind(sizes: list[int], strides: list[int]) -> str:
        tensor = {"DataType": "FLOAT32", "Sizes": sizes, "Strides": strides}
        return kind_of_work(check({"type": "ACTIVATION_RELU", "desc": {"InputTensor": tensor}}))

    long = kind([8, 8, 64], [64, 512, 1])
    assert kind([8, 8, 16, 4], [64, 512, 4, 1]) == long
    assert kind([8, 8, 3, 16], [48, 384, 16, 1]) == long
    assert kind([64, 8, 8], [8, 512, 1]) != long


def test_rows_columns_and_group_sizes_are_different_kinds():
    def kind(sizes: list[int], axes: list[int]) -> str:
        tensor = {"DataType": "FLOAT32", "Sizes": sizes}
        return kind_of_work(check({"type": "REDUCE", "desc": {"Function": "L2", "InputTensor": tensor, "Axes": axes}}))

    rows = kind([64, 64], [1])
    assert kind([128, 32], [1]) == kind([2, 128, 32], [0, 2]) == rows
    assert len({rows, kind([64, 64], [0]), kind([2048, 2], [1]), kind([2, 4096], [1]), kind([64, 64], [])}) == 5


def test_how_a_device_computes_is_part_of_the_kind():
    assert kind_of_work(reduction(), "compiled") != kind_of_work(reduction())


def test_the_upper_bound_is_within_a_factor_of_3():
    assert at_most(1) > 1
    assert at_most(1) / 3 == pytest.approx(1 / at_most(1))
    assert at_most(2) == 2 * at_most(1)


def test_fused_operators_are_kinds_of_their_own():
    tensor = {"DataType": "FLOAT32", "Sizes": [4]}
    fused: list[dict[str, Any]] = [
        {},
        {"FusedActivation": {"Type": "ACTIVATION_RELU"}},
        {"FusedActivation": {"Type": "ACTIVATION_TANH"}},
    ]
    scaled: list[dict[str, Any]] = [{}, {"ScaleBias": {"Scale": 2, "Bias": 1}}]
    plans = [
        check({"type": "ELEMENT_WISE_ADD1", "desc": {"ATensor": tensor, "BTensor": tensor, **each}}) for each in fused
    ]
    plans += [check({"type": "ELEMENT_WISE_ABS", "desc": {"InputTensor": tensor, **each}}) for each in scaled]
    assert len({kind_of_work(plan) for plan in plans}) == 5


def test_a_repeated_plan_is_predicted_by_its_own_time():
    durations, slow, new = Durations(), reduction(), reduction()
    kind = kind_of_work(slow)
    for seconds in (9.0, 3.0):  # the first run may have waited for its kernels
        durations.learn(kind, slow.work, seconds, slow)
    for _ in range(50):
        durations.learn(kind, slow.work, 0.01)
    assert durations.expected(kind, slow.work, slow) == 3.0
    assert durations.expected(kind, new.work, new) == pytest.approx(0.01, rel=0.1)


def test_freed_plans_are_forgotten():
    durations, plan = Durations(), reduction()
    for _ in range(2):
        durations.learn("SUM", plan.work, 3.0, plan)
    assert len(durations._plans) == 1
    del plan
    gc.collect()
    assert len(durations._plans) == 0


def test_the_number_of_kinds_is_bounded():
    durations = measured(("SUM", 2**20, 5.0))
    for number in range(10_000):
        durations.learn(str(number), 2**20, 0.01)
    assert len(durations._known) < 2000
    assert durations.expected("SUM", 2**20) < 0.01


def test_predictions_are_robust_against_single_outliers():
    durations = Durations()
    for seconds in (0.01, 0.01, 60.0):
        durations.learn("REDUCE", 1000, seconds)
    assert 0.01 <= durations.expected("REDUCE", 1000) < 0.02
    for _ in range(100):
        durations.learn("REDUCE", 1000, 60.0)
    assert durations.expected("REDUCE", 1000) > 55
