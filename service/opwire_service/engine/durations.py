"""How long work takes, learned from what it has taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from weakref import WeakKeyDictionary

from opwire.check import Plan
from opwire.fields import NestedOperator, ScaleBias
from opwire.tensor import BufferTensorDesc, packed_strides

_SMOOTHING = 0.2
_LONGER = 2.0
"""A run counts at most so many times what was expected: one that took far longer was held up, as others will not be."""

_FIRST_RATE = 1e9
"""Element visits in a second, at most, of an amount that was not measured: it may need much new memory."""


_KINDS = 1024
"""Kinds that are remembered; the oldest is forgotten for a new one."""

_DEPTHS = 4
"""Powers of two that are one kind, of the work for an element of an output."""

_SHORT = 16
"""Neighbours in a row of which there are too few: what is done once for a row counts more than its elements."""


MARGIN = 3**0.5
"""Times what is expected that hardly any run takes longer; as few take less than a third of that."""


def at_most(expected: float) -> float:
    """The seconds that work takes at most which is expected to take so many.

    It is meant for one run: 95 of 100 take no longer, and 95 of 100 take at least a third of it. Of many together the
    sum of what is expected tells more.
    """
    return MARGIN * expected


def kind_of_work(plan: Plan, method: str = "") -> str:
    """Which plans take about as long for as much work: those of one operator, modes, data types and layouts.

    A mode is also what is fused: a scale and a bias, or an activation; and whether axes are those of rows. A layout is
    that of the rows of a tensor. Little work for each element of an output is another kind than much.

    Args:
        method: by which a device computes it, see ``Device.method``.
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
    """Whether axes of a plan, if it has any, are those of rows."""
    axis = getattr(plan.attributes, "Axis", None)
    axes = getattr(plan.attributes, "Axes", ()) if axis is None else (axis,)
    last = next(iter(plan.outputs.values())).rank - 1
    return "" if not axes else "rows" if last in axes else "columns"


def _layout(desc: BufferTensorDesc) -> str:
    """How elements lie: packed, in long or short rows of neighbours, of one that is repeated, or of what lies apart."""
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
    """Smoothed durations: of each plan, and by kind of work and its amount to the next power of two.

    A plan that ran is expected to take what it took; any other one, what others of its kind took. An amount of its own
    for each power takes the fixed cost of small work in, which a rate does not know. The first run of a plan, and of a
    kind and an amount, tells nothing: a kernel may have been compiled for it.
    """

    _plans: WeakKeyDictionary[Plan, float | None] = field(default_factory=WeakKeyDictionary)
    _known: dict[str, dict[int, float | None]] = field(default_factory=dict)

    def expected(self, kind: str, work: int, plan: Plan | None = None) -> float:
        """Seconds that so much work takes; where that was not measured, in proportion to what is most like it."""
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
        """Learns that so much work took so many seconds."""
        if plan is not None:
            self._plans[plan] = _smoothed(self._plans[plan], seconds) if plan in self._plans else None
        if kind not in self._known and len(self._known) == _KINDS:
            del self._known[next(iter(self._known))]
        known, size = self._known.setdefault(kind, {}), work.bit_length()
        known[size] = _smoothed(known[size], seconds) if size in known else None


def _smoothed(before: float | None, seconds: float) -> float:
    return seconds if before is None else before + _SMOOTHING * (min(seconds, _LONGER * before) - before)
