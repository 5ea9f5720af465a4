"""Which job starts when, on which device: a pure state machine. Time is an argument, and starting a job is an action.

One queue for each device, first come, first served within a priority: a job waits as if it had arrived half a second
later for each step of priority below the highest, so that none waits for ever. Of the places on a device one is kept
from long jobs, so that short ones never wait for all of them. Long is what is expected to be, and what has turned out
to be.

A job is refused only where the queue is full, or where what is ahead of it is expected to take longer than it may wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import chain
from math import inf
from typing import NamedTuple

from opwire.check import Plan

from .durations import Durations, at_most

PRIORITY_STEP = 0.5
"""Seconds that a step of priority is worth."""

LONG = 0.1
"""Seconds from which on a job counts as long: one that is short takes no longer, see ``at_most``."""

MAX_WAIT = 5.0
"""Seconds that a job may be expected to wait."""

_LONGEST_RETRY = 60.0


class NoLane(Exception):
    """The device of a job takes no work any more."""


class QueueFull(Exception):
    """No further work is taken; a new try is worthwhile after ``retry_after`` seconds."""

    def __init__(self, reason: str, retry_after: float) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True, eq=False)
class ScheduledJob:
    """Work for a device: times in seconds on the clock of the caller, ``work`` in element visits.

    ``kind`` says which jobs take about as long for as much work, ``plan`` which do the same. A ``part`` belongs to
    something that was taken before, and is not refused for what is ahead of it.
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
    """The job has a place on its device from now on, until it is finished."""

    job: ScheduledJob


@dataclass(frozen=True, slots=True)
class Expire:
    """The job's deadline passed while it waited; it is gone."""

    job: ScheduledJob


@dataclass(frozen=True, slots=True)
class Evict:
    """The job's device takes no more work while it waited; it is gone."""

    job: ScheduledJob


Action = Start | Expire | Evict


@dataclass(frozen=True, slots=True)
class DeviceBacklog:
    """The work of a device: jobs that wait and run, its places, and the element visits of those jobs."""

    queued: int
    running: int
    capacity: int
    pending: int


class _Waiting(NamedTuple):
    """A job in the queue: when it is due, so that the order is that of these tuples, and how long it should take."""

    start: float
    sequence: int
    job: ScheduledJob
    seconds: float


@dataclass(slots=True)
class _Queue:
    """Jobs that wait, by when they are due.

    What they should take together is kept as a sum, since each job that comes asks for it, however many wait.
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
            self._seconds, self._latest = 0.0, -inf  # a sum of many leaves a rest of its roundings
        return entry

    def remove(self, job: ScheduledJob) -> None:
        kept = [entry for entry in self.entries if entry.job is not job]
        if len(kept) < len(self.entries):
            heapify(kept)
            self.entries = kept
            self._seconds = sum(entry.seconds for entry in kept)

    def seconds_before(self, start: float) -> float:
        """Seconds that the jobs due no later should take."""
        if start >= self._latest:
            return self._seconds
        return sum(entry.seconds for entry in self.entries if entry.start <= start)


@dataclass(slots=True)
class _Lane:
    """One device: its places, who has them since when, and who waits for them.

    ``is_open`` is false of one that ends what it runs and takes nothing more.
    """

    capacity: int
    is_open: bool = True
    running: dict[ScheduledJob, float] = field(default_factory=dict)
    short: _Queue = field(default_factory=_Queue)
    long: _Queue = field(default_factory=_Queue)
    durations: Durations = field(default_factory=Durations)

    @property
    def waiting(self) -> Iterator[ScheduledJob]:
        """The jobs that wait, in no order."""
        return (entry.job for entry in chain(self.short.entries, self.long.entries))

    @property
    def queued(self) -> int:
        """How many jobs wait."""
        return len(self.short) + len(self.long)

    def has_room(self, now: float, *, long: bool) -> bool:
        """Whether a job may start; of several places one is kept from long jobs."""
        if len(self.running) >= self.capacity:
            return False
        return not long or self.long_running(now) < max(1, self.capacity - 1)

    def long_running(self, now: float) -> int:
        return sum(self._runs_long(job, now) for job in self.running)

    def _runs_long(self, job: ScheduledJob, now: float) -> bool:
        return now - self.running[job] > LONG or _is_long(self.expected(job))

    def expected(self, job: ScheduledJob) -> float:
        """Seconds that a job should take, by what is known now."""
        return self.durations.expected(job.kind, job.work, job.plan)

    @property
    def pending(self) -> int:
        """Element visits that wait or run."""
        return sum(job.work for job in chain(self.running, self.waiting))

    def wait(self, start: float, now: float, *, long: bool) -> float:
        """Seconds until what runs, and what is ahead of a job with this place in the queue, is expected to be done.

        Long jobs have all places but one, which those that are not long have always.
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
        """A job waits."""
        (self.long if _is_long(entry.seconds) else self.short).push(entry)

    def withdraw(self, job: ScheduledJob) -> None:
        """A job waits no more."""
        self.short.remove(job)
        self.long.remove(job)

    def next(self, now: float) -> ScheduledJob | None:
        """Takes the first of the jobs that wait and have room."""
        while queues := [queue for queue in (self.short, self.long) if queue and self._has_room_for(queue, now)]:
            entry = min(queues, key=lambda queue: queue.entries[0]).pop()
            seconds = self.expected(entry.job)  # others of its kind may have shown it since it came
            if self.has_room(now, long=_is_long(seconds)):
                return entry.job
            self.push(entry._replace(seconds=seconds))
        return None

    def _has_room_for(self, queue: _Queue, now: float) -> bool:
        return self.has_room(now, long=queue is self.long and _is_long(self.expected(queue.entries[0].job)))


def _is_long(expected: float) -> bool:
    """Whether what is expected to take so many seconds may be long."""
    return at_most(expected) > LONG


@dataclass(slots=True)
class Schedule:
    """The jobs that wait and the jobs that run.

    Attributes:
        limit: the jobs that may wait, over all devices.
        max_wait: seconds that a job may be expected to wait.
    """

    limit: int
    max_wait: float
    _lanes: dict[str, _Lane] = field(default_factory=dict)
    _sequence: int = 0

    @classmethod
    def of(cls, capacity: Mapping[str, int], limit: int, max_wait: float = MAX_WAIT) -> Schedule:
        """A schedule for devices that each run so many jobs at the same time."""
        return cls(limit, max_wait, {name: _Lane(places) for name, places in capacity.items()})

    @property
    def queued(self) -> int:
        return sum(lane.queued for lane in self._lanes.values())

    @property
    def running(self) -> int:
        return sum(len(lane.running) for lane in self._lanes.values())

    def add(self, device: str, places: int) -> None:
        """A device takes work from now on. One of its name that has not ended yet all it ran is taken for it."""
        lane = self._lanes.setdefault(device, _Lane(places))
        lane.capacity, lane.is_open = places, True

    def remove(self, device: str) -> list[Action]:
        """A device takes no more work; what it runs goes on, what waits for it is gone."""
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
        """The work of each device."""
        return {
            name: DeviceBacklog(lane.queued, len(lane.running), lane.capacity, lane.pending)
            for name, lane in self._lanes.items()
            if lane.is_open
        }

    def is_running(self, job: ScheduledJob) -> bool:
        """Whether the job has a place."""
        lane = self._lanes.get(job.device)
        return lane is not None and job in lane.running

    def submit(self, job: ScheduledJob) -> list[Action]:
        """A job arrives.

        Raises:
            QueueFull: the job is not taken.
            NoLane: its device takes no work any more.
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
        retry_after = min(max(wait / 2, 0.1), _LONGEST_RETRY)
        if self.queued >= self.limit:
            raise QueueFull(f"{self.queued} operators wait already", retry_after)
        most = min(self.max_wait, job.deadline - job.arrived)
        if wait > most and not job.part:
            raise QueueFull(f"{wait:.1f} s of work are ahead, and it may wait for {most:.1f} s", retry_after)

    def finish(self, job: ScheduledJob, now: float, *, whole: bool) -> list[Action]:
        """A running job has ended; its place is free.

        Args:
            whole: whether all of its work was done; otherwise the time that it had its place tells nothing.
        """
        lane = self._lanes[job.device]
        seconds = now - lane.running.pop(job)
        if job.work and whole:
            lane.durations.learn(job.kind, job.work, max(seconds, 1e-6), job.plan)
        self._forget(job.device)
        return self._fill(lane, now)

    def withdraw(self, job: ScheduledJob) -> None:
        """Nobody wants a job that waits any more. A job that runs keeps its place until it is finished."""
        lane = self._lanes.get(job.device)
        if lane is not None:
            lane.withdraw(job)

    def expire(self, now: float) -> list[Action]:
        """Time has passed: jobs that waited beyond their deadline are gone."""
        late = [job for lane in self._lanes.values() for job in lane.waiting if job.deadline <= now]
        for job in late:
            self.withdraw(job)
        return [Expire(job) for job in late]

    def next_deadline(self) -> float | None:
        """When ``expire`` is worth calling again."""
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
