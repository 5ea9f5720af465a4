"""What jobs prepare in a run and keep for their next one, since preparing it takes longer than a short run itself."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from typing import Any

MOST_BYTES = 1 << 18
"""Maximum memory of what a job keeps; longer runs do not notice the time to prepare it."""

MOST = 128
"""Maximum number of things kept."""


class Shelf:
    """The things that were put back last, by the job that they belong to.

    A run takes its job's thing, so that runs at the same time never share one. Safe to share between threads.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[object, Any] = OrderedDict()

    def take(self, owner: object) -> Any:
        """Removes and returns what a job keeps, or returns None."""
        return self._kept.pop(owner, None)

    def put(self, owner: object, thing: object) -> None:
        """Keeps a thing for the next run of a job."""
        self._kept[owner] = thing
        if len(self._kept) > MOST:
            with suppress(KeyError):  # other threads may have taken the rest
                self._kept.popitem(last=False)
