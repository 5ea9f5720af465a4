"""How kernel throughput scales with the GPUs of one host: the same steady load on one, two, ... of them.

Run ``python -m benchmarks.cuda_scaling RESULTS.json``. The data stays in GPU memory and HTTP is not involved: a thread
per device runs one plan after another, alternating between two inputs of 1 GiB.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import cupy

from opwire.check import check
from opwire_service.devices.cuda.device import CudaDevice
from opwire_service.devices.cuda.room import Room

SIZES = [4, 64, 1024, 1024]
OPERATORS: dict[str, dict[str, object]] = {
    "ARGMAX": {"type": "ARGMAX", "desc": {"Axes": [1], "AxisDirection": "INCREASING"}},
    "SUM": {"type": "REDUCE", "desc": {"Function": "SUM", "Axes": [3]}},
}
SECONDS = 1.5
AHEAD = 8
"""Plans queued on a stream before the thread waits for one of them."""


class Load:
    """A device with a plan and its data in GPU memory."""

    def __init__(self, index: int, operator: dict[str, Any]) -> None:
        self.device = CudaDevice(index, memory_bytes=2**30)
        tensor = {"DataType": "FLOAT32", "Sizes": SIZES}
        self.plan = check({**operator, "desc": {**operator["desc"], "InputTensor": tensor}})
        self.job = self.device.job(self.plan)
        self.index = index
        self.runs = 0
        room = Room.of(self.plan, self.job)
        with cupy.cuda.Device(index):
            self.stream = cupy.cuda.Stream(non_blocking=True)
            generator = cupy.random.RandomState(index)
            self.inputs = [generator.standard_normal(SIZES, dtype=cupy.float32) for _ in range(2)]
            self.block = cupy.empty(room.size, cupy.uint8)
            cupy.cuda.runtime.deviceSynchronize()
        memory = room.at(self.block.data.ptr)
        self.memories = [replace(memory, inputs={"InputTensor": data.data.ptr}) for data in self.inputs]

    def run_until(self, end: float) -> None:
        events = []
        with cupy.cuda.Device(self.index):
            while time.perf_counter() < end:
                self.device.enqueue(self.job, self.memories[self.runs % 2], self.stream, lambda: False)
                self.runs += 1
                events.append(self.stream.record())
                if len(events) > AHEAD:
                    events.pop(0).synchronize()
            self.stream.synchronize()


def throughput(loads: list[Load]) -> float:
    """Returns the plans per second of all devices together."""
    for load in loads:
        load.run_until(time.perf_counter() + 0.1)
        load.runs = 0
    start = time.perf_counter()
    threads = [threading.Thread(target=load.run_until, args=(start + SECONDS,)) for load in loads]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(load.runs for load in loads) / (time.perf_counter() - start)


def main(results: Path) -> None:
    count = int(cupy.cuda.runtime.getDeviceCount())
    rows = []
    for name, operator in OPERATORS.items():
        loads = [Load(index, operator) for index in range(count)]
        alone = throughput(loads[:1])
        for used in (number for number in (1, 2, 4, 8) if number <= count):
            plans = throughput(loads[:used])
            rows.append(
                {
                    "operator": name,
                    "devices": used,
                    "plans_per_second": round(plans, 1),
                    "times_one": round(plans / alone, 3),
                    "runs": [load.runs for load in loads[:used]],
                }
            )
            print(rows[-1], flush=True)
    card = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    results.write_text(json.dumps({"card": card, "cards": count, "sizes": SIZES, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
