"""Runs the steps of a graph on the CPU device's threads, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from opwire.graph import Step

from ....execution import Arrays, Stop, Stopped
from ...graph import GraphMemory, GraphTensors
from ..jit.compiler import Kernel
from .job import Job
from .pool import Find, Pool


class GraphPart(Protocol):
    """Runs one or more steps of a graph.

    Attributes:
        kernels, later: see ``Job``.
    """

    @property
    def kernels(self) -> tuple[Kernel, ...]: ...

    @property
    def later(self) -> tuple[Kernel, ...]: ...

    def run(self, tensors: GraphTensors, find: Find, pool: Pool, stop: Stop) -> None:
        """Runs the steps on the graph's tensors."""

    def scratch_bytes(self, threads: int) -> int:
        """Returns the maximum scratch memory, in bytes, of a run on this many threads, besides those tensors."""
        ...


@dataclass(frozen=True, slots=True)
class SinglePart(GraphPart):
    """A single step."""

    step: Step
    job: Job

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return self.job.kernels

    @property
    def later(self) -> tuple[Kernel, ...]:
        return self.job.later

    def run(self, tensors: GraphTensors, find: Find, pool: Pool, stop: Stop) -> None:
        """See ``GraphPart``."""
        self.job.run(*tensors.of(self.step), find, pool, stop)

    def scratch_bytes(self, threads: int) -> int:
        """See ``GraphPart``."""
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
