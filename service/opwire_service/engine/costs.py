"""The cost of work on each device, in seconds: guessed at first, then learned from runs.

Admission, placement and the choice of a thread all ask this module.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from opwire.check import Plan
from opwire.fields import NestedOperator, ScaleBias
from opwire.tensor import BufferTensorDesc, packed_strides

from ..devices import kind_of
from ..devices.base import Device

K = TypeVar("K")

INLINE_SECONDS = 0.002
"""Duration above which a plan is moved from the event loop's thread to the thread pool, in seconds."""

FRESH_SECONDS = 60.0
"""Age up to which placement trusts a measurement, so that a device that was slow once is tried again."""

_SMOOTHING = 0.2
_OUTLIER_FACTOR = 2.0
"""A run counts at most this many times its expected duration, as one that took far longer was delayed by chance."""

_KINDS = 1024
"""Maximum number of kinds kept; the oldest is evicted."""

_DEPTHS = 4
"""Number of powers of two, of work per output element, that count as one kind."""

_SHORT = 16
"""Contiguous elements below which a row is short: its fixed cost outweighs that of its elements."""


@dataclass(frozen=True, slots=True)
class Guess:
    """The cost assumed for work that has not been measured, in seconds. New kinds of work may touch much new memory.

    Attributes:
        fixed: cost per plan.
        per_byte: cost per byte of its tensors, which are transferred to the device.
        per_visit: cost per element visit.
    """

    fixed: float = 0.0
    per_byte: float = 0.0
    per_visit: float = 1e-9

    def seconds(self, demand: Demand) -> float:
        return self.fixed + demand.bytes * self.per_byte + demand.work * self.per_visit


CARD = Guess(3e-4, 1.2e-10, 2e-12)
"""Guess for a GPU."""


def guess_of(kind: str, fixed: float = 0.0, per_byte: float = 0.0) -> Guess:
    """Returns the guess for a kind of device, with the cost of transport to it."""
    own = CARD if kind == "cuda" else Guess()
    return Guess(own.fixed + fixed, own.per_byte + per_byte, own.per_visit)


class Demand(NamedTuple):
    """What a plan demands of a device.

    Attributes:
        kind: key shared by plans that take about equally long for equal work.
        work: number of element visits.
        bytes: total size of its tensors.
    """

    kind: str
    work: int
    bytes: int = 0

    @classmethod
    def of(cls, plan: Plan, device: Device) -> Demand:
        tensors = (*plan.inputs.values(), *plan.outputs.values())
        size = sum(desc.data_size_in_bytes for desc in tensors)
        return cls(kind_of_work(plan, device.method(plan)), device.visits(plan), size)


MARGIN = 3**0.5
"""Factor on the expected duration that 95 % of all runs stay within."""


def at_most(expected: float) -> float:
    """Returns an upper bound for the duration of a single run, in seconds.

    95 % of runs take no longer, and 95 % take at least a third of it. For many runs together, the sum of their expected
    durations is the better estimate.
    """
    return MARGIN * expected


def kind_of_work(plan: Plan, method: str = "") -> str:
    """Returns a key shared by plans that take about equally long for equal work.

    It consists of operator, data types, layouts of rows, modes, the direction of the axes, and the magnitude of work
    per output element. Modes include what is fused: a scale and bias, or an activation.

    Args:
        plan: the plan.
        method: how a device computes it, see ``Device.method``.
    """
    attributes = plan.attributes
    names = getattr(attributes, "__dataclass_fields__", None) or vars(attributes)
    modes = filter(None, (_mode(name, getattr(attributes, name)) for name in names))
    descs = [*plan.inputs.values(), *plan.outputs.values()]
    types = dict.fromkeys(desc.data_type.name for desc in descs)
    layouts = "".join(map(_layout, descs))
    written = sum(desc.element_count for desc in plan.outputs.values())
    depth = (plan.work // written).bit_length() // _DEPTHS
    return " ".join([plan.operator.name, *types, layouts, *modes, _along(plan), str(depth), method])


def _mode(name: str, value: object) -> str:
    if isinstance(value, ScaleBias):
        return name
    return value.name if isinstance(value, Enum | NestedOperator) else ""


def _along(plan: Plan) -> str:
    """Returns whether the plan's axes, if it has any, include the last one."""
    axis = getattr(plan.attributes, "Axis", None)
    axes = getattr(plan.attributes, "Axes", ()) if axis is None else (axis,)
    last = next(iter(plan.outputs.values())).rank - 1
    return "" if not axes else "rows" if last in axes else "columns"


def _layout(desc: BufferTensorDesc) -> str:
    """Returns the layout's letter: (p)acked, (n)ear or (s)hort contiguous rows, (r)epeated, or strided (a)part."""
    if desc.strides is None:
        return "p"
    steps = zip(desc.sizes, desc.strides, packed_strides(desc.sizes), strict=True)
    moving = [each for each in steps if each[0] > 1]
    row = 1
    for size, stride, packed in reversed(moving):
        if stride != packed:
            break
        row *= size
    else:
        return "p"
    last = moving[-1][1]
    return {0: "r", 1: "n" if row >= _SHORT else "s"}.get(last, "a")


@dataclass(slots=True)
class _Measured:
    """The smoothed duration of runs; None after the first one, which may have waited for a compiler."""

    seconds: float | None = None
    at: float = -inf

    def add(self, seconds: float, now: float) -> None:
        known = self.seconds
        if known is None or now - self.at > FRESH_SECONDS:
            self.seconds = seconds
        else:
            self.seconds = known + _SMOOTHING * (min(seconds, _OUTLIER_FACTOR * known) - known)
        self.at = now


@dataclass(slots=True)
class _Pool:
    """Measurements that devices share, by plan, and by kind of work and power of two of its amount.

    Keeping one duration per power of two, rather than a rate, accounts for the fixed cost of small work.
    """

    plans: WeakKeyDictionary[Plan, _Measured] = field(default_factory=WeakKeyDictionary)
    kinds: dict[str, dict[int, _Measured]] = field(default_factory=dict)

    def learn(self, demand: Demand, seconds: float, now: float, plan: Plan | None) -> None:
        if demand.kind not in self.kinds and len(self.kinds) == _KINDS:
            del self.kinds[next(iter(self.kinds))]
        _add(self.kinds.setdefault(demand.kind, {}), demand.work.bit_length(), seconds, now)
        if plan is not None:
            _add(self.plans, plan, seconds, now)

    def expected(self, demand: Demand, guess: float, since: float, plan: Plan | None) -> float | None:
        """Returns the duration of a plan if it has run, or that of its kind, or None.

        Of an amount not measured, it is scaled from the nearest one, and at least the guess.
        """
        own = None if plan is None else self.plans.get(plan)
        if own is not None and own.seconds is not None and own.at >= since:
            return own.seconds
        known = self.kinds.get(demand.kind, {})
        found = {size: each.seconds for size, each in known.items() if each.seconds is not None and each.at >= since}
        if not found:
            return None
        size = demand.work.bit_length()
        nearest = min(found, key=lambda each: abs(each - size))
        return found[size] if nearest == size else max(found[nearest] * 2.0 ** (size - nearest), guess)


class Costs:
    """Knows how long plans take on each device.

    Devices of one kind in this machine share what is learned. A device of a cluster learns on its own, as transport
    differs, and uses that of similar ones until then.

    Args:
        guesses: guesses by device; by default those of its kind.
    """

    def __init__(self, guesses: Mapping[str, Guess] | None = None) -> None:
        self._guesses = dict(guesses or {})
        self._pools: dict[str, _Pool] = {}
        self._shared: dict[str, tuple[str, ...]] = {}
        self._demands: WeakKeyDictionary[Plan, dict[str, Demand]] = WeakKeyDictionary()
        self._slow: WeakSet[Plan] = WeakSet()

    def add(self, device: str, guess: Guess, like: str) -> None:
        """Adds a device of a cluster, which is similar to others that name the same ``like``."""
        self._guesses[device], self._shared[device] = guess, (device, like)

    def remove(self, device: str) -> None:
        """Forgets a device of a cluster."""
        for known in (self._guesses, self._shared, self._pools):
            known.pop(device, None)

    def demand(self, plan: Plan, device: Device) -> Demand:
        """Returns what a plan demands of a device."""
        demands = self._demands.setdefault(plan, {})
        found = demands.get(device.name)
        if found is None:
            found = demands[device.name] = Demand.of(plan, device)
        return found

    def expected(self, device: str, demand: Demand, plan: Plan | None = None, since: float = -inf) -> float:
        """Returns the expected seconds of a plan that has a slot of a device.

        Args:
            device: name of the device.
            demand: what the plan demands of it.
            plan: the plan.
            since: time of the oldest measurement to trust.
        """
        if not demand.work:
            return 0.0
        guess = self.guess(device).seconds(demand)
        for pool in self._pools_of(device):
            known = self._pools.get(pool)
            seconds = None if known is None else known.expected(demand, guess, since, plan)
            if seconds is not None:
                return seconds
        return guess

    def guess(self, device: str) -> Guess:
        """Returns the guess for a device."""
        return self._guesses.get(device) or guess_of(kind_of(device))

    def learn(self, device: str, demand: Demand, seconds: float, now: float, plan: Plan | None = None) -> None:
        """Records that work took ``seconds`` on a device."""
        for pool in self._pools_of(device):
            self._pools.setdefault(pool, _Pool()).learn(demand, seconds, now, plan)

    def is_slow(self, plan: Plan) -> bool:
        """Whether the last run of a plan took too long for the event loop's thread."""
        return plan in self._slow

    def timed(self, plan: Plan, seconds: float) -> None:
        """Records the last run of a plan that is expected to be short."""
        if seconds > INLINE_SECONDS:
            self._slow.add(plan)
        else:
            self._slow.discard(plan)

    def _pools_of(self, device: str) -> tuple[str, ...]:
        return self._shared.get(device) or (kind_of(device),)


def _add(known: MutableMapping[K, _Measured], key: K, seconds: float, now: float) -> None:
    found = known.get(key)
    if found is None:
        known[key] = _Measured()
    else:
        found.add(seconds, now)
