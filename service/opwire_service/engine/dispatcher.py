"""The shell around the schedule: it runs jobs in threads and gives a place back only when its work has ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import cast
from weakref import WeakSet

from opwire.check import Plan
from opwire.errors import LimitExceededError, OverloadedError, ProblemCode, UnavailableError
from opwire.graph import GRAPH, operator_plans

from ..devices import AUTO, CLUSTER, kind_of
from ..devices.base import Device, DeviceLost, Inputs
from ..execution import Arrays, Bound
from .durations import kind_of_work
from .placement import UNKNOWN, Cost, Demand, Placement
from .progress import Ran
from .running import Watch, is_whole, result, run_timed, too_late
from .schedule import MAX_WAIT, Action, Evict, NoLane, QueueFull, Schedule, ScheduledJob, Start

ORACLE = "reference"
"""The device that runs what names it, and nothing else where there is another one."""

INLINE_SECONDS = 0.002
"""A plan that took longer inline goes to threads until it takes less."""


class Dispatcher:
    """Runs plans on its devices, within their capacity and each within its deadline.

    Args:
        devices: by name.
        threads: plans that run at the same time on each device that does not say so itself.
        queued: plans that may wait.
        max_wait: seconds that a plan may be expected to wait.
        costs: of the devices among which plans are placed that name none, if there are several.
        on_broken: called when a device turns out to be of no use any more.
        joining: threads for devices that come and go, see ``add``; 0 if none ever does.

    Attributes:
        devices: by name, those of a cluster among them.
        places: plans that run at the same time on one device.
        default: the device of plans that name none, or ``auto`` where that is decided for each.
        has_cluster: whether devices may come and go.
        cancelled: how many plans were given up, by the stage that they were in.
    """

    def __init__(
        self,
        devices: Mapping[str, Device],
        threads: int,
        queued: int,
        max_wait: float = MAX_WAIT,
        costs: Mapping[str, Cost] | None = None,
        on_broken: Callable[[Device], None] = lambda device: None,
        joining: int = 0,
    ) -> None:
        self.devices = dict(devices)
        places = {name: device.places or threads for name, device in devices.items()}
        self.schedule = Schedule.of(places, queued, max_wait)
        self.cancelled = {"queue": 0, "run": 0}
        self.places = max(places.values())
        chosen = candidates(devices)
        self.default = chosen[0] if len(chosen) == 1 and not joining else AUTO
        measured = {name: (costs or {}).get(name, UNKNOWN) for name in chosen}
        self._placement = Placement(measured) if self.default == AUTO else None
        small = next((name for name in chosen if kind_of(name) == "cpu"), chosen[0])
        self._small = devices[small]
        self._slow: WeakSet[Plan] = WeakSet()
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

    def add(self, device: Device, cost: Cost, *, at_home: bool) -> None:
        """A device of a cluster takes work from now on.

        Args:
            cost: of it, the way there included.
            at_home: whether it uses what the devices of this server use too. It runs what asks for it then, or for the
                cluster, and what names no device goes elsewhere.
        """
        assert self._placement is not None
        self.devices[device.name] = device
        self._joined[device.name] = at_home
        self.schedule.add(device.name, (device.places or self._own_places) + 1)  # one is on its way there or back
        self._placement.add(device.name, cost, f"far {kind_of(device.name.rpartition('/')[2])}")

    def remove(self, device: Device) -> None:
        """A device of a cluster takes no more work. What waits for it goes to others, what it runs goes on."""
        name = device.name
        if self.devices.get(name) is not device:  # another one has come in its place
            return
        assert self._placement is not None
        del self.devices[name], self._joined[name]
        self._placement.remove(name)
        self._perform(self.schedule.remove(name))

    def decodes(self, device: str) -> bool:
        """Whether a device takes inputs that are still text."""
        found = self.devices.get(device)
        return found is not None and found.decodes

    def fits_inline(self, plan: Plan, device: str) -> bool:
        """Whether a plan is over sooner than another thread could take it."""
        runner = self._small if device == AUTO else self.devices.get(device)
        return runner is not None and not self.is_slow(plan) and runner.runs_inline(plan)

    def is_slow(self, plan: Plan) -> bool:
        """Whether a plan took too long inline."""
        return plan in self._slow

    def scratch_bytes(self, plan: Plan, device: str) -> int:
        """What a plan takes of the host's memory besides its tensors, wherever it may go."""
        if device == AUTO:
            able = set(self.devices_for(plan))
            own = [self.devices[name] for name in candidates(self.devices) if name in able and name not in self._joined]
            runners = [*own, *self._members()[:1]]
        else:
            named = self.devices.get(device)
            runners = self._members()[:1] if device == CLUSTER else [] if named is None else [named]
        return max((runner.scratch_bytes(plan) for runner in runners), default=0)

    def _members(self) -> list[Device]:
        """The devices of the cluster, which take the same of the host's memory for a plan."""
        return [self.devices[name] for name in self._joined]

    @contextmanager
    def place(self, plan: Plan, device: str, without: Collection[str] = ()) -> Generator[str]:
        """Gives a plan to a device, for as long as the context lasts, and holds what it needs there of memory.

        Args:
            device: that the plan asks for, or ``auto``: of those with room the one expected to be done with it first;
                ``cluster`` is the same for the devices of the cluster alone.
            without: devices that have lost the plan already.

        Raises:
            LimitExceededError: the plan needs more memory than the device has.
            OverloadedError: it needs more than others leave.
            UnavailableError: no device is left, or the one that the plan asks for has gone.
        """
        placement = self._placement
        if placement is None or not (device in (AUTO, CLUSTER) or device in placement):
            with self._device(device, without).admit(plan):
                yield device
            return
        demand, now = Demand.of(plan), time.monotonic()
        with ExitStack() as held:
            able = self.devices_for(plan)
            order = [name for name in placement.order(demand, now) if name in able and name not in without]
            chosen = self._among(order, device)
            if not chosen:
                raise _gone(device)
            name = self._admit(plan, chosen, held)
            seconds = placement.accept(name, demand, now)
            held.callback(placement.release, name, seconds)
            yield name

    def _device(self, name: str, without: Collection[str]) -> Device:
        found = None if name in without else self.devices.get(name)
        if found is None:
            raise _gone(name)
        return found

    def _among(self, order: list[str], device: str) -> list[str]:
        """The devices that a plan may go to, in the given order."""
        if device == AUTO:
            return [name for name in order if not self._joined.get(name, False)]
        if device == CLUSTER:
            return [name for name in order if name in self._joined]
        return [name for name in order if name == device]

    def devices_for(self, plan: Plan) -> list[str]:
        """The devices that run all operators of a plan."""
        return [name for name, device in self.devices.items() if _executes(device, plan)]

    def runs(self, plan: Plan, device: str) -> bool:
        """Whether a device runs a plan, or ``auto`` finds one that does."""
        named = self.devices.get(device)
        if named is not None:
            return _executes(named, plan)
        able = self.devices_for(plan)
        if device == CLUSTER:
            return not self._joined or not self._joined.keys().isdisjoint(able)
        return device == AUTO and not set(able).isdisjoint(candidates(self.devices))

    def _admit(self, plan: Plan, order: list[str], held: ExitStack) -> str:
        """The first device with room for a plan; if none has, the last one refuses it."""
        for name in order[:-1]:
            with suppress(LimitExceededError, OverloadedError):
                held.enter_context(self.devices[name].admit(plan))
                return name
        held.enter_context(self.devices[order[-1]].admit(plan))
        return order[-1]

    def inline_device(self, device: str) -> Device:
        """The device on which a plan that fits runs inline."""
        return self._small if device == AUTO else self.devices[device]

    def run_inline(self, plan: Plan, run: Bound, deadline: float) -> Ran:
        """Runs what was bound to a plan that fits at once, in the thread of the caller.

        Raises:
            UnavailableError: the dispatcher is closing.
            DeadlineExceededError: in the stage ``run``.
        """
        self._refuse_if_closing()
        began = time.thread_time()
        try:
            return Ran(0, run_timed(run, lambda: time.monotonic() > deadline))
        finally:
            if time.thread_time() - began > INLINE_SECONDS:
                self._slow.add(plan)

    def run_bound(self, run: Bound, deadline: float) -> Ran:
        """Runs what was bound to a plan that ran inline before; arguments and errors are those of ``run_inline``."""
        self._refuse_if_closing()
        return Ran(0, run_timed(run, lambda: time.monotonic() > deadline))

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
        """Runs a plan in a thread, when it has a place on its device.

        Args:
            priority: 0 is the most urgent.
            deadline: on the clock of ``time.monotonic``.
            part: whether it belongs to a batch that was taken, see ScheduledJob.

        Raises:
            OverloadedError: too much waits already.
            UnavailableError: the dispatcher is closing.
            DeadlineExceededError: in the stage ``queue`` or ``run``.
            DeviceLost: the device went away; the plan may run on another one.
        """
        self._refuse_if_closing()
        runner = self.devices.get(device)
        if runner is None:
            raise DeviceLost(device)
        arrived = time.monotonic()
        kind = kind_of_work(plan, runner.method(plan))
        job = ScheduledJob(device, priority, arrived, deadline, runner.visits(plan), kind, part, plan)
        await self._place(job)
        queued = time.monotonic() - arrived
        charge = self._charge(device, plan)
        watch = Watch(deadline)
        bound = partial(runner.run, plan, cast(Arrays, inputs), outputs)  # text is there for those alone that decode it
        work = self._threads.submit(run_timed, bound, watch)
        loop = asyncio.get_running_loop()
        work.add_done_callback(lambda done: loop.call_soon_threadsafe(self._ended, job, runner, charge, is_whole(done)))
        try:
            ran = Ran(round(queued * 1e6), await result(work, watch))
        except asyncio.CancelledError:
            self.cancelled["run"] += 1
            raise
        if self.is_slow(plan) and ran.run <= INLINE_SECONDS * 1e6 and runner.runs_inline(plan):
            self._slow.discard(plan)
        return ran

    def _charge(self, device: str, plan: Plan) -> Callable[[bool], None]:
        """Begins to measure what a plan costs on a device; the function that is returned ends it."""
        placement = self._placement
        if placement is None or device not in placement:
            return lambda whole: None
        demand = Demand.of(plan)
        started = placement.start(device, time.monotonic())
        return lambda whole: placement.finish(device, demand, started, time.monotonic(), whole=whole)

    def _ended(self, job: ScheduledJob, runner: Device, charge: Callable[[bool], None], whole: bool) -> None:
        charge(whole)
        self._finish(job, whole=whole)
        if runner.broken is not None:
            self._on_broken(runner)

    def _refuse_if_closing(self) -> None:
        if self._closing:
            raise UnavailableError(ProblemCode.DRAINING, "the server is stopping; send the request to another one")

    async def _place(self, job: ScheduledJob) -> None:
        """Waits until the job has a place on its device."""
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
                waiting.set_exception(too_late("queue"))
        if self.schedule.running:
            self._idle.clear()
        else:
            self._idle.set()

    def _wake_by(self, deadline: float | None) -> None:
        """Sees to it that what waits is looked at by then: a timer that is too early does no harm."""
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
        """Takes no more work, waits for what runs, and ends the devices."""
        self._closing = True
        await self._idle.wait()
        if self._timer is not None:
            self._timer[1].cancel()
        self._threads.shutdown()
        for device in self.devices.values():
            device.close()


def _executes(device: Device, plan: Plan) -> bool:
    """Whether a device runs all operators of a plan, the graph itself among them."""
    if not device.executes(plan.operator.name):
        return False
    return plan.operator is not GRAPH or all(device.executes(each.operator.name) for each in operator_plans(plan))


def candidates(names: Iterable[str]) -> list[str]:
    """Those of some devices that run plans which name none."""
    found = list(names)
    return [name for name in found if name != ORACLE] or found


def _gone(device: str) -> UnavailableError:
    """The error of a plan for which there is no device at the moment."""
    what = {AUTO: "no device is left", CLUSTER: "no device of the cluster is there"}.get(device, f"{device} has gone")
    return UnavailableError(ProblemCode.NOT_READY, f"{what} that could run the operator", retry_after=1)
