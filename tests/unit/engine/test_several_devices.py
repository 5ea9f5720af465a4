"""Placing plans on several devices: the fastest expected one with room, and learning from runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from opwire.check import Plan, check
from opwire.errors import OverloadedError, ProblemCode
from opwire.graph import check_graph
from opwire_service.engine.costs import Costs, Guess
from opwire_service.engine.dispatcher import Dispatcher
from tests.support.controlled_device import FakeDevice
from tests.support.dispatching import IN_TIME, until_schedule_is

pytestmark = pytest.mark.anyio

LARGE: dict[str, Any] = {
    "type": "REDUCE",
    "desc": {"Function": "SUM", "InputTensor": {"DataType": "FLOAT32", "Sizes": [2**20]}, "Axes": [0]},
}
CHEAP, DEAR = Guess(0.0, 0.0, 1e-12), Guess(1.0, 0.0, 1e-9)


class Roomy(FakeDevice):
    """A device with room for a number of plans."""

    places = 3

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    @contextmanager
    def admit(self, plan: Plan) -> Iterator[None]:
        """See ``Device.admit``."""
        if not self.room:
            raise OverloadedError(ProblemCode.MEMORY_FULL, "no room", retry_after=1)
        self.room -= 1
        yield
        self.room += 1


def several(card: FakeDevice, cpu: FakeDevice) -> Dispatcher:
    costs = Costs({"cuda": CHEAP, "cpu": DEAR, "reference": CHEAP})
    return Dispatcher({"reference": FakeDevice(), "cuda": card, "cpu": cpu}, 2, 8, costs=costs)


async def test_a_device_can_set_its_number_of_slots():
    made = several(Roomy(9), FakeDevice())
    assert repr(made.schedule) == "<Schedule 0 queued, reference 0/2 busy, cuda 0/3 busy, cpu 0/2 busy>"
    assert made.places == 3
    await made.close()


async def test_plans_without_a_device_go_where_there_is_room():
    card, cpu = Roomy(2), FakeDevice()
    made = several(card, cpu)
    plan = check(LARGE)
    assert made.default == "auto"
    with made.place(plan, "auto") as first, made.place(plan, "auto") as second:
        with made.place(plan, "auto") as third:
            assert (first, second, third) == ("cuda", "cuda", "cpu")
        with pytest.raises(OverloadedError, match="no room"), made.place(plan, "cuda"):
            pass
        with made.place(plan, "reference") as named, made.place(plan, "cpu") as other:
            assert (named, other) == ("reference", "cpu")
    assert card.room == 2
    await made.close()


@pytest.mark.parametrize(
    ("names", "default"),
    [
        (("cpu", "reference"), "cpu"),
        (("reference", "cpu"), "cpu"),
        (("reference",), "reference"),
        (("cuda", "reference"), "cuda"),
        (("cuda", "cuda:1"), "auto"),
    ],
)
async def test_the_reference_is_the_default_only_if_alone(names, default):
    made = Dispatcher({name: FakeDevice() for name in names}, 1, 8)
    assert made.default == default
    await made.close()


async def test_placement_learns_from_runs():
    card = Roomy(99)
    made = several(card, FakeDevice())
    plan = check(LARGE)
    for i in range(16):  # a card a thousand times slower than measured, and a CPU whose cost is one second
        with made.place(plan, "auto") as device:
            work = asyncio.create_task(
                made.run(plan, {}, {}, device=device, priority=5, deadline=time.monotonic() + IN_TIME)
            )
            (*_, last) = await card.started(i + 1)
            await asyncio.sleep(0.002)
            last.finish()
            await work
            await until_schedule_is(made, "0 queued, reference 0/2 busy, cuda 0/3 busy, cpu 0/2 busy")
    assert made.costs.expected("cuda", made.costs.demand(plan, card), plan) >= 0.0015
    await made.close()


class Few(FakeDevice):
    """A device that executes only a few operators."""

    def executes(self, operator: str) -> bool:
        """See ``Device.executes``."""
        return operator in ("GRAPH", "REDUCE")

    def scratch_bytes(self, plan: Plan) -> int:
        """See ``Device.scratch_bytes``."""
        return 1000


@pytest.mark.parametrize(
    ("kind", "device", "scratch"), [("REDUCE", "cuda", 1000), ("ELEMENT_WISE_ABS", "cpu", 0)], ids=["runs", "lacks"]
)
async def test_a_graph_goes_to_a_device_that_executes_all_its_nodes(kind, device, scratch):
    tensor = {"DataType": "FLOAT32", "Sizes": [4]}
    maximum = {"Function": "MAX", "InputTensor": tensor, "Axes": []}
    nodes = {
        "first": {"type": "REDUCE", "desc": maximum, "inputs": {"InputTensor": "input:x"}},
        "last": {
            "type": kind,
            "desc": maximum if kind == "REDUCE" else {"InputTensor": tensor},
            "inputs": {"InputTensor": "first"},
        },
    }
    plan = check_graph({"nodes": nodes, "outputs": {"y": "last"}})
    made = several(Few(), FakeDevice())
    with made.place(plan, "auto") as chosen:
        assert chosen == device
    assert made.scratch_bytes(plan, "auto") == scratch  # the maximum of the devices it may run on
    await made.close()
