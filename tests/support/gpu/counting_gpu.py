"""A fake GPU: it computes with the reference kernels, only counts its memory, and fails on demand."""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager

from opwire.check import Plan
from opwire.errors import ProblemCode, UnavailableError
from opwire.graph import GRAPH
from opwire.wire import EncodedTensor
from opwire_service.devices.base import Device, DeviceUnavailable, Inputs, Usage
from opwire_service.devices.cuda.memory import MemoryPool
from opwire_service.execution import Arrays, Stop, Stopped
from opwire_service.kernels.cuda import JOBS
from opwire_service.kernels.reference import KERNELS

COUNT = "FAKE_GPUS"
"""Environment variable: the number of GPUs; 1 by default."""

MEMORY = "FAKE_GPU_MEMORY"
"""Environment variable: the memory of each GPU, in bytes."""

BREAKS = 13.0
WAITS = 14.0
"""A plan whose first input begins with this value breaks the GPU, or runs until it is stopped, respectively."""


class RuntimeFailure(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class FakeRuntime:
    """A CUDA runtime for a card of a given size.

    Attributes:
        blocks: Sizes of allocated blocks, by address.
        allocations: Number of allocations so far.
    """

    CUDARuntimeError = RuntimeFailure
    errorMemoryAllocation = 2

    def __init__(self, size: int) -> None:
        self.size = size
        self.blocks: dict[int, int] = {}
        self.allocations = 0

    def malloc(self, size: int) -> int:
        if sum(self.blocks.values()) + size > self.size:
            raise RuntimeFailure(self.errorMemoryAllocation)
        self.allocations += 1
        self.blocks[self.allocations] = size
        return self.allocations

    def free(self, address: int) -> None:
        del self.blocks[address]


class FakeGpu(Device):
    """A device that behaves as described in the module."""

    inline_work = 0
    places = 4
    decodes = True

    def __init__(self, index: int = 0, processes: int = 1) -> None:
        self.name = f"cuda:{index}" if index else "cuda"
        size = int(os.environ.get(MEMORY, 2**30))
        self.memory = MemoryPool(FakeRuntime(size), size // processes)
        self.runs = 0

    @staticmethod
    def count() -> int:
        """See ``CudaDevice.count``."""
        count = int(os.environ.get(COUNT, "1"))
        if count < 0:
            raise DeviceUnavailable("the cuda device needs CuPy, which cannot be imported")
        return count

    def executes(self, operator: str) -> bool:
        """See ``Device.executes``: the same operators as a real GPU."""
        return operator in JOBS or operator == GRAPH.name

    def _needs(self, plan: Plan) -> int:
        return sum(desc.data_size_in_bytes for desc in (*plan.inputs.values(), *plan.outputs.values()))

    def admit(self, plan: Plan) -> AbstractContextManager[None]:
        """See ``Device.admit``."""
        return self.memory.promise(self._needs(plan))

    def run(self, plan: Plan, inputs: Inputs, outputs: Arrays, stop: Stop) -> None:
        """See ``Device.run``."""
        with self.memory.block(self._needs(plan), stop):
            arrays = {
                name: given.array() if isinstance(given, EncodedTensor) else given for name, given in inputs.items()
            }
            first = next(iter(arrays.values())).flat[0]
            if first == BREAKS:
                self.broken = "an illegal memory access was encountered"
            if self.broken is not None:
                raise UnavailableError(ProblemCode.NOT_READY, f"{self.name} failed: {self.broken}", retry_after=1)
            while first == WAITS:
                if stop():
                    raise Stopped
                time.sleep(0.001)
            KERNELS[plan.operator.name](plan, arrays, outputs, stop)
            self.runs += 1

    def usage(self) -> Usage:
        """See ``Device.usage``."""
        return Usage(self.memory.promised, self.memory.budget, self.runs)

    def describe(self) -> dict[str, object]:
        """See ``Device.describe``."""
        return {"name": self.name, "kind": "cuda", "card": "a fake"}

    def close(self) -> None:
        """See ``Device.close``."""
        self.memory.close()
