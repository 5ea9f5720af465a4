"""The CPU device: compiled kernels on a thread pool, with results bit-identical to the reference device."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

import numba
import numpy as np
from llvmlite.binding import get_host_cpu_name

from opwire.check import Plan
from opwire.graph import GRAPH, Steps, operator_plans

from ..execution import Arrays, Stop
from ..kernels.cpu.elementwise.fusing import fused
from ..kernels.cpu.families import ALWAYS, COMPILING, KERNELS, PREPARE
from ..kernels.cpu.jit.compiler import Kernel
from ..kernels.cpu.jit.compiling import CompilingFailed
from ..kernels.cpu.jit.library import AHEAD, Library
from ..kernels.cpu.run.bound_graph import BoundGraphs
from ..kernels.cpu.run.graph import GraphJob
from ..kernels.cpu.run.job import Job
from ..kernels.cpu.run.pool import Pool
from ..kernels.cpu.run.reference import ReferenceJob
from ..kernels.graph import GraphMemory
from ..kernels.reference import KERNELS as REFERENCE
from .base import Device, Usage
from .kept import Kept
from .reference import CHUNK_BYTES, INLINE_WORK, refuse_excessive_work, visits_of

THREADS_VARIABLE = "OPWIRE_CPU_THREADS"

SMALL_WORK = 1 << 15
"""Number of element visits that take less time than a thread switch."""

INLINE_STEPS = 32
"""Maximum number of operators of a graph that runs inline."""

REFERENCE_WORK = 1 << 10
"""Number of element visits that take the reference kernels less time than compiling a kernel, for any function."""


@dataclass(slots=True)
class _Prepared:
    """A plan prepared for this device.

    Attributes:
        job: job that computes the plan.
        visits: cost in element visits.
        method: algorithm, see ``Device.method``.
        borrowed: element visits done by reference kernels.
        is_ready: whether its kernels were ready at the last check.
        is_repeated: whether it has run before.
        scratch: its scratch memory in bytes, once known.
    """

    job: Job
    visits: int
    method: str
    borrowed: int
    is_ready: bool = False
    is_repeated: bool = False
    scratch: int | None = None


class CpuDevice(Device):
    """Runs plans with compiled kernels.

    A plan whose kernels are not ready waits for their compilation, which takes precedence over others. Until then
    very small plans use the reference kernels, as do plans with a kernel that fails to compile, and operators without
    kernels here.

    Args:
        threads: number of threads that share the work of a plan, including the calling one; by default
            ``OPWIRE_CPU_THREADS``, or the number of cores available to this process.
        compiling: module that compiles kernels in separate processes.
    """

    name = "cpu"

    def __init__(self, threads: int | None = None, compiling: str = COMPILING) -> None:
        self._pool = Pool(threads or int(os.environ.get(THREADS_VARIABLE, "0")) or _cores())
        self._library = Library(KERNELS, compiling, ALWAYS)
        self._prepared = Kept(_prepared)
        self._graphs = BoundGraphs(self._library.find, self._pool)

    @property
    def inline_work(self) -> int:
        """See ``Device``."""
        return SMALL_WORK

    def visits(self, plan: Plan) -> int:
        """See ``Device.visits``."""
        return self._prepared.of(plan).visits

    def method(self, plan: Plan) -> str:
        """See ``Device.method``."""
        return self._prepared.of(plan).method

    def runs_inline(self, plan: Plan) -> bool:
        """See ``Device.runs_inline``. Plans that may have to wait for their kernels do not run inline."""
        if plan.work > SMALL_WORK or len(operator_plans(plan)) > INLINE_STEPS:
            return False
        prepared = self._prepare(plan)
        return prepared.borrowed <= INLINE_WORK and prepared.is_ready

    def run(self, plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``Device.run``."""
        prepared = self._prepare(plan)
        if prepared.is_ready or self._obtain(plan, prepared, stop):
            try:
                if plan.operator is GRAPH and self._run_bound(plan, prepared, inputs, outputs, stop):
                    return
                prepared.job.run(inputs, outputs, partial(self._library.find, stop=stop), self._pool, stop)
                return
            except CompilingFailed:
                pass  # the reference computes it
        REFERENCE[plan.operator.name](plan, inputs, outputs, stop)

    def _run_bound(self, plan: Plan, prepared: _Prepared, inputs: Arrays, outputs: Arrays, stop: Stop) -> bool:
        """Runs a graph as it was bound in an earlier run; returns whether it has."""
        is_repeated, prepared.is_repeated = prepared.is_repeated, True
        if not (is_repeated and prepared.is_ready and isinstance(prepared.job, GraphJob)):
            return False
        bound = self._graphs.of(plan, prepared.job, inputs)
        return bound is not None and bound.run(inputs, outputs, stop)

    def admit(self, plan: Plan) -> AbstractContextManager[None]:
        """See ``Device.admit``."""
        for each in _borrowed(plan):
            refuse_excessive_work(each)
        return nullcontext()

    def scratch_bytes(self, plan: Plan) -> int:
        """See ``Device.scratch_bytes``. Includes exact arithmetic, in case the reference kernels run the plan."""
        prepared = self._prepare(plan)
        if prepared.scratch is None:
            prepared.scratch = max(CHUNK_BYTES, prepared.job.scratch_bytes(self._pool.threads))
        return prepared.scratch

    def warm_up(self, plans: Iterable[Plan] = ()) -> Iterator[None]:
        """Waits until all kernels are compiled, which takes minutes if the cache on disk is empty."""
        self._library.wait()
        return iter(())

    def usage(self) -> Usage:
        """See ``Device.usage``."""
        return Usage(kernels=len(self._library))

    def describe(self) -> dict[str, object]:
        """See ``Device.describe``."""
        return {
            "name": self.name,
            "kind": "cpu",
            "threads": self._pool.threads,
            "processor": get_host_cpu_name(),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "numba": numba.__version__,
        }

    def close(self) -> None:
        """Stops the threads."""
        self._library.close()
        self._pool.close()

    def _prepare(self, plan: Plan) -> _Prepared:
        prepared = self._prepared.of(plan)
        if not prepared.is_ready:
            prepared.is_ready = self._library.ready(_kernels(prepared.job))
        return prepared

    def _obtain(self, plan: Plan, prepared: _Prepared, stop: Stop) -> bool:
        """Waits for a plan's kernels, or requests them for later and returns False to use the reference."""
        kernels = _kernels(prepared.job)
        if plan.work <= REFERENCE_WORK:
            return self._library.load(kernels, stop)
        later = prepared.job.later
        self._library.ask([kernel for kernel in kernels if kernel not in later])
        self._library.ask(later, AHEAD)
        return self._library.obtain([kernel for kernel in kernels if kernel not in later], stop)


def _prepared(plan: Plan) -> _Prepared:
    """Prepares a plan, in a graph with a job per step."""
    if plan.operator is not GRAPH:
        job = _job(plan)
        return _Prepared(job, _visits(job, plan), job.method, _borrowed_work(job))
    steps: Steps = plan.attributes
    jobs = [_job(step.plan) for step in steps.steps]
    found = fused(steps, jobs)
    graph = GraphJob(GraphMemory(plan, found.groups, found.passing, found.shared), found.parts)
    visits = sum(_visits(job, step.plan) for job, step in zip(jobs, steps.steps, strict=True))
    return _Prepared(graph, visits, "", sum(map(_borrowed_work, jobs)))


def _job(plan: Plan) -> Job:
    return PREPARE.get(plan.operator.name, ReferenceJob)(plan)


# ``type`` instead of ``isinstance``, which takes microseconds for jobs, as Job is a protocol.


def _visits(job: Job, plan: Plan) -> int:
    return visits_of(plan) if type(job) is ReferenceJob else job.visits or plan.work


def _borrowed_work(job: Job) -> int:
    return job.plan.work if type(job) is ReferenceJob else 0


def _borrowed(plan: Plan) -> list[Plan]:
    """Returns the plans of operators without kernels here."""
    return [each for each in operator_plans(plan) if each.operator.name not in PREPARE]


def _kernels(job: Job) -> tuple[Kernel, ...]:
    """Returns all kernels a job needs; every job with kernels may be split among threads, which adds ``ALWAYS``."""
    own = job.kernels
    return (*own, *ALWAYS) if own else ()


def _cores() -> int:
    """Returns the number of cores available to this process."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
