"""A graph on the threads of the CPU device: the jobs of its steps, one after the other."""

from __future__ import annotations

from dataclasses import dataclass

from ....execution import Arrays, Stop, Stopped
from ...graph import GraphMemory
from ..jit.compiler import Kernel
from .job import Job
from .pool import Find, Pool


@dataclass(frozen=True, slots=True, eq=False)
class GraphJob(Job):
    """The jobs of a graph's steps.

    Attributes:
        memory: of the graph.
        jobs: for each step, in their order.
    """

    memory: GraphMemory
    jobs: tuple[Job, ...]

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return tuple(dict.fromkeys(kernel for job in self.jobs for kernel in job.kernels))

    @property
    def later(self) -> tuple[Kernel, ...]:
        return tuple(dict.fromkeys(kernel for job in self.jobs for kernel in job.later))

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        tensors = self.memory.arrays(inputs, outputs)
        for step, job in zip(self.memory.steps.steps, self.jobs, strict=True):
            if stop():
                raise Stopped
            job.run(*tensors.of(step), find, pool, stop)
        tensors.copy()

    def scratch_bytes(self, threads: int) -> int:
        return self.memory.size + max(job.scratch_bytes(threads) for job in self.jobs)
