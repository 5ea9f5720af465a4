"""Runs the steps of a graph on the CPU device's threads, one after the other."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from opwire.graph import Bytes, Step

from ....execution import Arrays, Bound, Stop, Stopped
from ...graph import GraphMemory, GraphTensors
from ..jit.compiler import Kernel
from .job import Job
from .pool import Find, Pool


@dataclass(frozen=True, slots=True)
class GraphPart:
    """One or more steps of a graph that run as one.

    Attributes:
        step: the steps as one.
        job: what computes it.
    """

    step: Step
    job: Job

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return self.job.kernels

    @property
    def later(self) -> tuple[Kernel, ...]:
        return self.job.later

    def run(self, tensors: GraphTensors, find: Find, pool: Pool, stop: Stop) -> None:
        """Runs the steps on the graph's tensors."""
        self.job.run(*tensors.of(self.step), find, pool, stop)

    def bind(self, tensors: GraphTensors, fixed: Collection[Bytes], find: Find, pool: Pool) -> Bound:
        """Does the work shared by several runs on the same tensors, see ``Job.bind_fixed``.

        Args:
            tensors: the graph's tensors.
            fixed: the buffers that no run changes.
            find, pool: see ``Job``.
        """
        names = frozenset(name for name, at in self.step.inputs.items() if at in fixed)
        return self.job.bind_fixed(names, *tensors.of(self.step), find, pool)

    def scratch_bytes(self, threads: int) -> int:
        """Returns the maximum scratch memory, in bytes, of a run on this many threads, besides those tensors."""
        return self.job.scratch_bytes(threads)


@dataclass(frozen=True, slots=True, eq=False)
class GraphJob(Job):
    """The parts of a graph, run in order.

    Attributes:
        memory: the graph's intermediate tensors.
        parts: the parts in execution order.
    """

    memory: GraphMemory
    parts: tuple[GraphPart, ...]

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return tuple(dict.fromkeys(kernel for part in self.parts for kernel in part.kernels))

    @property
    def later(self) -> tuple[Kernel, ...]:
        return tuple(dict.fromkeys(kernel for part in self.parts for kernel in part.later))

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        tensors = self.memory.arrays(inputs, outputs)
        for part in self.parts:
            if stop():
                raise Stopped
            part.run(tensors, find, pool, stop)
        tensors.copy()

    def scratch_bytes(self, threads: int) -> int:
        return self.memory.size + max(part.scratch_bytes(threads) for part in self.parts)
