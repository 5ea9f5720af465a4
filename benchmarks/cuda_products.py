"""Exact products on one NVIDIA GPU, compared with PyTorch in FLOAT32 and FLOAT16, without TF32.

Run ``python -m benchmarks.cuda_products RESULTS.json [NAME ...]``; it needs CuPy and PyTorch. Operands are in GPU
memory. Times are medians of single runs between two events. Results are checked against float64 sums of some rows;
elements whose float64 sum is too close to a rounding boundary to decide are ignored.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cupy
import numpy as np
import torch

from opwire.check import Plan, check
from opwire_service.devices.cuda.device import CudaDevice
from opwire_service.devices.cuda.room import Room
from opwire_service.kernels.cuda.job import KernelLaunch

TYPES = {"FLOAT32": torch.float32, "FLOAT16": torch.float16}
SIZES = (
    *(("FLOAT32", n, n, n) for n in (512, 1024, 2048, 4096, 8192)),
    *(("FLOAT16", n, n, n) for n in (1024, 4096)),
    ("FLOAT32", 8192, 64, 512),
    ("FLOAT32", 16, 4096, 4096),
)
"""Data type, rows, depth and columns of each product."""

ROWS = 8
"""Rows of a product whose results are checked; of a convolution, one image."""

CONVOLUTIONS = {
    # channels, size, filters, window, stride, padding, groups
    "resnet50 conv1": (3, 224, 64, 7, 2, 3, 1),
    "resnet50 conv2 3x3": (64, 56, 64, 3, 1, 1, 1),
    "resnet50 conv2 1x1": (64, 56, 256, 1, 1, 0, 1),
    "resnet50 conv3 3x3": (128, 28, 128, 3, 1, 1, 1),
    "resnet50 conv4 3x3": (256, 14, 256, 3, 1, 1, 1),
    "resnet50 conv5 3x3": (512, 7, 512, 3, 1, 1, 1),
    "mobilenet depthwise 112": (32, 112, 32, 3, 1, 1, 32),
}
IMAGES = (1, 32)
RUNS, WARM_UP = 9, 3
HEAD_START = 4_000_000
"""Cycles that the GPU waits at first, so that launch overhead is hidden from the measurement."""

Peer = Callable[[], torch.Tensor]


@dataclass
class Row:
    """One measurement: times in microseconds, and shares of the checked results."""

    name: str
    opwire_us: float
    torch_us: float
    ratio: float
    opwire_right: float
    torch_right: float
    open_share: float


class Prepared:
    """A plan with its tensors in GPU memory."""

    def __init__(self, device: CudaDevice, plan: Plan, inputs: list[torch.Tensor]) -> None:
        self.plan, self._device, self._job = plan, device, device.job(plan)
        room = Room.of(plan, self._job)
        self._block = torch.empty(room.size, dtype=torch.uint8, device="cuda")
        memory = room.at(self._block.data_ptr())
        addresses = {name: tensor.data_ptr() for name, tensor in zip(plan.inputs, inputs, strict=True)}
        self._memory = type(memory)(addresses, memory.outputs, memory.scratch, memory.state, memory.uncertain)
        desc = plan.outputs["OutputTensor"]
        begin = room.outputs["OutputTensor"]
        flat = self._block[begin : begin + desc.data_size_in_bytes].view(inputs[0].dtype)
        self.output = flat.reshape(desc.sizes)

    def run(self) -> None:
        self._device.enqueue(self._job, self._memory, cupy.cuda.Stream.null, lambda: False)

    def count_open(self) -> int:
        """Returns the number of sums that the error bounds leave undecided."""
        found = 0
        for launch in self._job.launches(self._memory):
            if isinstance(launch, KernelLaunch):
                self._device._compiler.kernel(launch, lambda: False)(cupy.cuda.Stream.null)
                if launch.entry in ("certify", "convolve"):
                    torch.cuda.synchronize()
                    begin = int(launch.parameter["open"][0]) - self._block.data_ptr()
                    found += int(self._block[begin : begin + 4].view(torch.int32)[0])
            else:
                self._device._blas.multiply(launch, cupy.cuda.Stream.null)
        return found


def measure(run: Callable[[], object]) -> float:
    """Returns the median time of a run, in microseconds."""
    times = []
    for _ in range(WARM_UP + RUNS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(HEAD_START)
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1000)
    return statistics.median(times[WARM_UP:])


def share_right(given: torch.Tensor, sums: torch.Tensor, bound: torch.Tensor) -> float:
    """Returns the share of correctly rounded results, among those that the float64 sums and their bound decide."""
    result = given.cpu().numpy()
    # PyTorch's conversion rounds FLOAT16 twice, via FLOAT32.
    low, high = ((sums + by).cpu().numpy().astype(result.dtype) for by in (-bound, bound))
    known = low == high
    return float(np.count_nonzero((result == high) & known) / np.count_nonzero(known))


def product(device: CudaDevice, data_type: str, m: int, k: int, n: int) -> tuple[Prepared, torch.Tensor, torch.Tensor]:
    """Returns a prepared product and its operands."""
    a = torch.randn(m, k, device="cuda", dtype=TYPES[data_type])
    b = torch.randn(k, n, device="cuda", dtype=TYPES[data_type])
    tensors = {"ATensor": {"DataType": data_type, "Sizes": [m, k]}, "BTensor": {"DataType": data_type, "Sizes": [k, n]}}
    desc = {**tensors, "TransA": "NONE", "TransB": "NONE", "Alpha": 1, "Beta": 1}
    return Prepared(device, check({"type": "GEMM", "desc": desc}), [a, b]), a, b


def products(device: CudaDevice, data_type: str, m: int, k: int, n: int) -> Row:
    prepared, a, b = product(device, data_type, m, k, n)
    wide_a, wide_b = a[:ROWS].double(), b.double()
    bound = wide_a.norm(dim=1)[:, None] * wide_b.norm(dim=0) * (k + 8) * 2.0**-53
    return measured(_name(data_type, m, k, n), prepared, lambda: torch.mm(a, b), wide_a @ wide_b, bound, ROWS)


def convolution(device: CudaDevice, name: str, images: int) -> tuple[Prepared, torch.Tensor, torch.Tensor]:
    """Returns a prepared convolution, its input and its filters."""
    channels, size, filters, window, stride, padding, groups = CONVOLUTIONS[name]
    x = torch.randn(images, channels, size, size, device="cuda")
    w = torch.randn(filters, channels // groups, window, window, device="cuda")
    arrays = {"Strides": stride, "Dilations": 1, "StartPadding": padding, "EndPadding": padding, "OutputPadding": 0}
    desc: dict[str, Any] = {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": list(x.shape)},
        "FilterTensor": {"DataType": "FLOAT32", "Sizes": list(w.shape)},
        "Mode": "CROSS_CORRELATION",
        "Direction": "FORWARD",
        "GroupCount": groups,
        **{key: [value] * 2 for key, value in arrays.items()},
    }
    return Prepared(device, check({"type": "CONVOLUTION", "desc": desc}), [x, w]), x, w


def convolutions(device: CudaDevice, name: str, images: int) -> Row:
    prepared, x, w = convolution(device, name, images)
    _, _, _, _, stride, padding, groups = CONVOLUTIONS[name]

    def convolved(source: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv2d(source, kernel, stride=stride, padding=padding, groups=groups)

    depth = w[0].numel()
    magnitudes = convolved(x[:1].double().abs(), w.double().abs())
    sums, bound = convolved(x[:1].double(), w.double()), magnitudes * (depth + 8) * 2.0**-53
    return measured(f"{name}, {images}", prepared, lambda: convolved(x, w), sums, bound, 1)


def measured(name: str, ours: Prepared, peer: Peer, sums: torch.Tensor, bound: torch.Tensor, count: int) -> Row:
    """Returns the times, and the shares for some rows or images."""
    mine, theirs = measure(ours.run), measure(peer)
    open_share = ours.count_open() / ours.output.numel()
    shares = [share_right(each[:count], sums, bound) for each in (ours.output, peer())]
    return Row(name, round(mine, 1), round(theirs, 1), round(theirs / mine, 3), *shares, open_share)


def rows(device: CudaDevice, only: list[str]) -> Iterator[Row]:
    for sizes in SIZES:
        if not only or _name(*sizes) in only:
            yield products(device, *sizes)
    for images in IMAGES:
        for name in CONVOLUTIONS:
            if not only or name in only:
                yield convolutions(device, name, images)


def cells(device: CudaDevice) -> Iterator[tuple[str, Prepared]]:
    """Yields the prepared cells by name."""
    for sizes in SIZES:
        yield _name(*sizes), product(device, *sizes)[0]
    for images in IMAGES:
        for name in CONVOLUTIONS:
            yield f"{name}, {images}", convolution(device, name, images)[0]


def _name(data_type: str, m: int, k: int, n: int) -> str:
    return f"GEMM {data_type} {m}x{k}x{n}"


def main(results: Path, only: list[str]) -> None:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    device = CudaDevice(memory_bytes=2**33)
    found = []
    for row in rows(device, only):
        found.append(row)
        print(
            f"{row.name:32} {row.opwire_us:9.1f} us  torch {row.torch_us:9.1f} us  {row.ratio:6.3f} times  right "
            f"{row.opwire_right:.4f} torch {row.torch_right:.4f}  open {row.open_share:.1e}",
            flush=True,
        )
    report = {
        "card": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cupy": cupy.__version__,
        "rows": [asdict(row) for row in found],
    }
    results.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
