"""Operator families on one NVIDIA GPU: opwire and PyTorch on the same data, relative to the speed of a copy.

Run ``python -m benchmarks.cuda_families RESULTS.json [NAMES]``; it needs CuPy and PyTorch. The cells come from the
modules of ``benchmarks.cuda_cells``, whose ``FAMILIES`` are functions that yield cells. NAMES select the cells whose
family or name contains one of them. Times are medians of single runs between two events.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import cupy
import torch

from benchmarks import cuda_cells
from benchmarks.cuda import INPUTS, copy_bandwidth, measure
from benchmarks.cuda_cells.cell import Cell, same_bits
from benchmarks.cuda_rows import announce, mean, show, times, write
from opwire.check import check
from opwire.tensor import DataType
from opwire_service.devices.cuda.device import CudaDevice
from opwire_service.devices.cuda.room import Room
from opwire_service.kernels.cuda.job import CudaMemory, device_desc

TYPES = {
    each: getattr(torch, each.name.lower())
    for each in DataType
    if not each.is_packed and hasattr(torch, each.name.lower())
}


@dataclass
class Row:
    """One measurement: times in microseconds, shares relative to the copy's bandwidth."""

    family: str
    name: str
    operator: str
    bound_by_memory: bool
    bytes: int
    opwire_us: float
    torch_us: float
    opwire_share: float
    torch_share: float
    speedup: float
    is_right: bool


class Case:
    """A cell with its tensors in GPU memory."""

    def __init__(self, device: CudaDevice, cell: Cell) -> None:
        self._device, self._cell = device, cell
        self._inputs = [cell.inputs() for _ in range(INPUTS)]
        self._plan = check({"type": cell.operator, "desc": _desc(cell, self._inputs[0])})
        self._job = device.job(self._plan)
        room = Room.of(self._plan, self._job)
        self._block = torch.zeros(room.size, dtype=torch.uint8, device="cuda")
        memory = room.at(self._block.data_ptr())
        self._memories = [
            CudaMemory(_addresses(inputs), memory.outputs, memory.scratch, memory.state, memory.uncertain)
            for inputs in self._inputs
        ]
        self._room = room

    @property
    def bytes(self) -> int:
        tensors = *self._plan.inputs.values(), *self._plan.outputs.values()
        return self._cell.moved or sum(desc.data_size_in_bytes for desc in tensors)

    def run(self, turn: int) -> None:
        self._device.enqueue(self._job, self._memories[turn], cupy.cuda.Stream.null, lambda: False)

    def run_peer(self, turn: int) -> Any:
        return self._cell.peer(*self._inputs[turn].values())

    def is_right(self) -> bool:
        self.run(0)
        torch.cuda.synchronize()
        outputs = [self._output(name) for name in self._plan.outputs]
        return (self._cell.compares or same_bits)(outputs, self.run_peer(0))

    def _output(self, name: str) -> torch.Tensor:
        desc, start = device_desc(self._plan.outputs[name]), self._room.outputs[name]
        elements = self._block[start : start + desc.data_size_in_bytes].view(TYPES[desc.data_type])
        return elements.as_strided(desc.sizes, desc.element_strides)


def _addresses(inputs: Mapping[str, torch.Tensor]) -> dict[str, int]:
    return {name: tensor.data_ptr() for name, tensor in inputs.items()}


def _desc(cell: Cell, inputs: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Returns the desc of a cell, with the tensors laid out as in PyTorch."""
    names = {dtype: data_type.name for data_type, dtype in TYPES.items()}
    desc: dict[str, Any] = dict(cell.fields)
    for name, tensor in inputs.items():
        each = {"DataType": names[tensor.dtype], "Sizes": list(tensor.shape), "Strides": list(tensor.stride())}
        member, _, index = name.partition("[")
        if index:
            desc.setdefault(member, []).append(each)
        else:
            desc[name] = each
    return desc


def cells(only: list[str]) -> Iterator[Cell]:
    """Yields the selected cells, ordered by module name."""
    for module in sorted(each.name for each in iter_modules(cuda_cells.__path__)):
        for family in getattr(import_module(f"benchmarks.cuda_cells.{module}"), "FAMILIES", ()):
            for cell in family():
                if not only or any(each in f"{cell.family} {cell.name}" for each in only):
                    yield cell


def measured(device: CudaDevice, bandwidth: float, only: list[str]) -> Iterator[Row]:
    for cell in cells(only):
        case = Case(device, cell)
        is_right = case.is_right()
        found = times(case.bytes, bandwidth, measure(case.run), measure(case.run_peer))
        yield Row(cell.family, cell.name, cell.operator, cell.is_bound_by_memory, **found, is_right=is_right)


def means(rows: list[Row]) -> dict[str, float]:
    """Returns the geometric mean speedup over PyTorch, by family and overall."""
    sets = {family: [row for row in rows if row.family == family] for family in dict.fromkeys(r.family for r in rows)}
    sets["all"] = rows
    return {name: mean(chosen) for name, chosen in sets.items()}


def main(results: Path, only: list[str]) -> None:
    device = CudaDevice(memory_bytes=2**30)
    bandwidth = copy_bandwidth()
    announce(bandwidth)
    rows = []
    for row in measured(device, bandwidth, only):
        rows.append(row)
        show(f"{row.family:14} {row.name:34}", row, "" if row.is_right else "  WRONG")
    speedups = means(rows)
    for name, speedup in speedups.items():
        print(f"geometric mean of {name}: {speedup:.3f} times PyTorch")
    write(results, bandwidth, speedups, rows)
    if not all(row.is_right for row in rows):
        sys.exit("some answers are wrong")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
