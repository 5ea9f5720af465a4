"""The operators that move elements, as copies by compiled kernels."""

from __future__ import annotations

from collections.abc import Callable

from opwire.check import Plan

from ...views.movements import MOVEMENTS, Movement
from ..run.job import Job
from .job import KERNELS as KERNELS
from .job import CopyJob


def _prepared(movement: Callable[[Plan], Movement]) -> Callable[[Plan], Job]:
    return lambda plan: CopyJob(*movement(plan))


PREPARE: dict[str, Callable[[Plan], Job]] = {name: _prepared(movement) for name, movement in MOVEMENTS.items()}
