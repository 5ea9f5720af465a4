"""Scheduling of jobs on devices, as a pure state machine: time is an argument, and starting a job is an action.

Each device has a queue, first come, first served within a priority. Each step of priority below the highest counts as
an arrival half a second later, so that no job starves. Long jobs may occupy all slots of a device but one, so that
short jobs never wait for long ones alone. A job is long if it is expected to be, or has turned out to be.

A job is refused only if the queue is full, or if the work ahead of it is expected to take longer than it may wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import chain
from math import inf
from typing import NamedTuple

from opwire.check import Plan

from .costs import Costs, Demand, at_most

PRIORITY_STEP = 0.5
"""Delay that a step of priority is worth, in seconds."""

LONG_SECONDS = 0.1
"""Duration above which a job is long, in seconds. The bound of ``at_most`` must be below it for a job to be short."""

MAX_WAIT = 5.0
"""Default of the maximum expected wait of a job, in seconds."""

_MAX_RETRY_AFTER = 60.0


class NoLane(Exception):
    """The device of a job no longer accepts work."""


class QueueFull(Exception):
    """No further work is accepted; retry after ``retry_after`` seconds."""

    def __init__(self, reason: str, retry_after: float) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True, eq=False)
class ScheduledJob:
    """Work for a device. Times are in seconds on the caller's clock.

    Attributes:
        device: name of the device.
        priority: 0 is the most urgent.
        arrived: time of arrival.
        deadline: time after which the job expires in the queue.
        work: number of element visits.
        kind: key shared by jobs that take about equally long for equal work.
        part: whether it belongs to a batch that was accepted; it is then not refused because of the expected wait.
        plan: key shared by jobs that do the same.
    """

    device: str
    priority: int
    arrived: float
    deadline: float
    work: int = 0
    kind: str = ""
    part: bool = False
    plan: Plan | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """The job starts: it occupies a slot of its device until it is finished."""

    job: ScheduledJob


@dataclass(frozen=True, slots=True)
class Expire:
    """The job's deadline passed while it was queued; it is no longer queued."""

    job: ScheduledJob


@dataclass(frozen=True, slots=True)
class Evict:
    """The job's device was removed while the job was queued; the job is no longer queued."""

    job: ScheduledJob


Action = Start | Expire | Evict


@dataclass(frozen=True, slots=True)
class DeviceBacklog:
    """The load of a device: queued and running jobs, its slots, and the element visits of all those jobs."""

    queued: int
    running: int
    capacity: int
    pending: int


class _Waiting(NamedTuple):
    """A queued job with its due time, by which these tuples are ordered, and its expected duration."""

    start: float
    sequence: int
    job: ScheduledJob
    seconds: float


@dataclass(slots=True)
class _Queue:
    """Queued jobs, ordered by due time.

    The sum of their expected durations is maintained, since each submitted job asks for it.
    """

    entries: list[_Waiting] = field(default_factory=list)
    _seconds: float = 0.0
    _latest: float = -inf

    def __len__(self) -> int:
        return len(self.entries)

    def push(self, entry: _Waiting) -> None:
        heappush(self.entries, entry)
        self._seconds += entry.seconds
        self._latest = max(self._latest, entry.start)

    def pop(self) -> _Waiting:
        entry = heappop(self.entries)
        if self.entries:
            self._seconds -= entry.seconds
        else:
            self._seconds, self._latest = 0.0, -inf  # clears accumulated rounding errors
        return entry

    def remove(self, job: ScheduledJob) -> None:
        kept = [entry for entry in self.entries if entry.job is not job]
        if len(kept) < len(self.entries):
            heapify(kept)
            self.entries = kept
            self._seconds = sum(entry.seconds for entry in kept)

    def seconds_before(self, start: float) -> float:
        """Returns the expected seconds of all jobs due no later than ``start``."""
        if start >= self._latest:
            return self._seconds
        return sum(entry.seconds for entry in self.entries if entry.start <= start)


@dataclass(slots=True)
class _Lane:
    """The slots and queues of one device.

    Attributes:
        capacity: number of slots.
        is_open: whether it accepts jobs; False while a removed device finishes its running jobs.
        running: start time of each running job.
        short, long: queues of short and of long jobs.
        costs: knows how long jobs take.
    """

    capacity: int
    costs: Costs
    is_open: bool = True
    running: dict[ScheduledJob, float] = field(default_factory=dict)
    short: _Queue = field(default_factory=_Queue)
    long: _Queue = field(default_factory=_Queue)

    @property
    def waiting(self) -> Iterator[ScheduledJob]:
        """The queued jobs, in no particular order."""
        return (entry.job for entry in chain(self.short.entries, self.long.entries))

    @property
    def queued(self) -> int:
        """Number of queued jobs."""
        return len(self.short) + len(self.long)

    def has_room(self, now: float, *, long: bool) -> bool:
        """Whether a job may start now. Long jobs may occupy all slots but one, if there are several."""
        if len(self.running) >= self.capacity:
            return False
        return not long or self.long_running(now) < max(1, self.capacity - 1)

    def long_running(self, now: float) -> int:
        return sum(self._runs_long(job, now) for job in self.running)

    def _runs_long(self, job: ScheduledJob, now: float) -> bool:
        return now - self.running[job] > LONG_SECONDS or _is_long(self.expected(job))

    def expected(self, job: ScheduledJob) -> float:
        """Returns the expected seconds of a job, as currently known."""
        return self.costs.expected(job.device, Demand(job.kind, job.work), job.plan)

    @property
    def pending(self) -> int:
        """Element visits of all queued and running jobs."""
        return sum(job.work for job in chain(self.running, self.waiting))

    def wait(self, start: float, now: float, *, long: bool) -> float:
        """Returns the expected wait of a job due at ``start``, in seconds.

        Long jobs share all slots but one; short jobs share the slots that no long job occupies.
        """
        left = [
            (max(0.0, since + self.expected(job) - now), self._runs_long(job, now))
            for job, since in self.running.items()
        ]
        ahead = self.short.seconds_before(start)
        if long or self.capacity == 1:
            ahead += self.long.seconds_before(start) + sum(seconds for seconds, _ in left)
            return ahead / max(1, self.capacity - 1)
        ahead += sum(seconds for seconds, is_long in left if not is_long)
        return ahead / max(1, self.capacity - self.long_running(now))

    def push(self, entry: _Waiting) -> None:
        """Queues a job."""
        (self.long if _is_long(entry.seconds) else self.short).push(entry)

    def withdraw(self, job: ScheduledJob) -> None:
        """Removes a job from the queues."""
        self.short.remove(job)
        self.long.remove(job)

    def next(self, now: float) -> ScheduledJob | None:
        """Takes the first queued job that may start."""
        while queues := [queue for queue in (self.short, self.long) if queue and self._has_room_for(queue, now)]:
            entry = min(queues, key=lambda queue: queue.entries[0]).pop()
            seconds = self.expected(entry.job)  # the estimate may have changed since it was queued
            if self.has_room(now, long=_is_long(seconds)):
                return entry.job
            self.push(entry._replace(seconds=seconds))
        return None

    def _has_room_for(self, queue: _Queue, now: float) -> bool:
        return self.has_room(now, long=queue is self.long and _is_long(self.expected(queue.entries[0].job)))


def _is_long(expected: float) -> bool:
    """Whether a job with this expected duration counts as long."""
    return at_most(expected) > LONG_SECONDS


@dataclass(slots=True)
class Schedule:
    """The queued and running jobs of all devices.

    Attributes:
        limit: maximum number of queued jobs over all devices.
        max_wait: maximum expected wait of a job, in seconds.
        costs: knows how long jobs take, and learns it from those that end.
    """

    limit: int
    max_wait: float
    costs: Costs = field(default_factory=Costs)
    _lanes: dict[str, _Lane] = field(default_factory=dict)
    _sequence: int = 0

    @classmethod
    def of(
        cls, capacity: Mapping[str, int], limit: int, max_wait: float = MAX_WAIT, costs: Costs | None = None
    ) -> Schedule:
        """Creates a schedule for devices, given the number of jobs that each runs concurrently."""
        schedule = cls(limit, max_wait, costs or Costs())
        for name, places in capacity.items():
            schedule.add(name, places)
        return schedule

    @property
    def queued(self) -> int:
        return sum(lane.queued for lane in self._lanes.values())

    @property
    def running(self) -> int:
        return sum(len(lane.running) for lane in self._lanes.values())

    def add(self, device: str, places: int) -> None:
        """Adds a device. It takes over from a removed device of the same name that still has running jobs."""
        lane = self._lanes.setdefault(device, _Lane(places, self.costs))
        lane.capacity, lane.is_open = places, True

    def remove(self, device: str) -> list[Action]:
        """Removes a device: its running jobs continue, its queued jobs are evicted."""
        lane = self._lanes[device]
        lane.is_open = False
        evicted: list[Action] = [Evict(job) for job in lane.waiting]
        lane.short, lane.long = _Queue(), _Queue()
        self._forget(device)
        return evicted

    def _forget(self, device: str) -> None:
        lane = self._lanes[device]
        if not lane.is_open and not lane.running:
            del self._lanes[device]

    def loads(self) -> dict[str, DeviceBacklog]:
        """Returns the load of each device."""
        return {
            name: DeviceBacklog(lane.queued, len(lane.running), lane.capacity, lane.pending)
            for name, lane in self._lanes.items()
            if lane.is_open
        }

    def is_running(self, job: ScheduledJob) -> bool:
        """Whether the job is running."""
        lane = self._lanes.get(job.device)
        return lane is not None and job in lane.running

    def submit(self, job: ScheduledJob) -> list[Action]:
        """Submits a job.

        Raises:
            QueueFull: the job is refused.
            NoLane: its device no longer accepts work.
        """
        lane = self._lanes.get(job.device)
        if lane is None or not lane.is_open:
            raise NoLane(job.device)
        seconds = lane.expected(job)
        start = job.arrived + job.priority * PRIORITY_STEP
        long = _is_long(seconds)
        if not lane.has_room(job.arrived, long=long):
            self._refuse_late(job, lane.wait(start, job.arrived, long=long))
        self._sequence += 1
        lane.push(_Waiting(start, self._sequence, job, seconds))
        return self._fill(lane, job.arrived)

    def _refuse_late(self, job: ScheduledJob, wait: float) -> None:
        retry_after = min(max(wait / 2, 0.1), _MAX_RETRY_AFTER)
        if self.queued >= self.limit:
            raise QueueFull(f"{self.queued} operators are queued; this server queues at most {self.limit}", retry_after)
        most = min(self.max_wait, job.deadline - job.arrived)
        if wait > most and not job.part:
            raise QueueFull(f"the expected wait is {wait:.1f} s; at most {most:.1f} s are allowed", retry_after)

    def finish(self, job: ScheduledJob, now: float, *, whole: bool) -> list[Action]:
        """Finishes a running job and frees its slot.

        Args:
            job: the job.
            now: current time.
            whole: whether the job completed; otherwise its duration is not learned.
        """
        lane = self._lanes[job.device]
        seconds = now - lane.running.pop(job)
        if job.work and whole:
            self.costs.learn(job.device, Demand(job.kind, job.work), max(seconds, 1e-6), now, job.plan)
        self._forget(job.device)
        return self._fill(lane, now)

    def withdraw(self, job: ScheduledJob) -> None:
        """Removes a job from the queue. A running job keeps its slot until it is finished."""
        lane = self._lanes.get(job.device)
        if lane is not None:
            lane.withdraw(job)

    def expire(self, now: float) -> list[Action]:
        """Removes queued jobs whose deadline has passed."""
        late = [job for lane in self._lanes.values() for job in lane.waiting if job.deadline <= now]
        for job in late:
            self.withdraw(job)
        return [Expire(job) for job in late]

    def next_deadline(self) -> float | None:
        """Returns the earliest deadline of a queued job, at which to call ``expire`` again."""
        return min((job.deadline for lane in self._lanes.values() for job in lane.waiting), default=None)

    def _fill(self, lane: _Lane, now: float) -> list[Action]:
        actions: list[Action] = []
        while (job := lane.next(now)) is not None:
            if job.deadline <= now:
                actions.append(Expire(job))
            else:
                lane.running[job] = now
                actions.append(Start(job))
        return actions

    def __repr__(self) -> str:
        places = ", ".join(f"{name} {len(lane.running)}/{lane.capacity} busy" for name, lane in self._lanes.items())
        return f"<Schedule {self.queued} queued, {places}>"
