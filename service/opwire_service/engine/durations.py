"""How long work takes, learned from what it has taken."""

from __future__ import annotations

from dataclasses import dataclass, field

_SMOOTHING = 0.2
_FIRST_RATE = 1e7
"""Element visits in a second, as long as nothing was measured."""

_ALL = ""


@dataclass(slots=True)
class Durations:
    """Smoothed durations, by kind of work and by its amount to the next power of two.

    An amount of its own for each power takes the fixed cost of small work in, which a rate does not know.
    """

    _known: dict[str, dict[int, float]] = field(default_factory=dict)

    def expected(self, kind: str, work: int) -> float:
        """Seconds that so much work takes; of what was never measured in proportion to what is most like it."""
        known = self._known.get(kind) or self._known.get(_ALL)
        if not known:
            return work / _FIRST_RATE
        size = work.bit_length()
        if size in known:
            return known[size]
        nearest = min(known, key=lambda each: abs(each - size))
        return known[nearest] * 2.0 ** (size - nearest) if work else 0.0

    def learn(self, kind: str, work: int, seconds: float) -> None:
        """So much work took so many seconds."""
        for name in {kind, _ALL}:
            known = self._known.setdefault(name, {})
            size = work.bit_length()
            known[size] = known[size] + _SMOOTHING * (seconds - known[size]) if size in known else seconds
