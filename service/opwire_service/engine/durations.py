"""Estimates of how long work takes, learned from past runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from weakref import WeakKeyDictionary

from opwire.check import Plan
from opwire.fields import NestedOperator, ScaleBias
from opwire.tensor import BufferTensorDesc, packed_strides

_SMOOTHING = 0.2
_OUTLIER_FACTOR = 2.0
"""A run counts at most this many times its expected duration, as one that took far longer was delayed by chance."""

_FIRST_RATE = 1e9
"""Maximum rate assumed for amounts not yet measured, in element visits per second: these may touch much new memory."""


_KINDS = 1024
"""Maximum number of kinds kept; the oldest is evicted."""

_DEPTHS = 4
"""Number of powers of two, of work per output element, that count as one kind."""

_SHORT = 16
"""Contiguous elements below which a row is short: its fixed cost outweighs that of its elements."""


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
class Durations:
    """Smoothed durations, per plan and per kind of work and power of two of its amount.

    The estimate for a plan is its own past duration if it has run before, and otherwise that of its kind. Keeping one
    duration per power of two, rather than a rate, accounts for the fixed cost of small work. The first run of a plan,
    and of a kind and amount, is ignored, since it may include the compilation of a kernel.
    """

    _plans: WeakKeyDictionary[Plan, float | None] = field(default_factory=WeakKeyDictionary)
    _known: dict[str, dict[int, float | None]] = field(default_factory=dict)

    def expected(self, kind: str, work: int, plan: Plan | None = None) -> float:
        """Returns the expected seconds for ``work``, scaled from the nearest measured amount if it was not measured."""
        own = None if plan is None else self._plans.get(plan)
        return self._of_kind(kind, work) if own is None else own

    def _of_kind(self, kind: str, work: int) -> float:
        size, known = work.bit_length(), self._known.get(kind, {})
        seconds = known.get(size)
        if seconds is not None and work:
            return seconds
        measured = {each: seconds for each, seconds in known.items() if seconds is not None}
        if not measured or not work:
            return work / _FIRST_RATE
        nearest = min(measured, key=lambda each: abs(each - size))
        return max(measured[nearest] * 2.0 ** (size - nearest), work / _FIRST_RATE)

    def learn(self, kind: str, work: int, seconds: float, plan: Plan | None = None) -> None:
        """Records that ``work`` took ``seconds``."""
        if plan is not None:
            self._plans[plan] = _smoothed(self._plans[plan], seconds) if plan in self._plans else None
        if kind not in self._known and len(self._known) == _KINDS:
            del self._known[next(iter(self._known))]
        known, size = self._known.setdefault(kind, {}), work.bit_length()
        known[size] = _smoothed(known[size], seconds) if size in known else None


def _smoothed(before: float | None, seconds: float) -> float:
    return seconds if before is None else before + _SMOOTHING * (min(seconds, _OUTLIER_FACTOR * before) - before)
