"""Runs jobs on threads as the schedule directs; a slot is freed only when its work has really ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from math import inf
from typing import cast

from opwire.check import Plan
from opwire.errors import LimitExceededError, OverloadedError, ProblemCode, UnavailableError
from opwire.graph import GRAPH, operator_plans

from ..devices import AUTO, CLUSTER, kind_of
from ..devices.base import Device, DeviceLost, Inputs
from ..execution import Arrays, Bound
from .costs import INLINE_SECONDS, Costs, Guess
from .placement import Placement
from .running import Watch, is_whole, result
from .schedule import MAX_WAIT, Action, Evict, NoLane, QueueFull, Schedule, ScheduledJob, Start
from .timed import Ran, deadline_exceeded, run_briefly, run_timed

REFERENCE = "reference"
"""Name of the reference device, which is only chosen automatically if there is no other device."""


class Dispatcher:
    """Runs plans on its devices, within their capacity and before the plans' deadlines.

    Args:
        devices: devices by name.
        threads: number of plans that run concurrently on a device that does not specify it.
        queued: maximum number of queued plans.
        max_wait: maximum expected wait of a plan, in seconds.
        costs: knows how long plans take on each device.
        on_broken: called when a device has failed for good.
        joining: number of threads for devices of a cluster, see ``add``; 0 without one.

    Attributes:
        devices: devices by name, including those of a cluster.
        costs: how long plans take on each device.
        schedule: schedule of the jobs.
        places: maximum number of plans that run concurrently on one device.
        default: device of plans that name none, or ``auto`` if it is chosen for each plan.
        has_cluster: whether devices of a cluster may join and leave.
        cancelled: number of cancelled plans, by the stage they were in.
    """

    def __init__(
        self,
        devices: Mapping[str, Device],
        threads: int,
        queued: int,
        max_wait: float = MAX_WAIT,
        costs: Costs | None = None,
        on_broken: Callable[[Device], None] = lambda device: None,
        joining: int = 0,
    ) -> None:
        self.devices = dict(devices)
        places = {name: device.places or threads for name, device in devices.items()}
        self.costs = costs or Costs()
        self.schedule = Schedule.of(places, queued, max_wait, self.costs)
        self.cancelled = {"queue": 0, "run": 0}
        self.places = max(places.values())
        chosen = candidates(devices)
        self.default = chosen[0] if len(chosen) == 1 and not joining else AUTO
        own = {name: places[name] for name in chosen}
        self._placement = Placement(self.costs, own) if self.default == AUTO else None
        small = next((name for name in chosen if kind_of(name) == "cpu"), chosen[0])
        self._small = devices[small]
        self._own_places = threads
        self.has_cluster = joining > 0
        self._joined: dict[str, bool] = {}
        self._on_broken = on_broken
        self._threads = ThreadPoolExecutor(sum(places.values()) + joining, "opwire-device")
        self._waiting: dict[ScheduledJob, asyncio.Future[None]] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._timer: tuple[float, asyncio.TimerHandle] | None = None
        self._closing = False

    def add(self, device: Device, guess: Guess, *, is_local: bool) -> None:
        """Adds a device of a cluster.

        Args:
            device: the device.
            guess: its expected cost, transport included.
            is_local: whether it shares hardware with this server's own devices. It then only runs plans that ask for it
                or for the cluster.
        """
        assert self._placement is not None
        self.devices[device.name] = device
        self._joined[device.name] = is_local
        places = device.places or self._own_places
        self.costs.add(device.name, guess, f"far {kind_of(device.name.rpartition('/')[2])}")
        self.schedule.add(device.name, places + 1)  # one more for the plan in transit
        self._placement.add(device.name, places)

    def remove(self, device: Device) -> None:
        """Removes a device of a cluster. Its queued plans go to other devices, its running ones continue."""
        name = device.name
        if self.devices.get(name) is not device:  # it has been replaced
            return
        assert self._placement is not None
        del self.devices[name], self._joined[name]
        self._placement.remove(name)
        self.costs.remove(name)
        self._perform(self.schedule.remove(name))

    def decodes(self, device: str) -> bool:
        """Whether a device decodes base64 inputs itself."""
        found = self.devices.get(device)
        return found is not None and found.decodes

    def fits_inline(self, plan: Plan, device: str) -> bool:
        """Whether a plan is so short that running it inline beats handing it to another thread."""
        runner = self._small if device == AUTO else self.devices.get(device)
        return runner is not None and not self.costs.is_slow(plan) and runner.runs_inline(plan)

    def scratch_bytes(self, plan: Plan, device: str) -> int:
        """Returns the host memory in bytes that a plan needs besides its tensors, on whichever device it may run."""
        if device == AUTO:
            able = set(self.devices_for(plan))
            own = [self.devices[name] for name in candidates(self.devices) if name in able and name not in self._joined]
            runners = [*own, *self._members()[:1]]
        else:
            named = self.devices.get(device)
            runners = self._members()[:1] if device == CLUSTER else [] if named is None else [named]
        return max((runner.scratch_bytes(plan) for runner in runners), default=0)

    def _members(self) -> list[Device]:
        """Returns the devices of the cluster, which all need the same host memory for a plan."""
        return [self.devices[name] for name in self._joined]

    @contextmanager
    def place(self, plan: Plan, device: str, without: Collection[str] = ()) -> Generator[str]:
        """Places a plan on a device and reserves device memory for it, for the duration of the context.

        Args:
            plan: the plan.
            device: device that the plan asks for. ``auto`` selects the device with room that is expected to finish
                first, ``cluster`` does so among the devices of the cluster.
            without: devices that have already lost the plan.

        Raises:
            LimitExceededError: the plan needs more memory than the device has.
            OverloadedError: the plan needs more memory than is free.
            UnavailableError: no device is left, or the requested one is gone.
        """
        placement = self._placement
        if placement is None or not (device in (AUTO, CLUSTER) or device in placement):
            with self._device(device, without).admit(plan):
                yield device
            return
        able = [name for name in self.devices_for(plan) if name in placement and name not in without]
        demands = {name: self.costs.demand(plan, self.devices[name]) for name in self._among(able, device)}
        if not demands:
            raise _unavailable(device)
        with ExitStack() as held:
            name = self._admit(plan, placement.order(demands, plan, time.monotonic()), held)
            held.enter_context(placement.hold(name, demands[name], plan))
            yield name

    def _device(self, name: str, without: Collection[str]) -> Device:
        found = None if name in without else self.devices.get(name)
        if found is None:
            raise _unavailable(name)
        return found

    def _among(self, able: list[str], device: str) -> list[str]:
        """Returns those devices that a plan may go to."""
        if device == AUTO:
            return [name for name in able if not self._joined.get(name, False)]
        if device == CLUSTER:
            return [name for name in able if name in self._joined]
        return [name for name in able if name == device]

    def devices_for(self, plan: Plan) -> list[str]:
        """Returns the devices that run all operators of a plan."""
        return [name for name, device in self.devices.items() if _executes(device, plan)]

    def runs(self, plan: Plan, device: str) -> bool:
        """Whether a device runs a plan; for ``auto`` and ``cluster``, whether there is one that does.

        An empty cluster counts as able, since its devices may be about to join.
        """
        named = self.devices.get(device)
        if named is not None:
            return _executes(named, plan)
        able = self.devices_for(plan)
        if device == CLUSTER:
            return not self._joined or not self._joined.keys().isdisjoint(able)
        return device == AUTO and not set(able).isdisjoint(candidates(self.devices))

    def _admit(self, plan: Plan, order: list[str], held: ExitStack) -> str:
        """Reserves memory on the first device with room and returns it; if none has, the last one raises."""
        for name in order[:-1]:
            with suppress(LimitExceededError, OverloadedError):
                held.enter_context(self.devices[name].admit(plan))
                return name
        held.enter_context(self.devices[order[-1]].admit(plan))
        return order[-1]

    def inline_device(self, device: str) -> Device:
        """Returns the device on which plans that fit run inline."""
        return self._small if device == AUTO else self.devices[device]

    def run_inline(self, plan: Plan, run: Bound, deadline: float) -> Ran | None:
        """Runs a bound plan immediately on the calling thread; returns None if it takes too long there.

        Raises:
            UnavailableError, DeadlineExceededError: the dispatcher is closing; the deadline passed in stage ``run``.
        """
        self._refuse_if_closing()
        began, ran = time.thread_time(), None
        try:
            ran = run_briefly(run, deadline)
        finally:
            taken = inf if ran is None else time.thread_time() - began
            if taken > INLINE_SECONDS:
                self.costs.timed(plan, taken)
        return ran

    async def run(
        self,
        plan: Plan,
        inputs: Inputs,
        outputs: Arrays,
        *,
        device: str,
        priority: int,
        deadline: float,
        part: bool = False,
    ) -> Ran:
        """Runs a plan on a thread once it gets a slot of its device.

        Args:
            plan: the plan.
            inputs: arrays of the inputs, or their base64 text for a device that decodes it.
            outputs: arrays for the outputs.
            device: name of the device.
            priority: 0 is the most urgent.
            deadline: ``time.monotonic()`` by which it must be done.
            part: whether it belongs to an accepted batch, see ScheduledJob.

        Raises:
            OverloadedError: too much work is queued.
            UnavailableError: the dispatcher is closing.
            DeadlineExceededError: the deadline passed, in the stage ``queue`` or ``run``.
            DeviceLost: the device is gone; the plan may run on another one.
        """
        self._refuse_if_closing()
        runner = self.devices.get(device)
        if runner is None:
            raise DeviceLost(device)
        arrived = time.monotonic()
        demand = self.costs.demand(plan, runner)
        job = ScheduledJob(device, priority, arrived, deadline, demand.work, demand.kind, part, plan)
        await self._place(job)
        queued = time.monotonic() - arrived
        watch = Watch(deadline)
        bound = partial(runner.run, plan, cast(Arrays, inputs), outputs)  # text only goes to devices that decode it
        work = self._threads.submit(run_timed, bound, watch)
        loop = asyncio.get_running_loop()
        work.add_done_callback(lambda done: loop.call_soon_threadsafe(self._ended, job, runner, is_whole(done)))
        try:
            ran = Ran(round(queued * 1e6), await result(work, watch))
        except asyncio.CancelledError:
            self.cancelled["run"] += 1
            raise
        if self.costs.is_slow(plan) and runner.runs_inline(plan):
            self.costs.timed(plan, ran.run * 1e-6)
        return ran

    def _ended(self, job: ScheduledJob, runner: Device, whole: bool) -> None:
        self._finish(job, whole=whole)
        if runner.broken is not None:
            self._on_broken(runner)

    def _refuse_if_closing(self) -> None:
        if self._closing:
            raise UnavailableError(ProblemCode.DRAINING, "the server is stopping; send the request to another one")

    async def _place(self, job: ScheduledJob) -> None:
        """Waits until the job gets a slot of its device."""
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[job] = started
        try:
            self._perform(self.schedule.submit(job))
            if not started.done():
                self._wake_by(job.deadline)
            await started
        except QueueFull as full:
            raise OverloadedError(
                ProblemCode.QUEUE_FULL,
                str(full),
                limit=self.schedule.limit,
                retry_after=round(full.retry_after, 3),
            ) from None
        except NoLane:
            raise DeviceLost(job.device) from None
        except asyncio.CancelledError:
            self.cancelled["queue"] += 1
            if self.schedule.is_running(job):
                self._finish(job, whole=False)
            else:
                self.schedule.withdraw(job)
            raise
        finally:
            self._waiting.pop(job, None)

    def _finish(self, job: ScheduledJob, *, whole: bool) -> None:
        self._perform(self.schedule.finish(job, time.monotonic(), whole=whole))

    def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            waiting = self._waiting.get(action.job)
            if waiting is None or waiting.done():
                continue
            if isinstance(action, Start):
                waiting.set_result(None)
            elif isinstance(action, Evict):
                waiting.set_exception(DeviceLost(action.job.device))
            else:
                waiting.set_exception(deadline_exceeded("queue"))
        if self.schedule.running:
            self._idle.clear()
        else:
            self._idle.set()

    def _wake_by(self, deadline: float | None) -> None:
        """Ensures that expired jobs are checked for by ``deadline``; an earlier timer suffices."""
        if deadline is None or (self._timer is not None and self._timer[0] <= deadline):
            return
        if self._timer is not None:
            self._timer[1].cancel()
        delay = max(0.0, deadline - time.monotonic())
        self._timer = deadline, asyncio.get_running_loop().call_later(delay, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self._perform(self.schedule.expire(time.monotonic()))
        self._wake_by(self.schedule.next_deadline())

    async def close(self) -> None:
        """Stops accepting work, waits for running work, and closes the devices."""
        self._closing = True
        await self._idle.wait()
        if self._timer is not None:
            self._timer[1].cancel()
        self._threads.shutdown()
        for device in self.devices.values():
            device.close()


def _executes(device: Device, plan: Plan) -> bool:
    """Whether a device runs all operators of a plan; for a graph, the graph itself and its nodes."""
    if not device.executes(plan.operator.name):
        return False
    return plan.operator is not GRAPH or all(device.executes(each.operator.name) for each in operator_plans(plan))


def candidates(names: Iterable[str]) -> list[str]:
    """Returns the devices that may run plans that name no device."""
    found = list(names)
    return [name for name in found if name != REFERENCE] or found


def _unavailable(device: str) -> UnavailableError:
    """Returns the error for a plan for which no device is available at the moment."""
    what = {AUTO: "no device", CLUSTER: "no device of the cluster"}.get(device)
    detail = f"the device {device} is gone" if what is None else f"{what} that runs the operator is available"
    return UnavailableError(ProblemCode.NOT_READY, detail, retry_after=1)
