"""The shell around the schedule: it runs jobs in threads and gives a place back only when its work has ended."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from opwire.check import Plan
from opwire.errors import DeadlineExceededError, OverloadedError, ProblemCode, UnavailableError

from .devices.device import Arrays, Device, Stop, Stopped
from .patience import BURST, WAIT, QueueFull
from .schedule import Action, Job, Schedule, Start


class Ran(NamedTuple):
    """How a plan ran; times in microseconds."""

    queue: int
    run: int


class Dispatcher:
    """Runs plans on its devices, within their capacity and each within its deadline.

    Args:
        devices: by name.
        threads: plans that run at the same time on each device.
        queued: plans that may wait.
        work: element visits that may wait and run.
        burst, wait: seconds for which a queue may stand, and that a standing one may take, see patience.

    Attributes:
        places: plans that run at the same time on each device.
        cancelled: how many plans were given up, by the stage that they were in.
    """

    def __init__(
        self,
        devices: Mapping[str, Device],
        threads: int,
        queued: int,
        work: int,
        burst: float = BURST,
        wait: float = WAIT,
    ) -> None:
        self.devices = devices
        self.schedule = Schedule.of(dict.fromkeys(devices, threads), queued, work, burst, wait)
        self.cancelled = {"queue": 0, "run": 0}
        self.places = threads
        self._threads = ThreadPoolExecutor(threads * len(devices), "opwire-device")
        self._waiting: dict[Job, asyncio.Future[None]] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False

    def fits_inline(self, plan: Plan, device: str) -> bool:
        """Whether a plan is over sooner than another thread could take it."""
        return plan.work <= self.devices[device].inline_work

    def run_inline(self, plan: Plan, inputs: Arrays, outputs: Arrays, *, device: str, deadline: float) -> Ran:
        """Runs a plan at once, in the thread of the caller; for those that fit.

        Raises:
            UnavailableError: the dispatcher is closing.
            DeadlineExceededError: in the stage ``run``.
        """
        self._refuse_if_closing()
        return Ran(0, _run(self.devices[device], plan, inputs, outputs, lambda: time.monotonic() > deadline))

    async def run(
        self,
        plan: Plan,
        inputs: Arrays,
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
            part: whether it belongs to a batch that was taken, see Job.

        Raises:
            OverloadedError: too much waits already.
            UnavailableError: the dispatcher is closing.
            DeadlineExceededError: in the stage ``queue`` or ``run``.
        """
        self._refuse_if_closing()
        runner = self.devices[device]
        arrived = time.monotonic()
        job = Job(device, priority, arrived, deadline, plan.work, plan.operator.name, part)
        await self._place(job)
        queued = time.monotonic() - arrived
        stop = threading.Event()
        work = self._threads.submit(
            _run, runner, plan, inputs, outputs, lambda: stop.is_set() or time.monotonic() > deadline
        )
        loop = asyncio.get_running_loop()
        work.add_done_callback(lambda done: loop.call_soon_threadsafe(self._finish, job, _succeeded(done)))
        try:
            return Ran(round(queued * 1e6), await _result(work, stop))
        except asyncio.CancelledError:
            self.cancelled["run"] += 1
            raise

    def _refuse_if_closing(self) -> None:
        if self._closing:
            raise UnavailableError(ProblemCode.DRAINING, "the server is stopping; send the request to another one")

    async def _place(self, job: Job) -> None:
        """Waits until the job has a place on its device."""
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[job] = started
        try:
            self._perform(self.schedule.submit(job))
            await started
        except QueueFull as full:
            raise OverloadedError(
                ProblemCode.QUEUE_FULL,
                f"{self.schedule.queued} operators wait already",
                limit=self.schedule.limit,
                retry_after=round(full.retry_after, 3),
            ) from None
        except asyncio.CancelledError:
            self.cancelled["queue"] += 1
            if self.schedule.is_running(job):
                self._finish(job, whole=False)
            else:
                self.schedule.withdraw(job)
            raise
        finally:
            self._waiting.pop(job, None)

    def _finish(self, job: Job, whole: bool) -> None:
        self._perform(self.schedule.finish(job, time.monotonic(), whole=whole))

    def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            waiting = self._waiting.get(action.job)
            if waiting is None or waiting.done():
                continue
            if isinstance(action, Start):
                waiting.set_result(None)
            else:
                waiting.set_exception(_too_late("queue"))
        if self.schedule.running:
            self._idle.clear()
        else:
            self._idle.set()
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self.schedule.next_deadline()
        if deadline is not None:
            delay = max(0.0, deadline - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay, self._expire)

    def _expire(self) -> None:
        self._perform(self.schedule.expire(time.monotonic()))

    async def close(self) -> None:
        """Takes no more work, waits for what runs, and ends the devices."""
        self._closing = True
        await self._idle.wait()
        self._threads.shutdown()
        for device in self.devices.values():
            device.close()


def _run(device: Device, plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> int:
    started = time.perf_counter_ns()
    try:
        device.run(plan, inputs, outputs, stop)
    except Stopped:
        raise _too_late("run") from None
    return (time.perf_counter_ns() - started) // 1000


def _succeeded(work: Future[int]) -> bool:
    return not work.cancelled() and work.exception() is None


async def _result(work: Future[int], stop: threading.Event) -> int:
    ended = asyncio.wrap_future(work)
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        stop.set()
        # What the request holds is given back when nothing uses it any more.
        await asyncio.gather(ended, return_exceptions=True)
        raise


def _too_late(stage: str) -> DeadlineExceededError:
    what = {"queue": "it waited for a device", "run": "the operator ran"}[stage]
    return DeadlineExceededError(ProblemCode.DEADLINE_EXCEEDED, f"the deadline passed while {what}", stage=stage)
