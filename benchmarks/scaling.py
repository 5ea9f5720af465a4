"""How kernel throughput scales with the GPUs of one host: the same steady load on one, two, ... of them.

The data stays in GPU memory and HTTP is not involved: a thread per device runs one plan after another, alternating
between two inputs of 1 GiB.
"""

from __future__ import annotations

import argparse
import threading
import time
from dataclasses import replace
from typing import Any

from .report import write

SIZES = [4, 64, 1024, 1024]
OPERATORS: dict[str, dict[str, Any]] = {
    "ARGMAX": {"type": "ARGMAX", "desc": {"Axes": [1], "AxisDirection": "INCREASING"}},
    "SUM": {"type": "REDUCE", "desc": {"Function": "SUM", "Axes": [3]}},
}
AHEAD = 8
"""Plans queued on a stream before the thread waits for one of them."""


class Load:
    """A device with a plan and its data in GPU memory."""

    def __init__(self, index: int, operator: dict[str, Any]) -> None:
        import cupy

        from opwire.check import check
        from opwire_service.devices.cuda.device import CudaDevice
        from opwire_service.devices.cuda.room import Room

        self._card = cupy.cuda.Device(index)
        self._device = CudaDevice(index, memory_bytes=2**30)
        tensor = {"DataType": "FLOAT32", "Sizes": SIZES}
        plan = check({**operator, "desc": {**operator["desc"], "InputTensor": tensor}})
        self._job = self._device.job(plan)
        self.runs = 0
        room = Room.of(plan, self._job)
        with self._card:
            self._stream = cupy.cuda.Stream(non_blocking=True)
            draw = cupy.random.RandomState(index).standard_normal
            self._inputs = [draw(SIZES, dtype=cupy.float32) for _ in range(2)]
            self._block = cupy.empty(room.size, cupy.uint8)
            cupy.cuda.runtime.deviceSynchronize()
        memory = room.at(self._block.data.ptr)
        self._memories = [replace(memory, inputs={"InputTensor": data.data.ptr}) for data in self._inputs]

    def run_until(self, end: float) -> None:
        events = []
        with self._card:
            while time.perf_counter() < end:
                self._device.enqueue(self._job, self._memories[self.runs % 2], self._stream, lambda: False)
                self.runs += 1
                events.append(self._stream.record())
                if len(events) > AHEAD:
                    events.pop(0).synchronize()
            self._stream.synchronize()


def throughput(loads: list[Load], seconds: float) -> float:
    """Returns the plans per second of all devices together."""
    for load in loads:
        load.run_until(time.perf_counter() + 0.1)
        load.runs = 0
    start = time.perf_counter()
    threads = [threading.Thread(target=load.run_until, args=(start + seconds,)) for load in loads]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(load.runs for load in loads) / (time.perf_counter() - start)


def options(_: argparse.ArgumentParser) -> None:
    """Has no options of its own."""


def main(given: argparse.Namespace) -> None:
    import cupy

    count, rows = int(cupy.cuda.runtime.getDeviceCount()), []
    seconds = 0.3 if given.quick else 1.5
    for name, operator in OPERATORS.items():
        loads = [Load(index, operator) for index in range(count)]
        alone = throughput(loads[:1], seconds)
        for used in (number for number in (1, 2, 4, 8) if number <= count):
            rate = throughput(loads[:used], seconds)
            rows.append({"name": name, "devices": used, "rate": rate, "ratio": rate / alone})
            print(rows[-1], flush=True)
    card = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    if given.json:
        write(given.json, "scaling", {"card": card, "cards": count, "sizes": SIZES}, rows)
