"""What devices make of plans, kept for the plans made last: bounded by plans and by their operators."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from opwire.check import Plan
from opwire.graph import operator_plans

T = TypeVar("T")

PLANS = 1024
"""Plans for which it is kept."""

STEPS = 16 * PLANS
"""Operators of all of them together, but for the last one's."""


class Kept(Generic[T]):
    """What was made of plans.

    Args:
        make: makes it; of the same plan perhaps more than once.
    """

    def __init__(self, make: Callable[[Plan], T]) -> None:
        self._make = make
        self._made: OrderedDict[Plan, T] = OrderedDict()
        self._steps = 0
        self._lock = Lock()

    def of(self, plan: Plan) -> T:
        """What was, or is now, made of a plan."""
        found = self._made.get(plan)
        if found is not None:
            return found
        made = self._make(plan)
        with self._lock:
            self._steps += len(operator_plans(plan)) if plan not in self._made else 0
            self._made[plan] = made
            while len(self._made) > PLANS or (self._steps > STEPS and len(self._made) > 1):
                oldest, _ = self._made.popitem(last=False)
                self._steps -= len(operator_plans(oldest))
        return made
