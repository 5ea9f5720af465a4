"""The CUDA device and PyTorch on one NVIDIA GPU: tensors in its memory, and medians of the times between two events.

Two sets of inputs alternate, which together are usually far larger than the cache. It needs CuPy and PyTorch.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle, pairwise
from typing import Any

import cupy
import torch

from opwire.check import check
from opwire.tensor import Array
from opwire_service.devices.cuda.device import CudaDevice
from opwire_service.devices.cuda.room import Room
from opwire_service.kernels.cuda.job import KernelLaunch, MatrixProduct, device_desc

from .cell import Cell
from .peers import Call
from .peers.torch import of_tensors, tensors
from .report import COPY, conditions, versions

_INPUTS, _WARM_UP, _RUNS_PER_ROUND = 2, 2, 3
_CERTIFYING = ("certify", "convolve", "combine", "convolve_bytes")
"""The kernels that list undecided sums."""

_HEAD_START = 4_000_000
"""Cycles that the GPU waits at first, so that launch overhead is hidden from the measurement."""


class Prepared:
    """A cell with its tensors in GPU memory."""

    def __init__(self, device: CudaDevice, cell: Cell) -> None:
        self.device, self.plan = device, check(cell.request)
        self.inputs = [
            tensors(cell, [each.memory(turn + i) for i, each in enumerate(cell.inputs.values())], "cuda")
            for turn in range(_INPUTS)
        ]
        self.job = device.job(self.plan)
        self.room = Room.of(self.plan, self.job)
        self.block = torch.zeros(self.room.size, dtype=torch.uint8, device="cuda")
        memory = self.room.at(self.block.data_ptr())
        self.memories = [
            replace(memory, inputs={name: each.data_ptr() for name, each in zip(cell.inputs, given, strict=True)})
            for given in self.inputs
        ]

    def run(self, turn: int, stream: Any = cupy.cuda.Stream.null) -> None:
        self.device.enqueue(self.job, self.memories[turn], stream, lambda: False)

    def results(self) -> list[Array]:
        """Returns the outputs for the first inputs."""
        self.run(0)
        torch.cuda.synchronize()
        found = []
        for name, desc in self.plan.outputs.items():
            begin = self.room.outputs[name]
            stored = self.block[begin : begin + desc.data_size_in_bytes].cpu().numpy()
            found.append(device_desc(desc).view(stored))
        return found

    @property
    def moved(self) -> int:
        return sum(desc.data_size_in_bytes for desc in (*self.plan.inputs.values(), *self.plan.outputs.values()))

    def undecided(self) -> float:
        """Returns the share of the sums of a product that the error bounds leave undecided."""
        found = 0
        for launch in self.job.launches(self.memories[0]):
            _launch(self.device, launch)
            if isinstance(launch, KernelLaunch) and launch.entry in _CERTIFYING:
                torch.cuda.synchronize()
                begin = int(launch.parameter["undecided"][0]) - self.block.data_ptr()
                found += int(self.block[begin : begin + 4].view(torch.int32)[0])
        return found / next(iter(self.plan.outputs.values())).element_count


def _launch(device: CudaDevice, launch: Any) -> None:
    if isinstance(launch, MatrixProduct):
        device._blas.multiply(launch, cupy.cuda.Stream.null)
    else:
        device._compiler.kernel(launch, lambda: False)(cupy.cuda.Stream.null)


def _in_turns(runs: Sequence[Callable[[], object]]) -> Callable[[], object]:
    turns = cycle(runs)
    return lambda: next(turns)()


class Cuda:
    """One GPU."""

    def __init__(self) -> None:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        self.device = CudaDevice(memory_bytes=2**33)
        source = torch.randn(2**28, device="cuda")
        target = torch.empty_like(source)
        self._speed = 2 * source.nbytes / _measure(lambda: target.copy_(source), 9)
        self._prepared: Prepared | None = None
        self._moved = 0

    def calls(self, cell: Cell) -> dict[str, Call]:
        """Returns the calls of opwire and of PyTorch."""
        self._prepared = None  # frees its memory first
        made = self._prepared = Prepared(self.device, cell)
        self._moved = cell.moved or made.moved
        own = _in_turns([partial(made.run, turn) for turn in range(_INPUTS)])
        calls = {"opwire": Call(own, made.results)}
        peers = [of_tensors(cell, given) for given in made.inputs] if cell.torch else []
        if all(peers) and peers:
            first = peers[0]
            assert first is not None
            calls["torch"] = Call(_in_turns([peer.run for peer in peers if peer]), lambda: first.results())
        return calls

    def seconds(self, calls: dict[str, Call], rounds: int) -> dict[str, float]:
        """Returns the median seconds of each call, and those of a copy of as many bytes."""
        found = {name: _measure(call.run, _RUNS_PER_ROUND * rounds) for name, call in calls.items()}
        return {**found, COPY: self._moved / self._speed}

    def conditions(self) -> dict[str, Any]:
        """Describes the card and how it is measured."""
        return conditions(
            card=torch.cuda.get_device_name(),
            clock="median time",
            copy_bytes_per_second=round(self._speed),
            versions=versions("torch", "cupy") | {"cupy": cupy.__version__},
        )

    def more(self, cell: Cell) -> dict[str, Any]:
        """Tells how much of a product is undecided."""
        is_product = cell.operator in ("GEMM", "CONVOLUTION") and self._prepared
        return {"undecided": self._prepared.undecided()} if is_product and self._prepared else {}

    def close(self) -> None:
        """Frees the memory of the last cell."""
        self._prepared = None


def _measure(run: Callable[[], object], runs: int) -> float:
    """Returns the median time of a run, in seconds."""
    times = []
    for _ in range(_WARM_UP + runs):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(_HEAD_START)
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1000)
    return float(statistics.median(times[_WARM_UP:]))


def breakdown(cells: Sequence[Cell]) -> None:
    """Prints the time of the launches of each kernel of each cell, in order of their first launch."""
    device = Cuda().device
    for cell in cells:
        made = Prepared(device, cell)
        launches = list(made.job.launches(made.memories[0]))
        runs = [_timed(made, launches) for _ in range(_WARM_UP + 7)][_WARM_UP:]
        each = [statistics.median(times) for times in zip(*runs, strict=True)]
        names = ["dgemm" if isinstance(launch, MatrixProduct) else launch.entry for launch in launches]
        print(f"{cell!s:36} {sum(each):9.1f} us", flush=True)
        for kernel in dict.fromkeys(names):
            taken = sum(time for name, time in zip(names, each, strict=True) if name == kernel)
            print(f"    {kernel:20} {names.count(kernel):4} launches {taken:9.1f} us")


def _timed(made: Prepared, launches: Sequence[Any]) -> list[float]:
    """Returns the microseconds of each launch."""
    torch.cuda.synchronize()
    torch.cuda._sleep(5 * _HEAD_START)
    made.block[made.room.state :].zero_()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(len(launches) + 1)]
    events[0].record()
    for launch, event in zip(launches, events[1:], strict=True):
        _launch(made.device, launch)
        event.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) * 1000 for begin, end in pairwise(events)]
