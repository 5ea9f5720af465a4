"""The CPU device: compiled kernels on a pool of threads, at the speed of memory and with the bits of the reference."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial

import numba
import numpy as np
from llvmlite.binding import get_host_cpu_name

from opwire.check import Plan
from opwire.graph import GRAPH, Steps, operator_plans

from ..execution import Arrays, Bound, Stop
from ..kernels.cpu.elementwise.fusing import fused
from ..kernels.cpu.families import ALWAYS, COMPILING, KERNELS, PREPARE
from ..kernels.cpu.jit.compiler import Kernel
from ..kernels.cpu.jit.compiling import CompilingFailed
from ..kernels.cpu.jit.library import AHEAD, Library
from ..kernels.cpu.run.graph import GraphJob
from ..kernels.cpu.run.job import Job
from ..kernels.cpu.run.pool import Pool
from ..kernels.cpu.run.reference import ReferenceJob
from ..kernels.graph import GraphMemory
from ..kernels.reference import KERNELS as REFERENCE
from .base import Device, Usage
from .kept import Kept
from .reference import CHUNK_BYTES, INLINE_WORK, refuse_too_much, visits_of

THREADS_VARIABLE = "OPWIRE_CPU_THREADS"

SMALL_WORK = 1 << 15
"""Element visits that take less time than a change of threads."""

INLINE_STEPS = 32
"""Operators of a graph that are called in less time than it takes to change threads a few times."""

SOON_DONE = 1 << 10
"""Element visits that the reference is done with sooner than a kernel is compiled, whatever the function."""


@dataclass(slots=True)
class _Prepared:
    """What a plan was made into.

    Attributes:
        job: of the plan.
        visits: that it costs.
        method: how it is computed.
        borrowed: element visits of it that the reference kernels do.
        is_ready: whether its kernels were ready when it was looked for last.
    """

    job: Job
    visits: int
    method: str
    borrowed: int
    is_ready: bool = False


class CpuDevice(Device):
    """Runs plans on compiled kernels.

    A plan whose kernels are not ready waits until they are compiled, before all others; a very small one, one with a
    kernel that cannot be compiled, or one of an operator without kernels here runs on the reference kernels.

    Args:
        threads: that share the work of a plan, the calling one included; by default ``OPWIRE_CPU_THREADS``, or as many
            as there are cores for this process.
        compiling: the module that compiles kernels in processes of their own.
    """

    name = "cpu"

    def __init__(self, threads: int | None = None, compiling: str = COMPILING) -> None:
        self._pool = Pool(threads or int(os.environ.get(THREADS_VARIABLE, "0")) or _cores())
        self._library = Library(KERNELS, compiling, ALWAYS)
        self._prepared = Kept(_prepared)

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
        """See ``Device.runs_inline``: no plan that may have to wait for its kernels."""
        if plan.work > SMALL_WORK or len(operator_plans(plan)) > INLINE_STEPS:
            return False
        prepared = self._prepare(plan)
        return prepared.borrowed <= INLINE_WORK and prepared.is_ready

    def run(self, plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``Device.run``."""
        prepared = self._prepare(plan)
        if prepared.is_ready or self._obtain(plan, prepared, stop):
            with suppress(CompilingFailed):
                prepared.job.run(inputs, outputs, partial(self._library.find, stop=stop), self._pool, stop)
                return
        REFERENCE[plan.operator.name](plan, inputs, outputs, stop)

    def bind(self, plan: Plan, inputs: Arrays, outputs: Arrays) -> Bound:
        """See ``Device.bind``."""
        prepared = self._prepare(plan)
        if prepared.is_ready:
            return prepared.job.bind(inputs, outputs, self._library.find, self._pool)
        return partial(self.run, plan, inputs, outputs)

    def admit(self, plan: Plan) -> AbstractContextManager[None]:
        """See ``Device.admit``."""
        for each in _borrowed(plan):
            refuse_too_much(each)
        return nullcontext()

    def scratch_bytes(self, plan: Plan) -> int:
        """See ``Device.scratch_bytes``; on the reference kernels it may be that of exact arithmetic."""
        return max(CHUNK_BYTES, self._prepare(plan).job.scratch_bytes(self._pool.threads))

    def warm_up(self, plans: Iterable[Plan] = ()) -> Iterator[None]:
        """Waits until all kernels are ready: minutes where the cache on disk is empty."""
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
        """Ends the threads."""
        self._library.close()
        self._pool.close()

    def _prepare(self, plan: Plan) -> _Prepared:
        prepared = self._prepared.of(plan)
        if not prepared.is_ready:
            prepared.is_ready = self._library.ready(_kernels(prepared.job))
        return prepared

    def _obtain(self, plan: Plan, prepared: _Prepared, stop: Stop) -> bool:
        """Sees to it that a plan's kernels become ready; whether they are, or the reference shall run the plan."""
        kernels = _kernels(prepared.job)
        if plan.work <= SOON_DONE:
            self._library.ask(kernels)
            return False
        later = prepared.job.later
        self._library.ask([kernel for kernel in kernels if kernel not in later])
        self._library.ask(later, AHEAD)
        return self._library.obtain([kernel for kernel in kernels if kernel not in later], stop)


def _prepared(plan: Plan) -> _Prepared:
    """Makes what computes a plan, and in a graph each of its steps."""
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


# Jobs are of a protocol, of which ``isinstance`` takes microseconds.


def _visits(job: Job, plan: Plan) -> int:
    return visits_of(plan) if type(job) is ReferenceJob else job.visits or plan.work


def _borrowed_work(job: Job) -> int:
    return job.plan.work if type(job) is ReferenceJob else 0


def _borrowed(plan: Plan) -> list[Plan]:
    """The plans of operators among those to run that have no kernels here."""
    return [each for each in operator_plans(plan) if each.operator.name not in PREPARE]


def _kernels(job: Job) -> tuple[Kernel, ...]:
    """What a job needs: a job of whole arrays has no kernels, any other may be shared among threads."""
    own = job.kernels
    return (*own, *ALWAYS) if own else ()


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
