"""What runs the steps of a graph: chains of formulas, and each other step by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from opwire.graph import Step, Steps

from ...chains import grouped
from ..run.graph import Part, Single
from ..run.job import Job
from .chain import Chain
from .family import ElementsJob

MOST = 64
"""Formulas of a chain."""


class Fused(NamedTuple):
    """What runs the steps of a graph.

    Attributes:
        parts: in their order.
        groups: for each part the numbers of its steps.
        passing, shared: see ``Grouping``.
    """

    parts: tuple[Part, ...]
    groups: tuple[range, ...]
    passing: frozenset[int]
    shared: Mapping[int, int]


def fused(steps: Steps, jobs: Sequence[Job]) -> Fused:
    """Puts steps together.

    Args:
        steps: of a graph.
        jobs: of each step alone.
    """
    formulas = [
        job if isinstance(job, ElementsJob) and not _is_packed(step) else None
        for step, job in zip(steps.steps, jobs, strict=True)
    ]
    found = grouped(steps, formulas, MOST, lambda one, other: one.target.sizes == other.target.sizes, shares=True)
    parts = tuple(
        Chain(group.members) if group.members else Single(steps.steps[group.steps.start], jobs[group.steps.start])
        for group in found.groups
    )
    return Fused(parts, tuple(group.steps for group in found.groups), found.passing, found.shared)


def _is_packed(step: Step) -> bool:
    plan = step.plan
    return any(desc.data_type.is_packed for desc in (*plan.inputs.values(), *plan.outputs.values()))
