"""How long work is predicted to take on a device, from a guess and from past runs."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from opwire.check import Plan, check
from opwire_service.devices.reference import ReferenceDevice
from opwire_service.engine.costs import CARD, FRESH_SECONDS, Costs, Demand, at_most, guess_of, kind_of_work

CPU = "cpu"


def measured(*taken: tuple[str, int, float], times: int = 50) -> Costs:
    """Returns the knowledge after a number of runs of each."""
    costs = Costs()
    for kind, work, seconds in taken:
        for now in range(times):
            costs.learn(CPU, Demand(kind, work), seconds, now)
    return costs


def expected(costs: Costs, kind: str, work: int, plan: Plan | None = None) -> float:
    return costs.expected(CPU, Demand(kind, work), plan)


def test_unknown_work_is_expected_to_be_fast():
    assert expected(Costs(), "SUM", 10**9) == 1
    assert expected(Costs(), "SUM", 0) == 0


def test_a_card_is_guessed_to_be_fast_behind_a_slow_transfer():
    small, large = Demand("GEMM", 64**3, 3 * 4 * 64**2), Demand("GEMM", 2048**3, 3 * 4 * 2048**2)
    costs = Costs()
    assert costs.expected("cuda", small) > costs.expected("cpu", small)
    assert costs.expected("cuda:1", large) < costs.expected("cpu", large) / 10
    assert costs.expected("cuda", Demand("SUM", 10**6, 10**9)) > 0.1
    assert guess_of("cuda", 1.0, 1e-9).seconds(Demand("SUM", 0, 10)) == pytest.approx(CARD.fixed + 1 + 10 * 1.12e-9)


def test_fixed_costs_of_small_work_do_not_affect_large_work():
    costs = measured(("SUM", 1000, 0.001), ("SUM", 10**8, 0.1))
    assert expected(costs, "SUM", 1000) == pytest.approx(0.001)
    assert expected(costs, "SUM", 10**8) == pytest.approx(0.1)


def test_unmeasured_sizes_scale_from_the_nearest_one():
    costs = measured(("SUM", 2**20, 0.01), ("SUM", 2**30, 4.0))
    assert expected(costs, "SUM", 2**21) == pytest.approx(0.02)
    assert expected(costs, "SUM", 2**32) == pytest.approx(16.0)
    assert expected(costs, "SUM", 2**18) == pytest.approx(0.0025)
    assert expected(costs, "SUM", 0) == 0


def test_unmeasured_sizes_are_not_faster_than_unknown_work():
    costs = measured(("SUM", 2**20, 0.0001), ("MAX", 2**26, 0.01))
    assert expected(costs, "SUM", 10**8) == pytest.approx(0.1)
    assert expected(costs, "MAX", 2**26) == pytest.approx(0.01)


def test_operators_are_predicted_separately():
    costs = measured(("SUM", 2**20, 0.01), ("LOG_SUM_EXP", 2**20, 0.2))
    assert expected(costs, "SUM", 2**20) == pytest.approx(0.01)
    assert expected(costs, "LOG_SUM_EXP", 2**20) == pytest.approx(0.2)


def test_the_first_measurement_is_ignored():
    costs = measured(("SUM", 2**20, 5.0), times=1)
    assert expected(costs, "SUM", 2**20) < 0.01
    costs.learn(CPU, Demand("SUM", 2**20), 0.02, 1)
    assert expected(costs, "SUM", 2**20) == pytest.approx(0.02)


def test_predictions_follow_changes():
    costs = measured(("SUM", 2**20, 5.0))
    for now in range(50, 90):
        costs.learn(CPU, Demand("SUM", 2**20), 0.01, now)
    assert expected(costs, "SUM", 2**20) == pytest.approx(0.01, rel=0.1)


def test_devices_of_a_kind_share_what_they_learn():
    costs, demand = Costs(), Demand("SUM", 2**20)
    for now in range(2):
        costs.learn("cuda", demand, 3.0, now)
    assert costs.expected("cuda:1", demand) == 3
    assert costs.expected("cpu", demand) < 0.01


def test_old_measurements_count_only_for_admission():
    costs, demand = Costs(), Demand("SUM", 2**20)
    for _ in range(2):
        costs.learn(CPU, demand, 3.0, 100)
    assert costs.expected(CPU, demand, since=100) == 3
    assert costs.expected(CPU, demand, since=101) < 0.01
    assert costs.expected(CPU, demand) == 3
    costs.learn(CPU, demand, 0.5, 101 + FRESH_SECONDS)
    assert costs.expected(CPU, demand) == 0.5


def test_a_device_of_a_cluster_starts_with_what_similar_ones_learned():
    costs, demand = Costs(), Demand("SUM", 2**20, 2**22)
    costs.add("one/cpu", guess_of("cpu", 1e-3, 1e-9), "far cpu")
    costs.add("two/cpu", guess_of("cpu", 1e-3, 1e-9), "far cpu")
    assert costs.expected("two/cpu", demand) == pytest.approx(1e-3 + 2**22 * 1e-9 + 2**20 * 1e-9)
    for now in range(2):
        costs.learn("one/cpu", demand, 0.5, now)
    assert costs.expected("two/cpu", demand) == 0.5
    for now in range(20):
        costs.learn("two/cpu", demand, 0.05, now)
    assert costs.expected("two/cpu", demand) == pytest.approx(0.05)
    assert costs.expected("one/cpu", demand) == 0.5
    costs.remove("one/cpu")
    assert costs.expected("one/cpu", demand) == pytest.approx(2**20 * 1e-9)


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
    costs, slow, new = Costs(), reduction(), reduction()
    kind = kind_of_work(slow)
    demand = Demand(kind, slow.work)
    for seconds in (9.0, 3.0):  # the first run may have waited for its kernels
        costs.learn(CPU, demand, seconds, 0, slow)
    for now in range(50):
        costs.learn(CPU, demand, 0.01, now)
    assert expected(costs, kind, slow.work, slow) == 3.0
    assert expected(costs, kind, new.work, new) == pytest.approx(0.01, rel=0.1)


def test_freed_plans_are_forgotten():
    costs, plan, device = Costs(), reduction(), ReferenceDevice()
    for now in range(2):
        costs.learn(CPU, costs.demand(plan, device), 3.0, now, plan)
    costs.timed(plan, 1.0)
    assert costs.is_slow(plan)
    kept = costs._pools[CPU].plans, costs._demands, costs._slow
    assert [len(each) for each in kept] == [1, 1, 1]
    del plan
    gc.collect()
    assert [len(each) for each in kept] == [0, 0, 0]


def test_the_number_of_kinds_is_bounded():
    costs = measured(("SUM", 2**20, 5.0))
    for number in range(10_000):
        costs.learn(CPU, Demand(str(number), 2**20), 0.01, 0)
    assert len(costs._pools[CPU].kinds) < 2000
    assert expected(costs, "SUM", 2**20) < 0.01


def test_predictions_are_robust_against_single_outliers():
    costs, demand = Costs(), Demand("REDUCE", 1000)
    for seconds in (0.01, 0.01, 60.0):
        costs.learn(CPU, demand, seconds, 0)
    assert 0.01 <= costs.expected(CPU, demand) < 0.02
    for _ in range(100):
        costs.learn(CPU, demand, 60.0, 0)
    assert costs.expected(CPU, demand) > 55


def test_the_demand_of_a_plan_counts_its_tensors():
    tensor = {"DataType": "FLOAT16", "Sizes": [4, 1000]}
    plan = check({"type": "REDUCE", "desc": {"Function": "L1", "InputTensor": tensor, "Axes": [1]}})
    demand = Demand.of(plan, ReferenceDevice())
    assert (demand.bytes, demand.work) == (2 * 4000 + 2 * 4, ReferenceDevice().visits(plan))
