"""Runs every CUDA kernel once on small inputs, for compute-sanitizer.

``compute-sanitizer --tool memcheck python -m tests.cuda.sanitize``. Each tensor and each piece of scratch memory is an
allocation of its own and exactly as large as it must be, so that accesses beyond its end are noticed; the device itself
has all of a plan in one block. Fails if a kernel or variant that the sources define or the operators need was not
launched; see ``coverage.missing``.

Compiling the programs takes longer than running them. ``--compile FOLDER`` does only that, on any machine with NVRTC,
without a card; the run then finds them with ``OPWIRE_KERNEL_CACHE=FOLDER``, if its NVRTC has the same version.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from opwire.check import Plan
from opwire.graph import GRAPH
from opwire_service.devices.cuda.device import CudaDevice
from opwire_service.devices.cuda.memory import aligned
from opwire_service.devices.cuda.transfers import Lane
from opwire_service.kernels.code_files import write_own
from opwire_service.kernels.cuda import MULTIPLYING
from opwire_service.kernels.cuda.compiler import OPTIONS, architecture_of, file_name
from opwire_service.kernels.cuda.job import CudaJob, CudaMemory, device_desc
from tests.support.execution import execute, never_stop
from tests.support.gpu.coverage import FEW_FLOAT64, has_two_ways, missing, programs_of
from tests.support.gpu.every_kernel import Case, cases
from tests.support.gpu.nvrtc import machine_code, version

ARCHITECTURE = architecture_of("90")


class Memory:
    """Allocations of exact sizes, until the end of the context."""

    def __init__(self, lane: Lane) -> None:
        self._runtime, self._stream = lane.runtime, lane.stream
        self._pointers: list[int] = []

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        for pointer in self._pointers:
            self._runtime.free(pointer)

    def new(self, size: int, content: bytes | bytearray = b"") -> int:
        pointer = int(self._runtime.malloc(max(size, 1)))
        self._pointers.append(pointer)
        if content:
            data = np.resize(np.frombuffer(content, np.uint8), size)
            kind = self._runtime.memcpyHostToDevice
            self._runtime.memcpyAsync(pointer, data.ctypes.data, size, kind, self._stream.ptr)
            self._stream.synchronize()
        return pointer

    def of(self, job: CudaJob, plan: Plan, content: bytes | bytearray) -> CudaMemory:
        """Returns the memory of a job; the list of undecided results follows the state, as in the device."""
        inputs = {name: self.new(desc.data_size_in_bytes, content) for name, desc in plan.inputs.items()}
        outputs = {name: self.new(device_desc(desc).data_size_in_bytes) for name, desc in plan.outputs.items()}
        scratch, state = self.new(job.scratch_bytes), aligned(job.state_bytes)
        both = self.new(state + job.undecided_bytes)
        return CudaMemory(inputs, outputs, scratch, both, both + state)


def run(device: CudaDevice, plan: Plan, content: bytes | bytearray) -> None:
    """Runs the kernels of a plan, and leaves what they leave undecided."""
    if plan.operator is GRAPH:
        execute(device, plan, dict.fromkeys(plan.inputs, content))
        return
    job = device.job(plan)
    with device.lane(never_stop) as lane, Memory(lane) as memory:
        device.enqueue(job, memory.of(job, plan, content), lane.stream, never_stop)
        lane.stream.synchronize()


def ordered(every: Sequence[Case]) -> Iterator[tuple[Case, bool]]:
    """Yields what is run, and whether as on a card with few float64 units: this first, then products."""
    yield from ((case, True) for case in every if has_two_ways(case[0]))
    yield from ((case, False) for case in sorted(every, key=lambda case: case[0].operator.name not in MULTIPLYING))


def run_all(queued: Sequence[tuple[Case, bool]], seconds: float) -> None:
    """Runs cases, or as many as fit the time."""
    device = CudaDevice()
    own = device.card
    end = time.monotonic() + seconds
    for done, ((plan, content), has_few_float64) in enumerate(queued):
        if time.monotonic() > end:
            sys.exit(f"out of time: {done} of {len(queued)} plans were run; the next one is {plan.operator.name}")
        device.card = own._replace(float64_ratio=FEW_FLOAT64.float64_ratio) if has_few_float64 else own
        try:
            run(device, plan, content)
        except device.failures:
            sys.exit(f"failed after {done} of {len(queued)} plans: {plan}")
    device.close()
    sys.stdout.write(f"{len(queued)} plans\n")


def compile_into(folder: Path, code: str) -> None:
    path = folder / file_name(code, (*OPTIONS, f"--gpu-architecture={ARCHITECTURE}"), version())
    if not path.exists():
        write_own(path, machine_code(code, ARCHITECTURE))


def compile_all(every: Sequence[Case], folder: Path) -> None:
    """Compiles all programs that are not in the folder."""
    codes = dict.fromkeys(program.code for (plan, _), _ in ordered(every) for program in programs_of(plan))
    with ProcessPoolExecutor() as processes:
        for _ in processes.map(partial(compile_into, folder), codes):
            pass
    sys.stdout.write(f"{len(codes)} programs\n")


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.cuda.sanitize", description=__doc__)
    parser.add_argument("--compile", type=Path, metavar="FOLDER", help="only compile the programs")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--part", default="1/1", help="run only every n-th plan, from the i-th on: i/n")
    given = parser.parse_args()
    part, parts = map(int, given.part.split("/"))
    every = list(cases())
    uncovered = missing(plan for plan, _ in every)
    if uncovered:
        sys.exit("\n".join(["not run:", *map(str, uncovered)]))
    if given.compile:
        compile_all(every, given.compile)
    else:
        run_all(list(ordered(every))[part - 1 :: parts], given.seconds)


if __name__ == "__main__":
    main()
