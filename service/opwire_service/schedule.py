"""Which job starts when, on which device: a pure state machine. Time is an argument, and starting a job is an action.

Jobs wait in the order of their arrival, each priority step below 0 counting as if the job had arrived half a second
later; so an urgent job overtakes, and no job waits for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

PRIORITY_STEP = 0.5
"""Seconds that a step of priority is worth."""

_SMOOTHING = 0.2
_LONGEST_RETRY = 60.0


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """Work for a device. Times are in seconds on the clock of the caller."""

    device: str
    priority: int
    arrived: float
    deadline: float


@dataclass(frozen=True, slots=True)
class Start:
    """The job has a place on its device from now on, until it is finished."""

    job: Job


@dataclass(frozen=True, slots=True)
class Expire:
    """The job's deadline passed while it waited; it is gone."""

    job: Job


Action = Start | Expire


class QueueFull(Exception):
    """No further job can wait; a new try is worthwhile after ``retry_after`` seconds."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"the queue is full; retry after {retry_after:.1f} s")
        self.retry_after = retry_after


@dataclass(slots=True)
class Schedule:
    """The jobs that wait and the jobs that run.

    Attributes:
        capacity: for each device the jobs that it runs at the same time.
        limit: the jobs that may wait, over all devices.
    """

    capacity: Mapping[str, int]
    limit: int
    running: dict[Job, float] = field(default_factory=dict)
    _queues: dict[str, list[tuple[float, int, Job]]] = field(default_factory=dict)
    _sequence: int = 0
    _duration: float = 0.0

    @property
    def queued(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def submit(self, job: Job) -> list[Action]:
        """A job arrives.

        Raises:
            QueueFull: the job is not taken.
        """
        if not self._has_room(job.device) and self.queued >= self.limit:
            raise QueueFull(self._retry_after())
        self._sequence += 1
        entry = (job.arrived + job.priority * PRIORITY_STEP, self._sequence, job)
        heappush(self._queues.setdefault(job.device, []), entry)
        return self._fill(job.device, job.arrived)

    def finish(self, job: Job, now: float) -> list[Action]:
        """A running job has ended, however it ended; its place is free."""
        seconds = now - self.running.pop(job)
        self._duration += _SMOOTHING * (seconds - self._duration) if self._duration else seconds
        return self._fill(job.device, now)

    def withdraw(self, job: Job) -> None:
        """Nobody wants a job that waits any more. A job that runs keeps its place until it is finished."""
        queue = self._queues.get(job.device, [])
        queue[:] = [entry for entry in queue if entry[2] is not job]
        heapify(queue)

    def expire(self, now: float) -> list[Action]:
        """Time has passed: jobs that waited beyond their deadline are gone."""
        late = [job for queue in self._queues.values() for _, _, job in queue if job.deadline <= now]
        for job in late:
            self.withdraw(job)
        return [Expire(job) for job in late]

    def next_deadline(self) -> float | None:
        """When ``expire`` is worth calling again."""
        return min((job.deadline for queue in self._queues.values() for _, _, job in queue), default=None)

    def _has_room(self, device: str) -> bool:
        return sum(job.device == device for job in self.running) < self.capacity[device]

    def _fill(self, device: str, now: float) -> list[Action]:
        actions: list[Action] = []
        queue = self._queues.get(device, [])
        while queue and self._has_room(device):
            job = heappop(queue)[2]
            if job.deadline <= now:
                actions.append(Expire(job))
            else:
                self.running[job] = now
                actions.append(Start(job))
        return actions

    def _retry_after(self) -> float:
        """The time in which about half of the queue drains, at the rate seen lately."""
        rate = sum(self.capacity.values()) / (self._duration or 0.1)
        return min(max(self.queued / rate / 2, 0.1), _LONGEST_RETRY)

    def __repr__(self) -> str:
        busy = {name: sum(job.device == name for job in self.running) for name in self.capacity}
        places = ", ".join(f"{name} {count}/{self.capacity[name]} busy" for name, count in busy.items())
        return f"<Schedule {self.queued} queued, {places}>"
