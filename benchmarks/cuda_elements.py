"""Elementwise operators on one NVIDIA GPU: opwire and PyTorch on the same data, relative to the speed of a copy.

Run ``python -m benchmarks.cuda_elements RESULTS.json``; it needs CuPy and PyTorch. Tensors have 256 MB, packed, or with
the second one broadcast along an axis. Times are medians of single runs between two events. PyTorch's results are less
accurate, so they are compared with a tolerance.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cupy
import torch

from benchmarks.cuda import INPUTS, TORCH_TYPES, measure
from benchmarks.cuda_rows import announce, mean, show, times, write
from opwire.check import check
from opwire_service.devices.cuda.device import CudaDevice
from opwire_service.devices.cuda.room import Room
from opwire_service.kernels.cuda.job import CudaMemory

SIZES = {"FLOAT32": (64, 1024, 1024), "FLOAT16": (128, 1024, 1024)}
"""Shapes of 256 MB each."""

TOLERANCES = {"FLOAT32": 1e-4, "FLOAT16": 1e-2}

AXES = {"axis 0": 0, "axis 1": 1, "axis 2": 2}
"""Axes along which the second input is broadcast."""

F = torch.nn.functional
SCALE = {"ScaleBias": {"Scale": 0.7, "Bias": 0.1}}
RELU = {"FusedActivation": {"Type": "ACTIVATION_RELU", "Desc": {}}}
GELU = {"FusedActivation": {"Type": "ACTIVATION_GELU", "Desc": {}}}

Peer = Callable[..., Any]


@dataclass(frozen=True)
class Formula:
    """An operator with its attributes, and its PyTorch equivalent.

    Attributes:
        operator: name of the operator.
        peer: the PyTorch function, with one argument per input.
        attributes: attributes of the desc.
        is_bound_by_memory: whether memory bandwidth alone determines its speed.
    """

    operator: str
    peer: Peer
    attributes: dict[str, Any]
    is_bound_by_memory: bool = False


def formulas() -> Iterator[tuple[str, Formula]]:
    """Yields the measured formulas by name."""
    for name, peer in (("ADD", torch.add), ("MULTIPLY", torch.mul), ("DIVIDE", torch.div), ("MAX", torch.maximum)):
        yield name, Formula(f"ELEMENT_WISE_{name}", peer, {}, True)
    yield "ADD1 and RELU", Formula("ELEMENT_WISE_ADD1", lambda a, b: F.relu(a + b), RELU, True)
    yield "ADD1 and GELU", Formula("ELEMENT_WISE_ADD1", lambda a, b: F.gelu(a + b), GELU)
    yield "IDENTITY", Formula("ELEMENT_WISE_IDENTITY", torch.clone, {}, True)
    yield "scaled IDENTITY", Formula("ELEMENT_WISE_IDENTITY", lambda x: x * 0.7 + 0.1, SCALE, True)
    yield "ABS", Formula("ELEMENT_WISE_ABS", torch.abs, {}, True)
    yield "CLIP", Formula("ELEMENT_WISE_CLIP", lambda x: x.clamp(-0.5, 2), {"Min": -0.5, "Max": 2}, True)
    yield "RELU", Formula("ACTIVATION_RELU", F.relu, {}, True)
    yield "LEAKY_RELU", Formula("ACTIVATION_LEAKY_RELU", lambda x: F.leaky_relu(x, 0.01), {"Alpha": 0.01}, True)
    for name in ("SQRT", "EXP", "LOG", "SIN", "COS", "TAN", "TANH", "ERF", "ASIN", "ATAN", "SINH", "COSH"):
        yield name, Formula(f"ELEMENT_WISE_{name}", getattr(torch, name.lower()), {}, name == "SQRT")
    yield "CONSTANT_POW", Formula("ELEMENT_WISE_CONSTANT_POW", lambda x: x**2.5, {"Exponent": 2.5})
    yield "SIGMOID", Formula("ACTIVATION_SIGMOID", torch.sigmoid, {})
    yield "GELU", Formula("ACTIVATION_GELU", F.gelu, {})
    yield "SOFTPLUS", Formula("ACTIVATION_SOFTPLUS", F.softplus, {"Steepness": 1})
    yield "ELU", Formula("ACTIVATION_ELU", F.elu, {"Alpha": 1})
    yield "HARD_SWISH", Formula("ACTIVATION_HARD_SWISH", F.hardswish, {"Alpha": 1 / 6, "Beta": 0.5})
    yield "POW", Formula("ELEMENT_WISE_POW", torch.pow, {})


BINARY = {"ATensor": "BTensor", "InputTensor": "ExponentTensor"}


@dataclass
class Row:
    """One measurement: times in microseconds, shares relative to the copy's bandwidth."""

    formula: str
    data_type: str
    layout: str
    bound_by_memory: bool
    bytes: int
    opwire_us: float
    torch_us: float
    opwire_share: float
    torch_share: float
    speedup: float
    uncertain: int


class Case:
    """A formula on tensors in GPU memory."""

    def __init__(self, device: CudaDevice, formula: Formula, data_type: str, axis: int | None) -> None:
        sizes = SIZES[data_type]
        names = ["ATensor", "BTensor"] if formula.operator in _BINARY else ["InputTensor"]
        names += ["ExponentTensor"] if formula.operator.endswith("_WISE_POW") else []
        made = [[torch.randn(sizes, device="cuda", dtype=TORCH_TYPES[data_type]) for _ in names] for _ in range(INPUTS)]
        if axis is not None:
            made = [[first, second.narrow(axis, 0, 1).clone().contiguous().expand(sizes)] for first, second in made]
        if "POW" in formula.operator:
            made = [[tensors[0].abs_(), *tensors[1:]] for tensors in made]
        self.tensors = made
        descs = {
            name: {"DataType": data_type, "Sizes": list(sizes), "Strides": list(tensor.stride())}
            for name, tensor in zip(names, made[0], strict=True)
        }
        self.plan = check({"type": formula.operator, "desc": {**formula.attributes, **descs}})
        self._device, self._job = device, device.job(self.plan)
        self._room = Room.of(self.plan, self._job)
        self._output = torch.empty(sizes, device="cuda", dtype=TORCH_TYPES[data_type])
        (result,) = self.plan.outputs
        self._uncertain = torch.zeros(max(8, self._job.uncertain_bytes), dtype=torch.uint8, device="cuda")
        self._memories = [
            CudaMemory(
                {name: tensor.data_ptr() for name, tensor in zip(names, tensors, strict=True)},
                {result: self._output.data_ptr()},
                0,
                self._uncertain.data_ptr(),
                self._uncertain.data_ptr(),
            )
            for tensors in made
        ]
        self.bytes = self._output.nbytes + sum(tensor.untyped_storage().nbytes() for tensor in made[0])
        self._stream = cupy.cuda.Stream.null

    def run(self, turn: int) -> None:
        self._device.enqueue(self._job, self._memories[turn], self._stream, lambda: False)

    @property
    def uncertain(self) -> int:
        return int(self._uncertain[:4].view(torch.int32)[0]) if self._job.uncertain_bytes else 0

    def compare(self, formula: Formula, data_type: str) -> None:
        """Checks that PyTorch's results are close."""
        self.run(0)
        torch.cuda.synchronize()
        rows = slice(0, 2)
        right = formula.peer(*(tensor[rows].double() for tensor in self.tensors[0])).to(self._output.dtype)
        tolerance = TOLERANCES[data_type]
        torch.testing.assert_close(self._output[rows], right, rtol=tolerance, atol=tolerance, equal_nan=True)


def _run_peer(formula: Formula, case: Case, turn: int) -> object:
    return formula.peer(*case.tensors[turn])


_BINARY = [f"ELEMENT_WISE_{name}" for name in ("ADD", "MULTIPLY", "DIVIDE", "MAX", "ADD1")]


def measured(device: CudaDevice, bandwidth: float, only: list[str]) -> Iterator[Row]:
    for data_type in SIZES:
        for name, formula in formulas():
            if only and name not in only:
                continue
            is_pair = formula.operator in _BINARY or formula.operator == "ELEMENT_WISE_POW"
            layouts = (
                {"packed": None, **(AXES if name in ("ADD", "ADD1 and GELU") else {})} if is_pair else {"packed": None}
            )
            for layout, axis in layouts.items():
                case = Case(device, formula, data_type, axis)
                case.compare(formula, data_type)
                ours = measure(case.run)
                theirs = measure(partial(_run_peer, formula, case))
                found = times(case.bytes, bandwidth, ours, theirs)
                yield Row(name, data_type, layout, formula.is_bound_by_memory, **found, uncertain=case.uncertain)


def copy_bandwidth() -> float:
    """Returns the bandwidth of a 256 MB copy on the GPU, in bytes read and written per second."""
    sources = [torch.randn(2**26, device="cuda") for _ in range(INPUTS)]
    target = torch.empty_like(sources[0])
    return 2 * target.nbytes / measure(lambda turn: target.copy_(sources[turn])) * 1e6


def main(results: Path, only: list[str]) -> None:
    device = CudaDevice(memory_bytes=2**30)
    bandwidth = copy_bandwidth()
    announce(bandwidth)
    rows = []
    for row in measured(device, bandwidth, only):
        rows.append(row)
        show(f"{row.formula:16} {row.data_type} {row.layout:7}", row, f"  open {row.uncertain}")
    speedup = mean(rows)
    print(f"geometric mean: {speedup:.3f} times PyTorch")
    write(results, bandwidth, speedup, rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
