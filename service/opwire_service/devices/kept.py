"""Cache of what devices derive from plans, bounded by the number of plans and of their operators."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from opwire.check import Plan
from opwire.graph import operator_plans

T = TypeVar("T")

PLANS = 1024
"""Maximum number of plans."""

STEPS = 16 * PLANS
"""Maximum total number of operators of the plans; the newest plan is kept whatever its size."""


class Kept(Generic[T]):
    """FIFO cache of values derived from plans.

    Args:
        make: derives a value from a plan; may run more than once for the same plan.
    """

    def __init__(self, make: Callable[[Plan], T]) -> None:
        self._make = make
        self._made: OrderedDict[Plan, T] = OrderedDict()
        self._steps = 0
        self._lock = Lock()

    def of(self, plan: Plan) -> T:
        """Returns the value of a plan, deriving it if necessary."""
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
