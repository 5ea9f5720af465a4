"""Placement of plans, driven with plain numbers for times and costs."""

from __future__ import annotations

import random
from contextlib import ExitStack

from hypothesis import given
from hypothesis import strategies as st

from opwire.check import check
from opwire_service.engine.costs import FRESH_SECONDS, Costs, Demand, Guess
from opwire_service.engine.placement import Placement

CPU = Guess(fixed=10e-6, per_byte=0.0, per_visit=1e-9)
CARD = Guess(fixed=200e-6, per_byte=0.1e-9, per_visit=0.01e-9)
PLAN = check({"type": "ACTIVATION_RELU", "desc": {"InputTensor": {"DataType": "FLOAT32", "Sizes": [1]}}})


class Devices:
    """Devices with known costs."""

    def __init__(self, **guesses: Guess) -> None:
        self.costs = Costs({name.replace("_", ":"): guess for name, guess in guesses.items()})
        self.names = [name.replace("_", ":") for name in guesses]
        self.placement = Placement(self.costs, dict.fromkeys(self.names, 1))

    def order(self, demand: Demand, now: float = 0) -> list[str]:
        return self.placement.order(dict.fromkeys(self.names, demand), PLAN, now)


def reduction(elements: int) -> Demand:
    return Demand("SUM", elements, 4 * elements)


def pair() -> Devices:
    return Devices(cuda=CARD, cpu=CPU)


def test_small_plans_go_to_the_cpu_and_large_ones_to_the_card():
    assert pair().order(reduction(9)) == ["cpu", "cuda"]
    assert pair().order(reduction(10**7)) == ["cuda", "cpu"]


def test_transfers_count():
    far = Devices(cuda=Guess(200e-6, 1e-9, 0.01e-9), cpu=CPU)
    assert far.order(reduction(10**7))[0] == "cpu"
    assert far.order(Demand("SUM", 10**7, 4))[0] == "cuda"  # one element, repeated


def test_only_devices_that_run_the_plan_are_considered():
    devices = pair()
    assert devices.placement.order({"cpu": reduction(10**7)}, PLAN, 0) == ["cpu"]


def test_queued_work_diverts_plans_to_the_other_device():
    devices = pair()
    demand = reduction(10**7)  # 4.3 ms on the card, which count as 6.5, and 10 ms on the CPU
    chosen = []
    with ExitStack() as held:
        for _ in range(6):
            chosen.append(devices.order(demand)[0])
            held.enter_context(devices.placement.hold(chosen[-1], demand, PLAN))
    assert chosen == ["cuda", "cpu", "cuda", "cuda", "cpu", "cuda"]
    assert devices.order(demand)[0] == "cuda"


def test_a_device_with_several_places_takes_more():
    devices, demand = pair(), reduction(10**7)
    devices.placement.remove("cuda")
    devices.placement.add("cuda", 8)
    with ExitStack() as held:
        for _ in range(5):
            assert devices.order(demand)[0] == "cuda"
            held.enter_context(devices.placement.hold("cuda", demand, PLAN))


@given(st.integers(2, 8), st.integers(0, 2**32))
def test_cards_are_loaded_evenly(cards, seed):
    devices = Devices(**{f"cuda_{i}": CARD for i in range(cards)})
    generator = random.Random(seed)
    given_seconds = dict.fromkeys(devices.names, 0.0)
    longest = 0.0
    with ExitStack() as held:
        for _ in range(200):
            demand = reduction(generator.randrange(1, 10**7))
            device = devices.order(demand)[0]
            held.enter_context(devices.placement.hold(device, demand, PLAN))
            given_seconds[device] += CARD.seconds(demand)
            longest = max(longest, CARD.seconds(demand))
    # Each plan went to the least loaded card, so none is ahead by more than its last plan.
    assert max(given_seconds.values()) - min(given_seconds.values()) <= longest * 1.0001


def test_idle_cards_take_turns():
    devices, turns = Devices(cuda_0=CARD, cuda_1=CARD, cuda_2=CARD), []
    for _ in range(6):
        turns.append(devices.order(reduction(1000))[0])
        with devices.placement.hold(turns[-1], reduction(1000), PLAN):
            pass
    assert turns == ["cuda:0", "cuda:1", "cuda:2"] * 2


def test_a_device_that_was_slow_is_tried_again():
    devices, demand = pair(), reduction(10**7)
    for now in range(20):
        devices.costs.learn("cuda", demand, 1.0, now)
    assert devices.order(demand, 20)[0] == "cpu"
    assert devices.order(reduction(10**8), 20)[0] == "cpu"
    assert devices.order(demand, 21 + FRESH_SECONDS)[0] == "cuda"


def test_a_removed_device_takes_nothing_and_its_plans_end():
    devices, demand = pair(), reduction(10**7)
    with devices.placement.hold("cuda", demand, PLAN):
        devices.placement.remove("cuda")
        assert "cuda" not in devices.placement
        assert devices.order(demand) == ["cpu"]
        devices.placement.add("cuda", 1)
        assert devices.order(demand)[0] == "cuda"


@given(st.lists(st.floats(0, 10), max_size=50), st.integers(1, 2**40), st.integers(0, 2**40))
def test_expectations_stay_finite(durations, work, size):
    devices, demand = pair(), Demand("SUM", work, size)
    for now, seconds in enumerate(durations):
        for device in devices.names:
            devices.costs.learn(device, demand, seconds, now)
    for device in devices.names:
        assert 0 <= devices.costs.expected(device, demand) < 1e9
    assert sorted(devices.order(demand, len(durations))) == sorted(devices.names)
