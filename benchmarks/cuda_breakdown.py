"""Profiles plans on one NVIDIA GPU: the time of each kernel's launches.

Run ``python -m benchmarks.cuda_breakdown [NAMES]``; it needs CuPy and PyTorch. Names are those of products, or parts of
the names of cells in ``benchmarks.cuda_families``. Times are medians of several runs, with events between all launches.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import cupy
import torch

from benchmarks import cuda_products
from benchmarks.cuda_families import Case, cells
from opwire_service.devices.cuda.device import CudaDevice
from opwire_service.kernels.cuda.job import CudaJob, CudaMemory, Launch, MatrixProduct

RUNS, WARM_UP = 7, 2
HEAD_START = 20_000_000
"""Cycles that the GPU waits at first, so that launch overhead is hidden from the measurement."""


def _name(launch: Launch) -> str:
    return "dgemm" if isinstance(launch, MatrixProduct) else launch.entry


def _timed(device: CudaDevice, launches: list[Launch], zeroed: tuple[int, int]) -> list[float]:
    """Returns the microseconds of each launch."""
    stream = cupy.cuda.Stream.null
    address, size = zeroed
    torch.cuda.synchronize()
    torch.cuda._sleep(HEAD_START)
    if size:
        cupy.cuda.runtime.memsetAsync(address, 0, size, stream.ptr)
    events = [torch.cuda.Event(enable_timing=True) for _ in range(len(launches) + 1)]
    events[0].record()
    for launch, event in zip(launches, events[1:], strict=True):
        if isinstance(launch, MatrixProduct):
            device._blas.multiply(launch, stream)
        else:
            device._compiler.kernel(launch, lambda: False)(stream)
        event.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) * 1000 for begin, end in pairwise(events)]


def shares(device: CudaDevice, job: CudaJob, memory: CudaMemory) -> list[tuple[str, int, float]]:
    """Returns the kernels of a job in order of their first launch, with the number of launches and the total time."""
    launches = list(job.launches(memory))
    zeroed = memory.state, job.state_bytes + (job.uncertain_bytes and 8)
    runs = [_timed(device, launches, zeroed) for _ in range(WARM_UP + RUNS)][WARM_UP:]
    each = [statistics.median(times) for times in zip(*runs, strict=True)]
    names = [_name(launch) for launch in launches]
    return [
        (name, names.count(name), sum(time for other, time in zip(names, each, strict=True) if other == name))
        for name in dict.fromkeys(names)
    ]


def jobs(device: CudaDevice, only: list[str]) -> Iterator[tuple[str, Any]]:
    """Yields the prepared cells by name."""
    for name, prepared in cuda_products.cells(device):
        if not only or any(each in name for each in only):
            yield name, prepared
    for cell in cells(only):
        yield cell.name, Case(device, cell)


def main(only: list[str]) -> None:
    device = CudaDevice(memory_bytes=2**33)
    for name, prepared in jobs(device, only):
        memory = getattr(prepared, "_memory", None) or prepared._memories[0]
        found = shares(device, prepared._job, memory)
        print(f"{name:36} {sum(time for _, _, time in found):9.1f} us")
        for kernel, count, time in found:
            print(f"    {kernel:20} {count:4} launches {time:9.1f} us")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
