"""Which job starts when, on which device: a pure state machine. Time is an argument, and starting a job is an action.

A job waits as if it had arrived later by its expected duration and by half a second for each step of priority below the
highest. So what is urgent or short overtakes what is neither, and no job waits for ever. Of the places on a device one
is kept from long jobs, so that short ones never wait for all of them.

A queue takes bursts up to its limit. Where it has not been empty for a while, more arrives than can be done: a job is
then taken only if few are ahead of it, so that those that are taken do not wait for long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

PRIORITY_STEP = 0.5
"""Seconds that a step of priority is worth."""

LONG = 0.05
"""Seconds from which on a job counts as long."""

BURST = 0.25
"""Seconds for which a queue may stand before it is kept short."""

STANDING = 16
"""Jobs for each place that may be ahead of a new one in a queue that stands."""

_LONGEST_HANDICAP = 10.0
_SMOOTHING = 0.2
_FIRST_RATE = 1e7
_LONGEST_RETRY = 60.0


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """Work for a device: times in seconds on the clock of the caller, ``work`` in element visits."""

    device: str
    priority: int
    arrived: float
    deadline: float
    work: int = 0


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


class QueueFull(Exception):
    """No further job can wait; a new try is worthwhile after ``retry_after`` seconds."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"the queue is full; retry after {retry_after:.1f} s")
        self.retry_after = retry_after


@dataclass(slots=True)
class _Lane:
    """One device: its places, who waits for them, since when somebody does, and how fast it has been of late."""

    capacity: int
    running: dict[Job, float] = field(default_factory=dict)
    waiting: list[tuple[float, int, Job]] = field(default_factory=list)
    long_running: int = 0
    rate: float = _FIRST_RATE
    standing_since: float = 0.0

    def seconds(self, work: int) -> float:
        """The expected duration of work."""
        return work / self.rate

    def has_room(self, *, long: bool) -> bool:
        """Whether a job may start; of several places one is kept from long jobs."""
        return len(self.running) < self.capacity and not (long and self.long_running >= max(1, self.capacity - 1))

    @property
    def pending(self) -> int:
        """Element visits that wait or run."""
        return sum(job.work for job in self.running) + sum(job.work for _, _, job in self.waiting)

    def is_swamped(self, start: float, now: float) -> bool:
        """Whether a job with this place in the queue would wait for long."""
        most = STANDING * self.capacity
        if len(self.waiting) < most or now - self.standing_since < BURST:
            return False
        return sum(entry[0] <= start for entry in self.waiting) >= most


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
    def of(cls, capacity: Mapping[str, int], limit: int, work_limit: int = 2**62) -> Schedule:
        """A schedule for devices that each run so many jobs at the same time."""
        return cls(limit, work_limit, {name: _Lane(places) for name, places in capacity.items()})

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
        handicap = min(lane.seconds(job.work), _LONGEST_HANDICAP) + job.priority * PRIORITY_STEP
        start = job.arrived + handicap
        if not lane.waiting:
            lane.standing_since = job.arrived
        is_long = lane.seconds(job.work) > LONG
        must_wait = not lane.has_room(long=is_long)
        full = must_wait and (self.queued >= self.limit or lane.is_swamped(start, job.arrived))
        pending = sum(lane.pending for lane in self._lanes.values())
        if full or (pending and pending + job.work > self.work_limit):
            raise QueueFull(self.retry_after())
        self._sequence += 1
        heappush(lane.waiting, (start, self._sequence, job))
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
            lane.rate += _SMOOTHING * (job.work / seconds - lane.rate)
        if job in self._long:
            self._long.discard(job)
            lane.long_running -= 1
        return self._fill(lane, now)

    def withdraw(self, job: Job) -> None:
        """Nobody wants a job that waits any more. A job that runs keeps its place until it is finished."""
        waiting = self._lanes[job.device].waiting
        waiting[:] = [entry for entry in waiting if entry[2] is not job]
        heapify(waiting)
        if not self.is_running(job):
            self._long.discard(job)

    def expire(self, now: float) -> list[Action]:
        """Time has passed: jobs that waited beyond their deadline are gone."""
        late = [job for lane in self._lanes.values() for _, _, job in lane.waiting if job.deadline <= now]
        for job in late:
            self.withdraw(job)
        return [Expire(job) for job in late]

    def next_deadline(self) -> float | None:
        """When ``expire`` is worth calling again."""
        return min((job.deadline for lane in self._lanes.values() for _, _, job in lane.waiting), default=None)

    def retry_after(self) -> float:
        """The seconds in which about half of what waits is done, at the rate seen of late."""
        drain = max(lane.seconds(lane.pending) / lane.capacity for lane in self._lanes.values())
        return min(max(drain / 2, 0.1), _LONGEST_RETRY)

    def _fill(self, lane: _Lane, now: float) -> list[Action]:
        actions: list[Action] = []
        passed: list[tuple[float, int, Job]] = []
        while lane.waiting and len(lane.running) < lane.capacity:
            entry = heappop(lane.waiting)
            job = entry[2]
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
        return actions

    def __repr__(self) -> str:
        places = ", ".join(f"{name} {len(lane.running)}/{lane.capacity} busy" for name, lane in self._lanes.items())
        return f"<Schedule {self.queued} queued, {places}>"
