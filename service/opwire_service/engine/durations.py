"""How long work takes, learned from what it has taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from itertools import chain

from opwire.check import Plan

_SMOOTHING = 0.2
_FIRST_RATE = 1e9
"""Element visits in a second, at most, of an amount that was not measured: it may need much new memory."""


_KINDS = 1024
"""That are remembered; the oldest is forgotten for a new one."""


def kind_of_work(plan: Plan) -> str:
    """Which plans take about as long for as much work: those of one operator, data types and modes."""
    attributes = plan.attributes
    names = getattr(attributes, "__dataclass_fields__", None) or vars(attributes)
    modes = (getattr(attributes, name) for name in names)
    types = dict.fromkeys(desc.data_type.name for desc in chain(plan.inputs.values(), plan.outputs.values()))
    return " ".join([plan.operator.name, *types, *(mode.name for mode in modes if isinstance(mode, Enum))])


@dataclass(slots=True)
class Durations:
    """Smoothed durations, by kind of work and by its amount to the next power of two.

    An amount of its own for each power takes the fixed cost of small work in, which a rate does not know. The first of
    a kind and an amount tells nothing: a kernel may have been compiled for it.
    """

    _known: dict[str, dict[int, float | None]] = field(default_factory=dict)

    def expected(self, kind: str, work: int) -> float:
        """Seconds that so much work takes; where that was not measured, in proportion to what is most like it."""
        size, known = work.bit_length(), self._known.get(kind, {})
        seconds = known.get(size)
        if seconds is not None and work:
            return seconds
        measured = {each: seconds for each, seconds in known.items() if seconds is not None}
        if not measured or not work:
            return work / _FIRST_RATE
        nearest = min(measured, key=lambda each: abs(each - size))
        return max(measured[nearest] * 2.0 ** (size - nearest), work / _FIRST_RATE)

    def learn(self, kind: str, work: int, seconds: float) -> None:
        """So much work took so many seconds."""
        if kind not in self._known and len(self._known) == _KINDS:
            del self._known[next(iter(self._known))]
        known = self._known.setdefault(kind, {})
        size = work.bit_length()
        if size not in known:
            known[size] = None
            return
        before = known[size]
        known[size] = seconds if before is None else before + _SMOOTHING * (seconds - before)
