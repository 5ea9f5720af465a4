"""Placement of plans on the device expected to finish them first. Pure: time and measured costs are arguments.

The model is that a device runs its plans one after the other, as a single card does, and as kernels that use all cores
do. Plans that run concurrently are each charged a share of the time, so that the learned durations add up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp2, frexp, log2

from opwire.check import Plan

from ..devices import kind_of

HALF_LIFE = 60.0
"""Half-life of learned corrections in seconds, so that a device that was slow once is tried again."""

GAIN = 1.5
"""Factor by which a device that needs tensor transfers must be faster, since the host works for it too."""

_LEAST = 1e-7


@dataclass(frozen=True, slots=True)
class Demand:
    """The demand of a plan on a device.

    Attributes:
        kind: kind of computation; plans of one kind take equally long for equal work.
        bytes: total size of its tensors, which must be transferred to a card.
        work: number of element visits.
    """

    kind: str
    bytes: int
    work: int

    @classmethod
    def of(cls, plan: Plan) -> Demand:
        function = getattr(plan.attributes, "Function", None)
        kind = plan.operator.name.rstrip("12") if function is None else str(function.name)
        tensors = (*plan.inputs.values(), *plan.outputs.values())
        return cls(kind, sum(desc.data_size_in_bytes for desc in tensors), plan.work)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of running a plan on a device, in seconds.

    Attributes:
        fixed: cost per plan.
        per_byte: cost per byte of its tensors.
        per_visit: cost per element visit.
        kinds: cost per element visit by kind of computation; others take ``per_visit``.
    """

    fixed: float
    per_byte: float
    per_visit: float
    kinds: Mapping[str, float] = field(default_factory=dict)

    def seconds(self, demand: Demand) -> float:
        visit = self.kinds.get(demand.kind, self.per_visit)
        return max(_LEAST, self.fixed + demand.bytes * self.per_byte + demand.work * visit)


UNKNOWN = Cost(1e-4, 0.0, 1e-9)
"""Cost assumed for a device without measurements."""


@dataclass(slots=True)
class _Correction:
    """Binary logarithm of the recent ratio of actual to measured cost, decaying over time."""

    power: float
    at: float

    def now(self, now: float) -> float:
        return self.power * exp2((self.at - now) / HALF_LIFE)


@dataclass(slots=True)
class _Device:
    """The state of one device.

    Attributes:
        pool: pool of devices with which it shares corrections.
        cost: its measured cost.
        like: pool to fall back to while its own has no correction.
        is_open: whether it takes work.
        held: number of unfinished plans placed on it.
        expected: expected duration of those plans, in seconds.
        running: number of plans that are running.
        clock: time charged so far to each running plan, in seconds, accumulated since the start.
        at: time of the last charge.
        given: expected duration of all plans ever placed on it, in seconds.
    """

    pool: str
    cost: Cost
    like: str = ""
    is_open: bool = True
    held: int = 0
    expected: float = 0.0
    running: int = 0
    clock: float = 0.0
    at: float = 0.0
    given: float = 0.0

    def charge(self, now: float) -> None:
        if self.running:
            self.clock += (now - self.at) / self.running
        self.at = now


class Placement:
    """Tracks the plans placed on each device and how long they took.

    Args:
        costs: measured costs by device. Devices of one kind form a pool and share corrections.
    """

    def __init__(self, costs: Mapping[str, Cost]) -> None:
        self._devices = {name: _Device(kind_of(name), cost) for name, cost in costs.items()}
        self._learned: dict[tuple[str, str, int], _Correction] = {}

    def __contains__(self, device: str) -> bool:
        found = self._devices.get(device)
        return found is not None and found.is_open

    def add(self, device: str, cost: Cost, like: str) -> None:
        """Adds a device, in a pool of its own, since the transport cost differs for each.

        Args:
            device: name of the device.
            cost: its cost, transport included.
            like: pool whose corrections it uses until it has its own.
        """
        found = self._devices.setdefault(device, _Device(device, cost, like))
        found.cost, found.is_open = cost, True

    def remove(self, device: str) -> None:
        """Removes a device from placement; plans already placed on it continue."""
        self._devices[device].is_open = False
        self._forget(device)

    def _forget(self, device: str) -> None:
        found = self._devices[device]
        if not (found.is_open or found.held or found.running):
            del self._devices[device]
            for key in [key for key in self._learned if key[0] == device]:
                del self._learned[key]

    def seconds(self, device: str, demand: Demand, now: float) -> float:
        """Returns the expected duration of a plan that has the device to itself, in seconds."""
        found = self._devices[device]
        measured = found.cost.seconds(demand)
        learned = self._learned.get(_key(found.pool, demand, measured))
        if learned is None:
            learned = self._learned.get(_key(found.like, demand, measured))
        return measured if learned is None else measured * exp2(learned.now(now))

    def order(self, demand: Demand, now: float) -> list[str]:
        """Returns the devices by expected completion time, ties broken by the least work given so far.

        Devices that need tensor transfers must be faster by ``GAIN``, as the host cannot serve others meanwhile.
        """

        def completion(name: str) -> tuple[float, float]:
            device = self._devices[name]
            done = device.expected + self.seconds(name, demand, now)
            return done * GAIN if device.cost.per_byte else done, device.given

        return sorted((name for name, device in self._devices.items() if device.is_open), key=completion)

    def accept(self, device: str, demand: Demand, now: float) -> float:
        """Places a plan on a device. Returns its expected seconds, to be passed to ``release``."""
        seconds = self.seconds(device, demand, now)
        found = self._devices[device]
        found.held += 1
        found.expected += seconds
        found.given += seconds
        return seconds

    def release(self, device: str, seconds: float) -> None:
        """Releases a plan placed on a device, whether it ran or not."""
        found = self._devices[device]
        found.held -= 1
        found.expected = max(0.0, found.expected - seconds)
        self._forget(device)

    def start(self, device: str, now: float) -> float:
        """Records the start of a plan. Returns the value to pass to ``finish``."""
        found = self._devices[device]
        found.charge(now)
        found.running += 1
        return found.clock

    def finish(self, device: str, demand: Demand, started: float, now: float, *, whole: bool) -> None:
        """Records the end of a plan.

        Args:
            device: name of the device.
            demand: demand of the plan.
            started: return value of ``start``.
            now: current time.
            whole: whether the plan completed, so that its duration is meaningful.
        """
        found = self._devices[device]
        found.charge(now)
        found.running -= 1
        if not whole:
            self._forget(device)
            return
        measured = found.cost.seconds(demand)
        seen = log2(max(found.clock - started, _LEAST) / measured)
        for pool in filter(None, (found.pool, found.like)):
            learned = self._learned.setdefault(_key(pool, demand, measured), _Correction(0.0, now))
            power = learned.now(now)
            # Steps are bounded, as a single plan may have waited for a compiler.
            learned.power, learned.at = power + max(-1.0, min(1.0, (seen - power) / 2)), now
        self._forget(device)


def _key(pool: str, demand: Demand, measured: float) -> tuple[str, str, int]:
    """Returns the key of a correction. Plans of a kind share it within one factor-of-4 range of measured costs."""
    return pool, demand.kind, frexp(measured)[1] >> 1


def crossover(small: Cost, large: Cost, kind: str) -> int | None:
    """Returns the least power of two of FLOAT32 elements, each visited once, at which ``large`` is faster, if any."""
    for power in range(8, 33):
        demand = Demand(kind, 4 << power, 1 << power)
        if large.seconds(demand) < small.seconds(demand):
            return 1 << power
    return None
