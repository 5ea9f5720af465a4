"""Placement of plans on the device expected to finish them first."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from opwire.check import Plan

from .costs import FRESH_SECONDS, Costs, Demand

GAIN = 1.5
"""Factor by which a device that needs tensor transfers must be faster, since the host works for it too."""


@dataclass(slots=True)
class _Load:
    """The plans placed on a device.

    Attributes:
        places: number of plans that it runs concurrently.
        pending: expected seconds of its unfinished plans.
        given: expected seconds of all plans ever placed on it.
    """

    places: int
    pending: float = 0.0
    given: float = 0.0


class Placement:
    """The plans placed on each device, from before their inputs are decoded until they have ended.

    Args:
        costs: knows how long plans take.
        places: number of plans that run concurrently, by device.
    """

    def __init__(self, costs: Costs, places: Mapping[str, int]) -> None:
        self._costs = costs
        self._loads = {name: _Load(count) for name, count in places.items()}

    def __contains__(self, device: str) -> bool:
        return device in self._loads

    def add(self, device: str, places: int) -> None:
        """Adds a device."""
        self._loads[device] = _Load(places)

    def remove(self, device: str) -> None:
        """Removes a device; plans already placed on it continue."""
        del self._loads[device]

    def order(self, demands: Mapping[str, Demand], plan: Plan, now: float) -> list[str]:
        """Returns devices by expected completion time, ties broken by the least work given so far.

        Args:
            demands: what the plan demands of each device that may run it.
            plan: the plan.
            now: current time.
        """

        def completion(name: str) -> tuple[float, float]:
            load = self._loads[name]
            seconds = self._costs.expected(name, demands[name], plan, now - FRESH_SECONDS)
            done = load.pending / load.places + seconds
            return done * GAIN if self._costs.guess(name).per_byte else done, load.given

        return sorted((name for name in self._loads if name in demands), key=completion)

    @contextmanager
    def hold(self, device: str, demand: Demand, plan: Plan) -> Generator[None]:
        """Counts a plan among those of a device for the duration of the context."""
        load, seconds = self._loads[device], self._costs.expected(device, demand, plan)
        load.pending += seconds
        load.given += seconds
        try:
            yield
        finally:
            load.pending = max(0.0, load.pending - seconds)
