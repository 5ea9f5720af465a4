"""Placement of plans, driven with plain numbers for times and costs."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire.check import check
from opwire_service.engine.calibration import UNMEASURED
from opwire_service.engine.placement import HALF_LIFE, Cost, Demand, Placement, crossover

CPU = Cost(fixed=10e-6, per_byte=0.0, per_visit=1e-9)
CARD = Cost(fixed=200e-6, per_byte=0.1e-9, per_visit=0.01e-9)


def reduction(elements: int) -> Demand:
    return Demand("SUM", 4 * elements, elements)


def pooling(elements: int) -> Demand:
    return Demand("MAX_POOLING", 4 * elements, 9 * elements)


def pair() -> Placement:
    return Placement({"cuda": CARD, "cpu": CPU})


def run(placement: Placement, device: str, demand: Demand, at: float, seconds: float) -> None:
    """Runs a plan that has the device to itself."""
    placement.finish(device, demand, placement.start(device, at), at + seconds, whole=True)


def test_small_plans_go_to_the_cpu_and_large_ones_to_the_card():
    placement = pair()
    assert placement.order(reduction(9), 0) == ["cpu", "cuda"]
    assert placement.order(reduction(10**7), 0) == ["cuda", "cpu"]


def product(size: int) -> Demand:
    matrix = {"DataType": "FLOAT32", "Sizes": [size, size]}
    fields = {"TransA": "NONE", "TransB": "NONE", "Alpha": 1, "Beta": 1}
    return Demand.of(check({"type": "GEMM", "desc": {"ATensor": matrix, "BTensor": matrix, **fields}}))


def test_a_large_product_goes_to_the_card_without_measurements():
    placement = Placement({name: UNMEASURED[name] for name in ("cuda", "cpu")})
    assert placement.order(product(64), 0) == ["cpu", "cuda"]
    assert placement.order(product(2048), 0) == ["cuda", "cpu"]


def test_products_are_placed_by_the_cost_of_products():
    """Not by the cost of other kinds: sums are memory-bound, and products access little memory."""
    card = Cost(300e-6, 1.2e-10, 1e-12, {"GEMM": 4e-13})
    cpu = Cost(20e-6, 0.0, 2e-11, {"GEMM": 3e-12})  # a hundred cores
    placement = Placement({"cuda": card, "cpu": cpu})
    assert placement.order(product(64), 0) == ["cpu", "cuda"]
    assert placement.order(product(2048), 0) == ["cuda", "cpu"]


def test_transfers_count():
    far = Placement({"cuda": Cost(200e-6, 1e-9, 0.01e-9), "cpu": CPU})
    assert far.order(reduction(10**7), 0)[0] == "cpu"
    assert far.order(Demand("SUM", 4, 10**7), 0)[0] == "cuda"  # one element, repeated


def test_a_kind_has_its_own_speed():
    slow_products = Cost(10e-6, 0.0, 1e-9, {"MULTIPLY": 1e-7})
    placement = Placement({"cuda": CARD, "cpu": slow_products})
    assert placement.order(Demand("MULTIPLY", 40_000, 10_000), 0)[0] == "cuda"
    assert placement.order(Demand("SUM", 40_000, 10_000), 0)[0] == "cpu"


def test_queued_work_diverts_plans_to_the_other_device():
    placement = pair()
    demand = reduction(10**7)  # 4.3 ms on the card, which count as 6.5, and 10 ms on the CPU
    given = []
    held = []
    for _ in range(6):
        device = placement.order(demand, 0)[0]
        given.append(device)
        held.append((device, placement.accept(device, demand, 0)))
    assert given == ["cuda", "cpu", "cuda", "cuda", "cpu", "cuda"]
    for device, seconds in held:
        placement.release(device, seconds)
    assert placement.order(demand, 0)[0] == "cuda"


@given(st.integers(2, 8), st.integers(0, 2**32))
def test_cards_of_a_pool_are_loaded_evenly(cards, seed):
    names = ["cuda", *(f"cuda:{i}" for i in range(1, cards))]
    placement = Placement(dict.fromkeys(names, CARD))
    generator = random.Random(seed)
    given_seconds = dict.fromkeys(names, 0.0)
    held: list[tuple[str, float]] = []
    longest = 0.0
    for _ in range(200):
        demand = reduction(generator.randrange(1, 10**7))
        device = placement.order(demand, 0)[0]
        seconds = placement.accept(device, demand, 0)
        given_seconds[device] += seconds
        longest = max(longest, seconds)
        held.append((device, seconds))
    # Each plan went to the least loaded card, so none is ahead by more than its last plan.
    assert max(given_seconds.values()) - min(given_seconds.values()) <= longest * 1.0001
    assert len(held) == 200


def test_idle_cards_take_turns():
    placement = Placement(dict.fromkeys(("cuda", "cuda:1", "cuda:2"), CARD))
    turns = []
    for _ in range(6):
        device = placement.order(reduction(1000), 0)[0]
        placement.release(device, placement.accept(device, reduction(1000), 0))
        turns.append(device)
    assert turns == ["cuda", "cuda:1", "cuda:2"] * 2


def test_runs_are_learned_by_kind_and_size_for_the_whole_pool():
    placement = Placement({"cuda": CARD, "cuda:1": CARD, "cpu": CPU})
    demand = reduction(10**7)
    before = placement.seconds("cuda", demand, 0)
    for i in range(20):
        run(placement, "cuda", demand, i, 16 * before)
    assert placement.seconds("cuda", demand, 20) == pytest.approx(16 * before, rel=0.1)
    assert placement.seconds("cuda:1", demand, 20) == placement.seconds("cuda", demand, 20)
    assert placement.order(demand, 20)[0] == "cpu"
    assert placement.seconds("cuda", pooling(10**7), 20) == CARD.seconds(pooling(10**7))
    assert placement.seconds("cuda", reduction(1000), 20) == CARD.seconds(reduction(1000))


def test_learned_costs_fade_so_that_a_device_is_retried():
    placement = pair()
    demand = reduction(10**7)
    for i in range(20):
        run(placement, "cuda", demand, i, 1.0)
    assert placement.order(demand, 20)[0] == "cpu"
    assert placement.order(demand, 20 + 10 * HALF_LIFE)[0] == "cuda"


def test_one_slow_plan_changes_little():
    placement = pair()
    demand = reduction(10**6)
    before = placement.seconds("cuda", demand, 0)
    run(placement, "cuda", demand, 0, 100.0)
    assert placement.seconds("cuda", demand, 100) <= 2 * before


def test_concurrent_plans_are_charged_their_share():
    placement = pair()
    demand = reduction(10**6)
    alone = placement.seconds("cpu", demand, 0)
    for i in range(20):
        marks = [placement.start("cpu", i) for _ in range(4)]
        for mark in marks:
            placement.finish("cpu", demand, mark, i + 4 * alone, whole=True)
    assert placement.seconds("cpu", demand, 20) == pytest.approx(alone, rel=0.01)


def test_cancelled_plans_are_not_learned_from():
    placement = pair()
    demand = reduction(10**6)
    placement.finish("cpu", demand, placement.start("cpu", 0), 100, whole=False)
    assert placement.seconds("cpu", demand, 100) == CPU.seconds(demand)


@given(st.lists(st.floats(0, 10), max_size=50), st.integers(0, 2**40), st.integers(0, 2**40))
def test_expectations_stay_positive_and_finite(durations, size, work):
    placement = pair()
    demand = Demand("SUM", size, work)
    now = 0.0
    for seconds in durations:
        for device in ("cpu", "cuda"):
            run(placement, device, demand, now, seconds)
            now += seconds
    for device in ("cpu", "cuda"):
        assert 0 < placement.seconds(device, demand, now) < 1e9


def test_the_demand_of_a_plan_is_computed():
    tensor = {"DataType": "FLOAT16", "Sizes": [4, 1000]}
    plan = check({"type": "REDUCE", "desc": {"Function": "L1", "InputTensor": tensor, "Axes": [1]}})
    assert Demand.of(plan) == Demand("L1", 2 * 4000 + 2 * 4, plan.work)
    plan = check({"type": "ARGMAX", "desc": {"InputTensor": tensor, "Axes": [1], "AxisDirection": "INCREASING"}})
    assert Demand.of(plan).kind == "ARGMAX"


def test_the_break_even_size_is_found():
    # 190 us more per plan, and 0.59 ns less per element: break-even at 322034 elements.
    assert crossover(CPU, CARD, "SUM") == 2**19
    assert crossover(CPU, Cost(200e-6, 1e-9, 0.0), "SUM") is None
