"""Devices that join and leave a dispatcher: where plans go, and what happens to queued and running ones."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from opwire.check import Plan, check
from opwire.errors import ProblemCode, UnavailableError
from opwire.wire import RequestBody, parse_model
from opwire_service.devices.base import DeviceLost
from opwire_service.engine.costs import Costs, Guess
from opwire_service.engine.dispatcher import Dispatcher
from opwire_service.engine.pipeline import RERUNS, Engine
from opwire_service.engine.request import Request
from opwire_service.engine.schedule import Evict, NoLane, Schedule, ScheduledJob, Start
from opwire_service.execution import Arrays, Stop
from opwire_service.http.data import models
from opwire_service.http.data.exchange import Exchange
from opwire_service.http.data.native import Native
from opwire_service.process.application import layout
from opwire_service.settings import Limits, Settings
from opwire_service.telemetry.declarations import QUEUED, RUNNING
from opwire_service.telemetry.metrics import Layout, Metrics
from opwire_service.telemetry.prometheus import registry
from tests.support.controlled_device import FakeDevice
from tests.support.dispatching import IN_TIME, until_schedule_is

T = TypeVar("T")

LARGE: dict[str, Any] = {
    "type": "REDUCE",
    "desc": {"Function": "SUM", "InputTensor": {"DataType": "FLOAT32", "Sizes": [2**20]}, "Axes": [0]},
}
NEAR, FAR = Guess(0.0, 0.0, 1e-9), Guess(1e-3, 1e-9, 1e-9)


class Far(FakeDevice):
    """A device of a cluster node."""

    places = 1

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


def job(device: str = "far", arrived: float = 0.0) -> ScheduledJob:
    return ScheduledJob(device, 0, arrived, arrived + 100, 1)


def test_a_leaving_device_finishes_running_jobs_and_drops_queued_ones():
    schedule = Schedule.of({"cpu": 1}, 10)
    schedule.add("far", 1)
    first, second = job(), job()
    assert schedule.submit(first) == [Start(first)]
    assert schedule.submit(second) == []
    assert schedule.remove("far") == [Evict(second)]
    assert "far" not in schedule.loads()
    with pytest.raises(NoLane):
        schedule.submit(job())
    assert schedule.is_running(first)
    assert schedule.running == 1
    assert schedule.finish(first, 1.0, whole=True) == []
    assert (schedule.running, schedule.queued) == (0, 0)
    assert not schedule.is_running(first)


def test_a_returning_device_replaces_the_one_that_left():
    schedule = Schedule.of({"cpu": 1}, 10)
    schedule.add("far", 1)
    first = job()
    schedule.submit(first)
    schedule.remove("far")
    schedule.add("far", 2)
    second, third = job(), job()
    assert schedule.submit(second) == [Start(second)]
    assert schedule.submit(third) == []
    assert schedule.finish(first, 1.0, whole=False) == [Start(third)]


@pytest.mark.anyio
async def test_plans_go_to_the_cluster_if_named_or_faster():
    near, far, home = FakeDevice(), Far("node/cpu"), Far("here/cpu")
    made = Dispatcher({"cpu": near}, 2, 8, costs=Costs({"cpu": NEAR}), joining=4)
    plan = check(LARGE)
    assert made.default == "auto"
    with pytest.raises(UnavailableError, match="no device of the cluster"), made.place(plan, "cluster"):
        pass
    made.add(home, NEAR, is_local=True)
    made.add(far, Guess(1e-3, 0.0, 1e-9), is_local=False)
    with made.place(plan, "auto") as first, made.place(plan, "auto") as second, made.place(plan, "auto") as third:
        assert {first, second, third} == {"cpu", "node/cpu"}
    with made.place(plan, "cluster") as first, made.place(plan, "cluster") as second:
        assert {first, second} == {"here/cpu", "node/cpu"}
    with made.place(plan, "cluster", ["here/cpu"]) as other:
        assert other == "node/cpu"
    made.remove(far)
    with pytest.raises(UnavailableError, match="the device node/cpu is gone"), made.place(plan, "node/cpu"):
        pass
    await made.close()


@pytest.mark.anyio
async def test_plans_queued_for_a_leaving_device_fail_and_running_ones_continue():
    far = Far("node/cpu")
    made = Dispatcher({"cpu": FakeDevice()}, 1, 8, joining=4)
    made.add(far, FAR, is_local=False)
    plan = check(LARGE)

    def start() -> asyncio.Task[Any]:
        work = made.run(plan, {}, {}, device="node/cpu", priority=5, deadline=time.monotonic() + IN_TIME)
        return asyncio.create_task(work)

    running = [start(), start()]
    await far.started(2)
    waits = start()
    await until_schedule_is(made, "1 queued, cpu 0/1 busy, node/cpu 2/2 busy")
    made.remove(far)
    with pytest.raises(DeviceLost):
        await waits
    with pytest.raises(DeviceLost):
        await start()
    for run in far.runs:
        run.finish()
    for each in running:
        await each
    await until_schedule_is(made, "0 queued, cpu 0/1 busy")
    await made.close()


def counted(metrics: Metrics) -> str:
    from prometheus_client import generate_latest

    return generate_latest(registry(metrics)).decode()


def test_changing_devices_are_counted_by_name_across_processes():
    layout = Layout(("cpu",), (), 3, seats=2)
    memory = memoryview(bytearray(2 * layout.row_bytes()))
    one, other = (Metrics(layout, memory, row) for row in range(2))
    assert one.seat("first/cpu")
    assert other.seat("second/cpu")
    assert other.seat("first/cpu")
    assert not other.seat("third/cpu")
    one.set(QUEUED, 2, "first/cpu")
    other.set(QUEUED, 3, "first/cpu")
    other.set(RUNNING, 5, "second/cpu")
    other.set(RUNNING, 7, "cpu")
    totals = one.totals()
    assert (totals.value(QUEUED, "first/cpu"), totals.value(RUNNING, "second/cpu")) == (5, 5)
    text = counted(one)
    assert 'opwire_queued_operators{device="first/cpu"} 5.0' in text
    assert 'opwire_running_operators{device="cpu"} 7.0' in text
    assert "~" not in text
    other.unseat("second/cpu")
    assert other.seat("third/cpu")
    assert other.totals().value(RUNNING, "third/cpu") == 0
    one.clear_gauges(1)  # the process has ended
    assert set(one.totals().joined) == {"first/cpu"}
    assert one.totals().value(QUEUED, "first/cpu") == 2


class Fleeting(Far):
    """A device that disappears with each plan, unless ``stays``."""

    def __init__(self, name: str, *, stays: bool) -> None:
        super().__init__(name)
        self.stays = stays
        self.given = 0

    def run(self, plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``Device.run``."""
        self.given += 1
        if not self.stays:
            raise DeviceLost(self.name)
        outputs["OutputTensor"][...] = 3


async def ask(engine: Engine, device: str) -> Any:
    """Sends a request for a sum and returns the response as JSON."""
    operator = {
        "type": "REDUCE",
        "desc": {"Function": "SUM", "InputTensor": {"DataType": "FLOAT32", "Sizes": [3]}, "Axes": [0]},
    }
    body = json.dumps({"operator": operator, "inputs": {"InputTensor": {"data": [0, 1, 2]}}, "device": device}).encode()
    with engine.memory.open() as hold:
        answer = await engine.answer(Native("id", binary=False), body, None, Request(hold, through))
    return json.loads(b"".join(map(bytes, answer.head)))


def engine_of(*devices: Fleeting) -> Engine:
    made = Dispatcher({"cpu": FakeDevice()}, 1, 8, joining=8)
    for device in devices:
        made.add(device, FAR, is_local=False)
    return Engine(made, Limits(), 8, Metrics(layout(Settings(devices=("cpu",)))))


@pytest.mark.anyio
async def test_a_plan_lost_with_its_device_runs_on_another():
    lost = [Fleeting(f"{name}/cpu", stays=False) for name in "ab"]
    engine = engine_of(*lost, Fleeting("c/cpu", stays=True))
    answer = await ask(engine, "cluster")
    assert answer["device"] == "c/cpu"
    assert sum(device.given for device in lost) <= RERUNS
    await engine.close()


@pytest.mark.anyio
async def test_a_lost_plan_is_retried_twice_and_then_refused():
    lost = [Fleeting(f"{name}/cpu", stays=False) for name in "abcde"]
    engine = engine_of(*lost)
    with pytest.raises(
        UnavailableError, match=r"the devices that ran the operator were lost: ./cpu, ./cpu, ./cpu$"
    ) as refused:
        await ask(engine, "cluster")
    assert refused.value.code is ProblemCode.NOT_READY
    assert sum(device.given for device in lost) == 1 + RERUNS
    with pytest.raises(
        UnavailableError, match="the device a/cpu is gone"
    ):  # named explicitly, so no other device will do
        await ask(engine, "a/cpu")
    await engine.close()


@pytest.mark.anyio
async def test_a_model_whose_device_goes_away_is_refused_for_the_client_to_repeat():
    """One of its steps may have overwritten what it read."""
    values = {"initialValuesDataType": "FLOAT32", "initialValues": {"value": 1, "valueCount": 3}}
    source = {"DataType": "FLOAT32", "Sizes": [3]}
    model = {
        "resources": {"x": values, "y": {**values, "initialValues": {"value": 0, "valueCount": 1}}},
        "dispatchables": {"sum": {"type": "REDUCE", "desc": {"Function": "SUM", "InputTensor": source, "Axes": [0]}}},
        "commands": [
            {"type": "dispatch", "dispatchable": "sum", "bindings": {"InputTensor": "x", "OutputTensor": "y"}}
        ],
    }
    engine = engine_of(Fleeting("a/cpu", stays=False), Fleeting("b/cpu", stays=True))
    body = RequestBody.split(json.dumps({"model": model, "device": "a/cpu"}).encode())
    exchange = Exchange({"type": "http", "headers": []}, never, never, engine.memory.open())
    exchange.request.guard = through
    with exchange.request.hold, pytest.raises(UnavailableError, match=r"were lost: a/cpu$") as refused:
        await models.execute(engine, exchange, parse_model(body, runs=True))
    assert refused.value.retry_after == 1
    await engine.close()


async def through(work: Coroutine[Any, Any, T]) -> T:
    return await work


async def never(*_: object) -> Any:
    raise AssertionError
