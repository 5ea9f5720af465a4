"""What a server counts and times, in 64-bit cells: a row for each process, so that the sums are right for all of them.

A process writes to its own row alone and needs no lock. In shared memory a row outlives its process, and the process
that takes its place goes on counting where the last one ended.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import product
from random import getrandbits

import numpy as np
from numpy.typing import NDArray

from opwire.errors import ProblemCode
from opwire.graph import GRAPH
from opwire.schema import CATALOG

from .seats import NAME_CELLS, is_seat, name_cells, names, seat_label

STAGES = ("receive", "parse", "check", "decode", "queue", "run", "encode", "total")

OK = "ok"
CLIENT_GONE = "client_gone"
OUTCOMES = (OK, CLIENT_GONE, *(code.value for code in ProblemCode))
"""How a request may end: answered, given up by its client, or with the code of a problem."""

OTHER = "other"
"""The route of requests to none."""

BOUNDS = (
    *(100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000),
    *(1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000),
)
"""Upper bounds of the buckets of a histogram, in microseconds."""

_FIRST_BOUND = BOUNDS[0]

_BEATS, _INSTANCE, _STARTED = range(3)
"""Cells that belong to no metric: the sign of life of a process; and, in the first row only, a random number that tells
servers apart, and when the server started."""


class Kind(Enum):
    """What the cells of a metric mean."""

    COUNTER = auto()
    GAUGE = auto()
    HISTOGRAM = auto()


@dataclass(frozen=True, slots=True)
class Metric:
    """A row of the table of metrics; a histogram is in seconds.

    Attributes:
        name: without the suffix that the exposition gives counters.
        labels: the names of its labels.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()

    @property
    def cells(self) -> int:
        """Cells for one set of label values; a histogram has its sum, and then its buckets."""
        return len(BOUNDS) + 2 if self.kind is Kind.HISTOGRAM else 1


STAGE_SECONDS = Metric(
    "opwire_stage_seconds",
    Kind.HISTOGRAM,
    "Time of executed operators, by stage, in whole microseconds; total is from arrival to the encoded answer",
    ("operator", "stage"),
)
REQUEST_SECONDS = Metric(
    "opwire_request_seconds", Kind.HISTOGRAM, "Time from arrival to the last byte of the answer", ("route",)
)
REQUESTS = Metric("opwire_requests", Kind.COUNTER, "Requests that have ended, by how they did", ("route", "code"))
BATCH_RESULTS = Metric("opwire_batch_results", Kind.COUNTER, "Requests inside batches, by how they ended", ("code",))
CANCELLATIONS = Metric(
    "opwire_cancellations", Kind.COUNTER, "Operators given up because their client had gone, by stage", ("stage",)
)
PLAN_HITS = Metric("opwire_plan_cache_hits", Kind.COUNTER, "Requests whose operator desc had been checked before")
PLAN_MISSES = Metric("opwire_plan_cache_misses", Kind.COUNTER, "Requests whose operator desc had to be checked")
PLANS = Metric("opwire_plan_cache_size", Kind.GAUGE, "Checked operator descs that are kept")
PLANS_LIMIT = Metric("opwire_plan_cache_limit", Kind.GAUGE, "Checked operator descs that may be kept")
QUEUED = Metric("opwire_queued_operators", Kind.GAUGE, "Operators that wait", ("device",))
QUEUED_LIMIT = Metric("opwire_queued_operators_limit", Kind.GAUGE, "Operators that may wait, for all devices")
RUNNING = Metric("opwire_running_operators", Kind.GAUGE, "Operators that run in threads", ("device",))
RUNNING_LIMIT = Metric("opwire_running_operators_limit", Kind.GAUGE, "Operators that may run in threads", ("device",))
WORK = Metric("opwire_pending_work", Kind.GAUGE, "Element visits that wait or run", ("device",))
DEVICE_MEMORY = Metric(
    "opwire_device_memory_bytes", Kind.GAUGE, "Bytes of a device's own memory that accepted operators hold", ("device",)
)
DEVICE_MEMORY_LIMIT = Metric(
    "opwire_device_memory_limit_bytes",
    Kind.GAUGE,
    "Bytes that they may hold; 0 of a device without its own",
    ("device",),
)
DEVICE_KERNELS = Metric("opwire_device_kernels", Kind.GAUGE, "Kernels that are compiled and loaded", ("device",))
MEMORY = Metric("opwire_request_memory_bytes", Kind.GAUGE, "Bytes that requests hold: bodies, tensors and answers")
MEMORY_WAITING = Metric("opwire_requests_waiting_for_memory", Kind.GAUGE, "Requests that wait for memory")
MEMORY_LIMIT = Metric("opwire_request_memory_limit_bytes", Kind.GAUGE, "Bytes that requests may hold")
WORKERS = Metric("opwire_workers", Kind.GAUGE, "Processes that serve")
WORKER_RESTARTS = Metric("opwire_worker_restarts", Kind.COUNTER, "Processes that ended unasked and were replaced")

METRICS = (
    *(STAGE_SECONDS, REQUEST_SECONDS, REQUESTS, BATCH_RESULTS, CANCELLATIONS, PLAN_HITS, PLAN_MISSES, PLANS),
    *(PLANS_LIMIT, QUEUED, QUEUED_LIMIT, RUNNING, RUNNING_LIMIT, WORK, MEMORY, MEMORY_LIMIT, MEMORY_WAITING),
    *(DEVICE_MEMORY, DEVICE_MEMORY_LIMIT, DEVICE_KERNELS, WORKERS, WORKER_RESTARTS),
)

DEVICE_METRICS = tuple(metric for metric in METRICS if metric.labels == ("device",))
"""The metrics of single devices, all of them gauges."""

OPERATORS = (*CATALOG, GRAPH.name)
"""The labels of what is counted by operator: all operator types, and graphs."""


class Layout:
    """Where the cells of each metric are in a row; the same in all processes of a server.

    Args:
        further: cells that are no metrics.
        seats: places for devices that come and go, whose names each row has for itself.

    Attributes:
        size: cells of a row.
        further: the first of the further cells.
        seats: see above.
        names: the first cell of the names.
    """

    def __init__(self, devices: Sequence[str], routes: Sequence[str], further: int = 0, seats: int = 0) -> None:
        values = {
            "operator": OPERATORS,
            "stage": STAGES,
            "route": (*routes, OTHER),
            "code": OUTCOMES,
            "device": (*devices, *map(seat_label, range(seats))),
        }
        self._places: dict[Metric, dict[tuple[str, ...], int]] = {}
        self.size = _STARTED + 1
        for metric in METRICS:
            places = self._places[metric] = {}
            for labels in product(*(values[label] for label in metric.labels)):
                places[labels] = self.size
                self.size += metric.cells
        self.further = self.size
        self.size += further
        self.seats = seats
        self.names = self.size
        self.size += seats * NAME_CELLS

    def places(self, metric: Metric) -> Mapping[tuple[str, ...], int]:
        """The first cell of a metric, for each set of label values."""
        return self._places[metric]

    def row_bytes(self) -> int:
        """The memory of a row."""
        return self.size * 8


@dataclass(frozen=True, slots=True)
class Sample:
    """The value for one set of label values, summed over all processes.

    Attributes:
        sum: of a histogram, in microseconds.
        buckets: of a histogram, not cumulated; the last has no upper bound.
    """

    labels: tuple[str, ...]
    value: int
    sum: int = 0
    buckets: tuple[int, ...] = ()


@dataclass(slots=True)
class _Route:
    """The cells of a route, found once."""

    seconds: int
    outcomes: dict[str, int] = field(default_factory=dict)


class Metrics:
    """The metrics of a process, and its view of those of the others.

    Args:
        layout: of each row.
        memory: the rows of all processes; without it the process is alone.
        row: of this process.

    Attributes:
        cells: the row of this process.
    """

    def __init__(self, layout: Layout, memory: memoryview | None = None, row: int = 0) -> None:
        is_alone = memory is None
        if memory is None:
            memory = memoryview(bytearray(layout.row_bytes()))
        self.layout = layout
        self.row = row
        self._memory = memory
        start = row * layout.row_bytes()
        self.cells = memory[start : start + layout.row_bytes()].cast("q")
        if is_alone:
            self.begin()
        self._seen: dict[int, int] = {}
        self._seats: dict[str, int] = {}
        self._stages: dict[str, dict[str, int]] = {}
        for (operator, stage), place in layout.places(STAGE_SECONDS).items():
            self._stages.setdefault(operator, {})[stage] = place
        self._routes = {route: _Route(place) for (route,), place in layout.places(REQUEST_SECONDS).items()}
        for (route, code), place in layout.places(REQUESTS).items():
            self._routes[route].outcomes[code] = place

    def begin(self) -> None:
        """A server starts to count: one process of it says so."""
        self.cells[_INSTANCE] = getrandbits(32)
        self.cells[_STARTED] = round(time.time() * 1000)

    def executed(self, operator: str, timing: Mapping[str, int]) -> None:
        """An operator was executed; ``timing`` has microseconds by stage."""
        cells = self.cells
        places = self._stages[operator]
        for stage, microseconds in timing.items():
            place = places[stage]
            # Most stages are over within the first bound, and the search would be half of the cost.
            if microseconds > _FIRST_BOUND:
                cells[place + 1 + bisect_left(BOUNDS, microseconds)] += 1
            else:
                cells[place + 1] += 1
            if microseconds:
                cells[place] += microseconds

    def ended(self, route: str, code: str, microseconds: int) -> None:
        """A request has ended; ``code`` is one of OUTCOMES. A route that is not in the layout counts as OTHER."""
        cells = self.cells
        places = self._routes.get(route) or self._routes[OTHER]
        cells[places.outcomes[code]] += 1
        place = places.seconds
        cells[place] += microseconds
        cells[place + 1 + (bisect_left(BOUNDS, microseconds) if microseconds > _FIRST_BOUND else 0)] += 1

    def add(self, metric: Metric, *labels: str) -> None:
        """Counts one."""
        self.cells[self.layout.places(metric)[labels]] += 1

    def set(self, metric: Metric, value: int, *labels: str) -> None:
        """Sets a gauge."""
        labels = tuple(seat_label(self._seats[label]) if label in self._seats else label for label in labels)
        self.cells[self.layout.places(metric)[labels]] = value

    def seat(self, device: str) -> bool:
        """A device has come, and is counted from now on. Returns whether there was a place for it."""
        if device in self._seats:
            return True
        taken = self._seats.values()
        free = next((number for number in range(self.layout.seats) if number not in taken), None)
        if free is None:
            return False
        self._seats[device] = free
        self._name(free, device)
        return True

    def unseat(self, device: str) -> None:
        """A device has gone."""
        number = self._seats.pop(device, None)
        if number is None:
            return
        for metric in DEVICE_METRICS:
            self.cells[self.layout.places(metric)[seat_label(number),]] = 0
        self._name(number, "")

    def _name(self, number: int, name: str) -> None:
        start = self.layout.names + number * NAME_CELLS
        for cell, value in enumerate(name_cells(name), start):
            self.cells[cell] = value

    def follow(self, metric: Metric, total: int, *labels: str) -> None:
        """Brings a counter up to a total that this process keeps elsewhere, from 0 at its start."""
        place = self.layout.places(metric)[labels]
        self.cells[place] += total - self._seen.get(place, 0)
        self._seen[place] = total

    def beat(self) -> None:
        """This process lives."""
        self.cells[_BEATS] += 1

    def beats(self, row: int) -> int:
        """How often the processes of a row have shown that they live."""
        start = row * self.layout.row_bytes()
        return self._memory[start : start + self.layout.row_bytes()].cast("q")[_BEATS]

    def clear_gauges(self, row: int) -> None:
        """The process of a row has ended: it holds nothing any more."""
        start = row * self.layout.row_bytes()
        cells = self._memory[start : start + self.layout.row_bytes()].cast("q")
        for metric in METRICS:
            if metric.kind is Kind.GAUGE:
                for place in self.layout.places(metric).values():
                    cells[place] = 0
        for place in range(self.layout.names, self.layout.size):
            cells[place] = 0

    def release(self) -> None:
        """Lets go of the memory; nothing can be counted any more."""
        self.cells.release()
        self._memory.release()

    def rows(self) -> NDArray[np.int64]:
        """The rows of all processes; nobody may keep them, since ``release`` fails while they are in use."""
        cells: NDArray[np.int64] = np.frombuffer(self._memory, np.int64)
        # A mapping is as long as whole pages are.
        whole = len(cells) // self.layout.size
        return cells[: whole * self.layout.size].reshape(whole, -1)

    def totals(self) -> Totals:
        """What all processes together have counted, until now."""
        rows = self.rows()
        return Totals(self.layout, rows.sum(axis=0), seated(self.layout, rows))

    def collect(self) -> Iterator[tuple[Metric, list[Sample]]]:
        """Every metric, summed over the rows; of labelled counters and histograms only what is not zero."""
        rows = self.rows()
        totals: list[int] = rows.sum(axis=0).tolist()
        comers = seated(self.layout, rows)
        for metric in METRICS:
            places = self.layout.places(metric).items()
            samples = [_sample(metric, labels, totals, place) for labels, place in places if not is_seat(labels)]
            samples += [Sample((name,), counted[metric]) for name, counted in comers.items() if metric in counted]
            every = metric.kind is Kind.GAUGE or not metric.labels
            yield metric, [sample for sample in samples if every or sample.value]


class Totals:
    """The sums of all rows at a moment.

    Attributes:
        instance: tells the server from others; the same in all its processes.
        started: when it started, in seconds since the epoch.
        comers: the gauges of the devices that come and go, see ``seated``.
    """

    def __init__(
        self, layout: Layout, cells: NDArray[np.int64], comers: Mapping[str, Mapping[Metric, int]] | None = None
    ) -> None:
        self.comers = comers or {}
        self._layout = layout
        self._cells = cells
        self.instance = f"{int(cells[_INSTANCE]):08x}"
        self.started = int(cells[_STARTED]) / 1000

    def value(self, metric: Metric, *labels: str) -> int:
        """The value of a counter or a gauge."""
        if labels and labels[0] in self.comers:
            return self.comers[labels[0]][metric]
        return int(self._cells[self._layout.places(metric)[labels]])

    def stages(self) -> NDArray[np.int64]:
        """The durations of stages, by operator, stage and cell: the sum in microseconds, then the buckets."""
        places = self._layout.places(STAGE_SECONDS)
        start = next(iter(places.values()), 0)
        size = len(places) * STAGE_SECONDS.cells
        return self._cells[start : start + size].reshape(-1, len(STAGES), STAGE_SECONDS.cells)

    def requests(self) -> dict[str, NDArray[np.int64]]:
        """How often the requests to each route ended, in the order of ``OUTCOMES``."""
        places = self._layout.places(REQUESTS)
        starts = {route: place for (route, code), place in places.items() if code == OUTCOMES[0]}
        return {route: self._cells[place : place + len(OUTCOMES)] for route, place in starts.items()}


def seated(layout: Layout, rows: NDArray[np.int64]) -> dict[str, dict[Metric, int]]:
    """The gauges of the devices that are there at the moment and may go, by name, summed over the rows."""
    found: dict[str, dict[Metric, int]] = {}
    for row in rows:
        for number, name in names(row[layout.names : layout.size]):
            counted = found.setdefault(name, dict.fromkeys(DEVICE_METRICS, 0))
            for metric in DEVICE_METRICS:
                counted[metric] += int(row[layout.places(metric)[seat_label(number),]])
    return found


def _sample(metric: Metric, labels: tuple[str, ...], totals: Sequence[int], place: int) -> Sample:
    if metric.kind is not Kind.HISTOGRAM:
        return Sample(labels, totals[place])
    buckets = tuple(totals[place + 1 : place + metric.cells])
    return Sample(labels, sum(buckets), totals[place], buckets)
