"""The CPU device and its peers: turns in one process, each as if it ran alone.

After a call, the threads of a library spin while they wait for the next one, those of ONNX Runtime for about 30 ms. A
turn therefore starts only once no thread of the process has run for a while, and with an untimed call that wakes the
participant's own threads and warms its caches.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from opwire.check import Plan, check
from opwire_service.devices.cpu import CpuDevice

from .cell import Cell
from .peers import Call, peers_of
from .report import COPY, conditions, versions

_TURN = 0.02
"""Duration of a participant's turn, in seconds."""


class Cpu:
    """The CPU device with some threads; with ``is_processor_time``, CPU time is compared, for a busy machine."""

    def __init__(self, threads: int, *, is_processor_time: bool) -> None:
        self._threads = threads
        self._is_processor_time = is_processor_time
        self._clock = time.process_time if is_processor_time else time.perf_counter
        if hasattr(os, "sched_setaffinity"):  # JAX uses one thread per core
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
        self._device = CpuDevice(threads)
        for _ in self._device.warm_up():
            pass
        self._libraries = ThreadpoolController()

    def calls(self, cell: Cell) -> dict[str, Call]:
        """Returns the calls of opwire and of all peers of a cell."""
        plan, memories = check(cell.request), [each.memory(i) for i, each in enumerate(cell.inputs.values())]
        inputs = {
            name: tensor.view(memory) for (name, tensor), memory in zip(cell.inputs.items(), memories, strict=True)
        }
        outputs = {name: desc.allocate()[1] for name, desc in plan.outputs.items()}
        run = partial(self._device.run, plan, inputs, outputs, lambda: False)
        own = Call(run, lambda: list(outputs.values()))
        calls = {"opwire": own, **peers_of(cell, memories, self._threads)}
        self._libraries = ThreadpoolController()  # those that were loaded meanwhile, too
        return {**calls, COPY: _copy(plan)} if cell.is_movement else calls

    def seconds(self, calls: dict[str, Call], rounds: int) -> dict[str, float]:
        """Returns the least seconds of each call. BLAS uses all threads, but one per thread of opwire."""
        least = dict.fromkeys(calls, float("inf"))
        for _ in range(rounds):
            for name, call in calls.items():
                rest()
                with self._libraries.limit(limits=1 if name == "opwire" else self._threads, user_api="blas"):
                    least[name] = min(least[name], self._turn(call))
        return least

    def _turn(self, call: Call) -> float:
        run, clock, least = call.run, self._clock, float("inf")
        run()
        end = time.perf_counter() + _TURN
        while True:
            begin = clock()
            run()
            least = min(least, clock() - begin)
            if time.perf_counter() > end:
                return least

    def conditions(self) -> dict[str, Any]:
        """Describes the machine and how it is measured."""
        return conditions(
            processor=self._device.describe()["processor"],
            threads=self._threads,
            clock="minimum CPU time" if self._is_processor_time else "minimum time",
            versions=versions("numpy", "onnxruntime", "torch", "jax"),
        )

    def more(self, cell: Cell) -> dict[str, Any]:
        """Tells nothing else."""
        return {}

    def close(self) -> None:
        """Ends the threads."""
        self._device.close()


def rest() -> None:
    """Waits until the threads of all libraries sleep."""
    for _ in range(50):
        before = time.process_time()
        time.sleep(4e-3)
        if time.process_time() - before < 1e-3:
            return


def _copy(plan: Plan) -> Call:
    """Copies half the bytes that a plan reads and writes, packed; with all threads if PyTorch is there."""
    count = sum(desc.data_size_in_bytes for desc in (*plan.inputs.values(), *plan.outputs.values())) // 2
    source, target = (np.full(count, number, np.uint8) for number in range(2))
    try:
        import torch
    except ImportError:
        return Call(lambda: np.copyto(target, source), lambda: target)
    tensors = torch.from_numpy(source), torch.from_numpy(target)
    return Call(lambda: tensors[1].copy_(tensors[0]))
