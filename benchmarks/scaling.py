"""How kernel throughput scales with the GPUs of one host: the same steady load on one, two, ... of them.

The data stays in GPU memory and HTTP is not involved: a thread per device runs one plan after another, alternating
between two inputs of 1 GiB.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from .cell import Cell, Tensor
from .report import Row, write

SIZES = (4, 64, 1024, 1024)
_INPUT = {"InputTensor": Tensor(SIZES)}
CELLS = (
    Cell(group="scaling", name="ARGMAX", operator="ARGMAX", inputs=_INPUT,
         fields={"Axes": [1], "AxisDirection": "INCREASING"}),
    Cell(group="scaling", name="SUM", operator="REDUCE", inputs=_INPUT, fields={"Axes": [3], "Function": "SUM"}),
)  # fmt: skip
AHEAD = 8
"""Plans queued on a stream before the thread waits for one of them."""


class Load:
    """A device with a plan and its data in GPU memory."""

    def __init__(self, index: int, cell: Cell) -> None:
        import cupy
        import torch

        from opwire_service.devices.cuda.device import CudaDevice

        from .cuda import Prepared

        self._card = cupy.cuda.Device(index)
        with self._card, torch.cuda.device(index):
            self._made = Prepared(CudaDevice(index, memory_bytes=2**30), cell)
            self._stream = cupy.cuda.Stream(non_blocking=True)
            torch.cuda.synchronize()

    def run_for(self, seconds: float) -> int:
        """Returns the number of runs."""
        events, runs, end = [], 0, time.perf_counter() + seconds
        with self._card:
            while time.perf_counter() < end:
                self._made.run(runs % 2, self._stream)
                runs += 1
                events.append(self._stream.record())
                if len(events) > AHEAD:
                    events.pop(0).synchronize()
            self._stream.synchronize()
        return runs


def throughput(loads: Sequence[Load], seconds: float) -> float:
    """Returns the plans per second of all devices together."""
    with ThreadPoolExecutor(len(loads)) as threads:
        list(threads.map(lambda load: load.run_for(0.1), loads))
        start = time.perf_counter()
        runs: int = sum(threads.map(lambda load: load.run_for(seconds), loads))
        return runs / (time.perf_counter() - start)


def options(_: argparse.ArgumentParser) -> None:
    """Has no options of its own."""


def main(given: argparse.Namespace) -> None:
    import cupy

    count, rows = int(cupy.cuda.runtime.getDeviceCount()), list[Row]()
    seconds = 0.3 if given.quick else 1.5
    for cell in CELLS:
        loads = [Load(index, cell) for index in range(count)]
        alone = throughput(loads[:1], seconds)
        for used in (number for number in (1, 2, 4, 8) if number <= count):
            rate = throughput(loads[:used], seconds)
            rows.append({"name": cell.name, "devices": used, "rate": rate, "ratio": rate / alone})
            print(rows[-1], flush=True)
    card = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    if given.json:
        write(given.json, "scaling", {"card": card, "cards": count, "sizes": SIZES}, rows)
