"""The CPU device: compiled kernels on a pool of threads, at the speed of memory and with the bits of the reference."""

from __future__ import annotations

import os
import platform
import sys
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from threading import Lock

import numba
import numpy as np
from llvmlite.binding import get_host_cpu_name

from opwire.check import Plan

from ..execution import Arrays, Bound, Stop, Stopped
from ..kernels.cpu.families import ALWAYS, KERNELS, PREPARE
from ..kernels.cpu.jit.compiler import Kernel
from ..kernels.cpu.jit.library import Library
from ..kernels.cpu.run.job import Job
from ..kernels.cpu.run.pool import Pool
from ..kernels.reference import KERNELS as REFERENCE
from .base import Device, Usage
from .reference import CHUNK_BYTES

THREADS_VARIABLE = "OPWIRE_CPU_THREADS"

SMALL_WORK = 1 << 15
"""Element visits that take less time than a change of threads."""

JOBS = 1024
"""Plans that are kept ready: those made last."""


class CpuDevice(Device):
    """Runs plans on compiled kernels.

    A plan whose kernels are not ready yet is begun on the reference kernels; it changes over when they are.

    Args:
        threads: that share the work of a plan, the calling one included; by default ``OPWIRE_CPU_THREADS``, or as many
            as there are cores for this process.
    """

    name = "cpu"

    def __init__(self, threads: int | None = None) -> None:
        self._pool = Pool(threads or int(os.environ.get(THREADS_VARIABLE, "0")) or _cores())
        self._library = Library(KERNELS)
        self._jobs: OrderedDict[Plan, Job] = OrderedDict()
        self._lock = Lock()

    @property
    def inline_work(self) -> int:
        """See ``Device``: nothing while a plan may have to run on the reference kernels."""
        return SMALL_WORK if self._library.is_complete else 0

    def run(self, plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``Device.run``."""
        job = self._job(plan)
        if not self._library.is_complete:
            kernels = (*ALWAYS, *job.kernels)
            if not self._library.ready(kernels):
                self._library.ask(kernels)
                if self._run_on_reference(plan, kernels, inputs, outputs, stop):
                    return
        job.run(inputs, outputs, self._library.find, self._pool, stop)

    def bind(self, plan: Plan, inputs: Arrays, outputs: Arrays) -> Bound:
        """See ``Device.bind``."""
        job = self._job(plan)
        if not self._library.is_complete and not self._library.ready((*ALWAYS, *job.kernels)):
            return super().bind(plan, inputs, outputs)
        return job.bind(inputs, outputs, self._library.find, self._pool)

    def scratch_bytes(self, plan: Plan) -> int:
        """See ``Device.scratch_bytes``; on the reference kernels it may be that of exact arithmetic."""
        return max(CHUNK_BYTES, self._job(plan).scratch_bytes(self._pool.threads))

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
            "operators": list(PREPARE),
        }

    def close(self) -> None:
        """Ends the threads."""
        self._library.close()
        self._pool.close()

    def _job(self, plan: Plan) -> Job:
        job = self._jobs.get(plan)
        if job is None:
            job = PREPARE[plan.operator.name](plan)
            with self._lock:
                self._jobs[plan] = job
                if len(self._jobs) > JOBS:
                    self._jobs.popitem(last=False)
        return job

    def _run_on_reference(
        self, plan: Plan, kernels: tuple[Kernel, ...], inputs: Arrays, outputs: Arrays, stop: Stop
    ) -> bool:
        """Runs a plan until it is done or its kernels are ready; returns whether it is done."""
        try:
            REFERENCE[plan.operator.name](plan, inputs, outputs, lambda: stop() or self._library.ready(kernels))
        except Stopped:
            if stop():
                raise
            return False
        return True


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
