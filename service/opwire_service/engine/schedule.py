"""Which job starts when, on which device: a pure state machine. Time is an argument, and starting a job is an action.

A job waits as if it had arrived later by its expected duration and by half a second for each step of priority below the
highest. So what is urgent or short overtakes what is neither, and no job waits for ever. Of the places on a device one
is kept from long jobs, so that short ones never wait for all of them.

A queue takes bursts up to its limit. Where it stands for longer than that, more arrives than can be done: a job is
then taken only if what is ahead of it is expected to be done soon, in about the time that the job itself takes. So
those that are taken do not wait for long, and the others are told at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from .durations import Durations
from .patience import BURST, WAIT, Patience, QueueFull

PRIORITY_STEP = 0.5
"""Seconds that a step of priority is worth."""

LONG = 0.05
"""Seconds from which on a job counts as long."""

_LONGEST_HANDICAP = 10.0
_LONGEST_RETRY = 60.0


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """Work for a device: times in seconds on the clock of the caller, ``work`` in element visits.

    ``kind`` says which jobs take about as long for as much work: those of one operator. A ``part`` belongs to something
    that was taken before, and is not refused for what is ahead of it.
    """

    device: str
    priority: int
    arrived: float
    deadline: float
    work: int = 0
    kind: str = ""
    part: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """The job has a place on its device from now on, until it is finished."""

    job: Job


@dataclass(frozen=True, slots=True)
class Expire:
    """The job's deadline passed while it waited; it is gone."""

    job: Job


Action = Start | Expire


@dataclass(frozen=True, slots=True)
class Load:
    """What a device has to do: jobs that wait and run, its places, and the element visits of those jobs."""

    queued: int
    running: int
    capacity: int
    pending: int


class _Waiting(NamedTuple):
    """A job in the queue: when it is due, so that the order is that of these tuples, and how long it should take."""

    start: float
    sequence: int
    job: Job
    seconds: float


@dataclass(slots=True)
class _Lane:
    """One device: its places, who waits for them, and how fast it has been of late."""

    capacity: int
    patience: Patience
    running: dict[Job, float] = field(default_factory=dict)
    waiting: list[_Waiting] = field(default_factory=list)
    long_running: int = 0
    durations: Durations = field(default_factory=Durations)

    def seconds(self, job: Job) -> float:
        """The expected duration of a job."""
        return self.durations.expected(job.kind, job.work)

    def has_room(self, *, long: bool) -> bool:
        """Whether a job may start; of several places one is kept from long jobs."""
        return len(self.running) < self.capacity and not (long and self.long_running >= max(1, self.capacity - 1))

    @property
    def pending(self) -> int:
        """Element visits that wait or run."""
        return sum(job.work for job in self.running) + sum(entry.job.work for entry in self.waiting)

    @property
    def drain(self) -> float:
        """Seconds in which all that waits or runs is expected to be done."""
        running = sum(map(self.seconds, self.running))
        return (running + sum(entry.seconds for entry in self.waiting)) / self.capacity

    def wait(self, start: float, *, long: bool) -> float:
        """Seconds that those take who are in the queue, ahead of a job with this place in it.

        Long jobs have all places but one, which those that are not long have always.
        """
        if long:
            ahead = sum(entry.seconds for entry in self.waiting if entry.start <= start)
            return ahead / max(1, self.capacity - 1)
        alone = self.capacity > 1
        ahead = sum(entry.seconds for entry in self.waiting if entry.start <= start and not (alone and _long(entry)))
        return ahead / max(1, self.capacity - self.long_running)

    def note(self, now: float) -> None:
        """The queue may have become longer or shorter."""
        self.patience.note(now, standing=len(self.waiting) >= self.capacity)


def _long(entry: _Waiting) -> bool:
    return entry.seconds > LONG


@dataclass(slots=True)
class Schedule:
    """The jobs that wait and the jobs that run.

    Attributes:
        limit: the jobs that may wait, over all devices.
        work_limit: the element visits that may wait and run, over all devices; a job alone may exceed it.
    """

    limit: int
    work_limit: int
    _lanes: dict[str, _Lane] = field(default_factory=dict)
    _sequence: int = 0
    _long: set[Job] = field(default_factory=set)

    @classmethod
    def of(
        cls,
        capacity: Mapping[str, int],
        limit: int,
        work_limit: int = 2**62,
        burst: float = BURST,
        wait: float = WAIT,
    ) -> Schedule:
        """A schedule for devices that each run so many jobs at the same time.

        Args:
            burst, wait: seconds, see Patience.
        """
        return cls(limit, work_limit, {name: _Lane(places, Patience(burst, wait)) for name, places in capacity.items()})

    @property
    def queued(self) -> int:
        return sum(len(lane.waiting) for lane in self._lanes.values())

    @property
    def running(self) -> int:
        return sum(len(lane.running) for lane in self._lanes.values())

    def loads(self) -> dict[str, Load]:
        """What each device has to do."""
        return {
            name: Load(len(lane.waiting), len(lane.running), lane.capacity, lane.pending)
            for name, lane in self._lanes.items()
        }

    def is_running(self, job: Job) -> bool:
        """Whether the job has a place."""
        return job in self._lanes[job.device].running

    def submit(self, job: Job) -> list[Action]:
        """A job arrives.

        Raises:
            QueueFull: the job is not taken.
        """
        lane = self._lanes[job.device]
        seconds = lane.seconds(job)
        start = job.arrived + min(seconds, _LONGEST_HANDICAP) + job.priority * PRIORITY_STEP
        is_long = seconds > LONG
        if not lane.has_room(long=is_long):
            lane.note(job.arrived)
            takes = (
                job.part or lane.patience.lets_stand or lane.patience.admits(lane.wait(start, long=is_long), seconds)
            )
            if not takes or self.queued >= self.limit:
                raise QueueFull(self.retry_after())
        pending = sum(lane.pending for lane in self._lanes.values())
        if pending and pending + job.work > self.work_limit:
            raise QueueFull(self.retry_after())
        self._sequence += 1
        heappush(lane.waiting, _Waiting(start, self._sequence, job, seconds))
        if is_long:
            self._long.add(job)
        return self._fill(lane, job.arrived)

    def finish(self, job: Job, now: float, *, whole: bool = True) -> list[Action]:
        """A running job has ended; its place is free.

        Args:
            whole: all of its work was done, so that its duration tells how fast the device is.
        """
        lane = self._lanes[job.device]
        seconds = max(now - lane.running.pop(job), 1e-6)
        if job.work and whole:
            lane.durations.learn(job.kind, job.work, seconds)
        if job in self._long:
            self._long.discard(job)
            lane.long_running -= 1
        return self._fill(lane, now)

    def withdraw(self, job: Job) -> None:
        """Nobody wants a job that waits any more. A job that runs keeps its place until it is finished."""
        waiting = self._lanes[job.device].waiting
        waiting[:] = [entry for entry in waiting if entry.job is not job]
        heapify(waiting)
        if not self.is_running(job):
            self._long.discard(job)

    def expire(self, now: float) -> list[Action]:
        """Time has passed: jobs that waited beyond their deadline are gone."""
        late = [job for lane in self._lanes.values() for _, _, job, _ in lane.waiting if job.deadline <= now]
        for job in late:
            self.withdraw(job)
        return [Expire(job) for job in late]

    def next_deadline(self) -> float | None:
        """When ``expire`` is worth calling again."""
        return min((job.deadline for lane in self._lanes.values() for _, _, job, _ in lane.waiting), default=None)

    def retry_after(self) -> float:
        """The seconds in which about half of what waits is done, at the rate seen of late."""
        drain = max(lane.drain for lane in self._lanes.values())
        return min(max(drain / 2, 0.1), _LONGEST_RETRY)

    def _fill(self, lane: _Lane, now: float) -> list[Action]:
        actions: list[Action] = []
        passed: list[_Waiting] = []
        while lane.waiting and len(lane.running) < lane.capacity:
            entry = heappop(lane.waiting)
            job = entry.job
            if job.deadline <= now:
                self._long.discard(job)
                actions.append(Expire(job))
            elif not lane.has_room(long=job in self._long):
                passed.append(entry)
            else:
                lane.running[job] = now
                lane.long_running += job in self._long
                actions.append(Start(job))
        for entry in passed:
            heappush(lane.waiting, entry)
        lane.note(now)
        return actions

    def __repr__(self) -> str:
        places = ", ".join(f"{name} {len(lane.running)}/{lane.capacity} busy" for name, lane in self._lanes.items())
        return f"<Schedule {self.queued} queued, {places}>"
