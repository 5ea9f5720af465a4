"""Which device a plan goes to: the one expected to be done with it first. Pure: time and measured costs are arguments.

A device is taken to do its plans one after the other, as one card and its bus do, and as kernels that use all cores do.
Of plans that run at the same time each is charged its part of the time, so that what is learned adds up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp2, frexp, log2

from opwire.check import Plan

from ..devices import kind_of

HALF_LIFE = 60.0
"""Seconds in which half of what was learned is forgotten, so that a device that fared badly is tried again."""

GAIN = 1.5
"""How many times sooner a device must be done for which the host works too, because it sends it the tensors."""

_LEAST = 1e-7


@dataclass(frozen=True, slots=True)
class Demand:
    """What a plan asks of a device.

    Attributes:
        kind: of the computation: plans of one kind take equally long for equally much.
        bytes: of its tensors, which a card has to be sent.
        work: element visits.
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
    """The seconds that a device takes: for any plan, for each byte, and for each element visit.

    Attributes:
        kinds: seconds for each element visit of a kind; ``per_visit`` holds for the others.
    """

    fixed: float
    per_byte: float
    per_visit: float
    kinds: Mapping[str, float] = field(default_factory=dict)

    def seconds(self, demand: Demand) -> float:
        visit = self.kinds.get(demand.kind, self.per_visit)
        return max(_LEAST, self.fixed + demand.bytes * self.per_byte + demand.work * visit)


UNKNOWN = Cost(1e-4, 0.0, 1e-9)
"""The cost on a device of which nothing is known."""


@dataclass(slots=True)
class _Correction:
    """By which power of two plans take longer than their measured cost, as seen recently."""

    power: float
    at: float

    def now(self, now: float) -> float:
        return self.power * exp2((self.at - now) / HALF_LIFE)


@dataclass(slots=True)
class _Device:
    """A device: what it was given, and how many plans share it.

    Attributes:
        pool: with which it shares what was learned.
        like: a pool whose knowledge holds where its own has none.
        is_open: whether it takes work.
        held: plans that it was given and that are not over.
        expected: seconds of those.
        clock: seconds that each of the plans that run has been charged since the beginning.
        at: up to when.
        given: seconds of all plans that it was ever given.
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
    """Keeps what devices were given and how long they took.

    Args:
        costs: as measured ahead, by device. Devices of a kind are one pool, whose members learn from each other.
    """

    def __init__(self, costs: Mapping[str, Cost]) -> None:
        self._devices = {name: _Device(kind_of(name), cost) for name, cost in costs.items()}
        self._learned: dict[tuple[str, str, int], _Correction] = {}

    def __contains__(self, device: str) -> bool:
        found = self._devices.get(device)
        return found is not None and found.is_open

    def add(self, device: str, cost: Cost, like: str) -> None:
        """A device takes plans from now on.

        Args:
            like: the devices from which it learns until it has run something itself: the way to it is its own.
        """
        found = self._devices.setdefault(device, _Device(device, cost, like))
        found.cost, found.is_open = cost, True

    def remove(self, device: str) -> None:
        """A device takes no more plans; those that it was given end."""
        self._devices[device].is_open = False
        self._forget(device)

    def _forget(self, device: str) -> None:
        found = self._devices[device]
        if not (found.is_open or found.held or found.running):
            del self._devices[device]
            for key in [key for key in self._learned if key[0] == device]:
                del self._learned[key]

    def seconds(self, device: str, demand: Demand, now: float) -> float:
        """The expected duration of a plan that has the device to itself."""
        found = self._devices[device]
        measured = found.cost.seconds(demand)
        learned = self._learned.get(_key(found.pool, demand, measured))
        if learned is None:
            learned = self._learned.get(_key(found.like, demand, measured))
        return measured if learned is None else measured * exp2(learned.now(now))

    def order(self, demand: Demand, now: float) -> list[str]:
        """The devices, the one first that is expected to be done first; of equals the one that was given less.

        When much is to be done, what the host does for a card it cannot do for other requests: see ``GAIN``.
        """

        def completion(name: str) -> tuple[float, float]:
            device = self._devices[name]
            done = device.expected + self.seconds(name, demand, now)
            return done * GAIN if device.cost.per_byte else done, device.given

        return sorted((name for name, device in self._devices.items() if device.is_open), key=completion)

    def accept(self, device: str, demand: Demand, now: float) -> float:
        """The device is given a plan. Returns the seconds that it is expected to take, for ``release``."""
        seconds = self.seconds(device, demand, now)
        found = self._devices[device]
        found.held += 1
        found.expected += seconds
        found.given += seconds
        return seconds

    def release(self, device: str, seconds: float) -> None:
        """A plan that the device was given is over, whether it ran or not."""
        found = self._devices[device]
        found.held -= 1
        found.expected = max(0.0, found.expected - seconds)
        self._forget(device)

    def start(self, device: str, now: float) -> float:
        """A plan starts to run. Returns what ``finish`` wants to know."""
        found = self._devices[device]
        found.charge(now)
        found.running += 1
        return found.clock

    def finish(self, device: str, demand: Demand, started: float, now: float, *, whole: bool) -> None:
        """A plan has ended.

        Args:
            started: from ``start``.
            whole: all of it was done, so that its duration tells how fast the device is.
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
            # A step is bounded: one plan that waited for a compiler says little.
            learned.power, learned.at = power + max(-1.0, min(1.0, (seen - power) / 2)), now
        self._forget(device)


def _key(pool: str, demand: Demand, measured: float) -> tuple[str, str, int]:
    """Plans of a kind that take within four times as long share what was learned."""
    return pool, demand.kind, frexp(measured)[1] >> 1


def crossover(small: Cost, large: Cost, kind: str) -> int | None:
    """The fewest FLOAT32 elements, each visited once, for which ``large`` is faster: a power of two, None if never."""
    for power in range(8, 33):
        demand = Demand(kind, 4 << power, 1 << power)
        if large.seconds(demand) < small.seconds(demand):
            return 1 << power
    return None
