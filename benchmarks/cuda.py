"""Reductions and max pooling on one NVIDIA GPU: opwire, PyTorch and CuPy, relative to the speed of a copy.

Run ``python -m benchmarks.cuda RESULTS.json``; it needs CuPy, PyTorch and Matplotlib. Results are compared first. Times
are medians of single runs between two events; two inputs, far larger than the cache, alternate.
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
import torch

from benchmarks.cuda_picture import draw
from opwire.check import Plan, check
from opwire_service.devices.cuda.device import CudaDevice
from opwire_service.devices.cuda.room import Room

SIZES = {"FLOAT32": (128, 1024, 2048), "FLOAT16": (256, 1024, 2048)}
"""Shapes of 1 GiB each."""

AXES = {"last": (2,), "first": (0,), "middle": (1,), "all": (0, 1, 2)}

IMAGES = {"FLOAT32": (16, 64, 512, 512), "FLOAT16": (32, 64, 512, 512)}
"""Shapes of 1 GiB each."""

POOLINGS = {"3x3/2": (3, 2, 1), "2x2/2": (2, 2, 0), "3x3/1": (3, 1, 1)}
"""Window, stride and padding in both dimensions."""

TORCH_TYPES = {"FLOAT32": torch.float32, "FLOAT16": torch.float16}
RUNS, WARM_UP = 9, 2
HEAD_START = 8_000_000
"""Cycles that the GPU waits at first, so that launch overhead is hidden from the measurement."""

INPUTS = 2
DIM = tuple[int, ...] | None

REDUCTIONS: dict[str, Callable[[torch.Tensor, DIM], torch.Tensor]] = {
    "SUM": lambda x, dim: x.sum(dim),
    "AVERAGE": lambda x, dim: x.mean(dim),
    "L1": lambda x, dim: torch.linalg.vector_norm(x, 1, dim),
    "L2": lambda x, dim: torch.linalg.vector_norm(x, 2, dim),
    "SUM_SQUARE": lambda x, dim: torch.linalg.vector_norm(x, 2, dim).square(),
    "MULTIPLY": lambda x, dim: x.prod() if dim is None else x.prod(dim[0]),
    "LOG_SUM": lambda x, dim: x.sum(dim, dtype=torch.float32).log(),
    "LOG_SUM_EXP": lambda x, dim: x.logsumexp((0, 1, 2) if dim is None else dim),
    "MAX": lambda x, dim: x.amax(() if dim is None else dim),
    "MIN": lambda x, dim: x.amin(() if dim is None else dim),
    "ARGMAX": lambda x, dim: x.argmax(None if dim is None else dim[0]),
    "ARGMIN": lambda x, dim: x.argmin(None if dim is None else dim[0]),
}

CUPY: dict[str, Callable[[Any, DIM], Any]] = {
    "SUM": lambda x, dim: x.sum(dim),
    "MAX": lambda x, dim: x.max(dim),
    "ARGMAX": lambda x, dim: x.argmax(None if dim is None else dim[0]),
}

POSITIONS = ("ARGMAX", "ARGMIN")
TOLERANCES = {"FLOAT32": 2e-5, "FLOAT16": 2e-3}
"""Maximum difference between PyTorch's sums and opwire's, which are correctly rounded."""


@dataclass
class Row:
    """One measurement: times in microseconds, shares relative to the copy's bandwidth."""

    operator: str
    data_type: str
    what: str
    bytes: int
    opwire_us: float
    torch_us: float
    cupy_us: float | None
    opwire_share: float
    torch_share: float
    speedup: float


class Prepared:
    """A plan on the GPU, with its inputs and outputs."""

    def __init__(self, device: CudaDevice, operator: dict[str, object], inputs: list[torch.Tensor]) -> None:
        self.plan: Plan = check(operator)
        self._device = device
        self._job = device.job(self.plan)
        room = Room.of(self.plan, self._job)
        self._block = torch.empty(room.size, dtype=torch.uint8, device="cuda")
        memory = room.at(self._block.data_ptr())
        self._memories = [type(memory)({"InputTensor": x.data_ptr()}, *list(_members(memory))[1:]) for x in inputs]
        self._room = room
        self._stream = cupy.cuda.Stream.null

    def run(self, turn: int) -> None:
        self._device.enqueue(self._job, self._memories[turn], self._stream, lambda: False)

    def output(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        desc = self.plan.outputs[name]
        start = self._room.outputs[name]
        return self._block[start : start + desc.data_size_in_bytes].view(dtype).reshape(desc.sizes)

    @property
    def uncertain(self) -> int:
        """Number of results of the last run that the host would recompute."""
        start = self._room.uncertain
        return int(self._block[start : start + 4].view(torch.int32)[0]) if self._job.uncertain_bytes else 0


def _members(memory: Any) -> Iterator[Any]:
    for name in memory.__slots__:
        yield getattr(memory, name)


def measure(run: Callable[[int], object]) -> float:
    """Returns the median time of a run, in microseconds."""
    torch.cuda.synchronize()
    torch.cuda._sleep(HEAD_START)
    events = []
    for turn in range(WARM_UP + RUNS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run(turn % INPUTS)
        end.record()
        events.append((start, end))
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) * 1000 for start, end in events[WARM_UP:])


def copy_bandwidth() -> float:
    """Returns the bandwidth of a 1 GiB copy on the GPU, in bytes read and written per second."""
    sources = [torch.randn(2**28, device="cuda") for _ in range(INPUTS)]
    target = torch.empty_like(sources[0])
    return 2 * target.nbytes / measure(lambda turn: target.copy_(sources[turn])) * 1e6


def data_for(function: str, data_type: str, sizes: tuple[int, ...]) -> list[torch.Tensor]:
    """Returns normal random numbers: positive for logarithms, close to 1 for products."""
    made = []
    for _ in range(INPUTS):
        x = torch.randn(sizes, device="cuda", dtype=TORCH_TYPES[data_type])
        made.append(x.abs_() if function == "LOG_SUM" else x.mul_(2**-6).add_(1) if function == "MULTIPLY" else x)
    return made


def reduction(device: CudaDevice, function: str, data_type: str, where: str, bandwidth: float) -> Row:
    axes, sizes = AXES[where], SIZES[data_type]
    inputs = data_for(function, data_type, sizes)
    dim = None if where == "all" else axes
    tensor = {"DataType": data_type, "Sizes": list(sizes)}
    if function in POSITIONS:
        operator = {"type": function, "desc": {"InputTensor": tensor, "Axes": axes, "AxisDirection": "INCREASING"}}
    else:
        operator = {"type": "REDUCE", "desc": {"Function": function, "InputTensor": tensor, "Axes": axes}}
    prepared = Prepared(device, operator, inputs)
    for turn, x in enumerate(inputs):
        prepared.run(turn)
        torch.cuda.synchronize()
        compare(prepared, function, data_type, x, dim)
    ours = measure(prepared.run)
    theirs = measure(lambda turn: REDUCTIONS[function](inputs[turn], dim))
    cupys = None
    if function in CUPY:
        arrays = [cupy.from_dlpack(x) for x in inputs]
        cupys = measure(lambda turn: CUPY[function](arrays[turn], dim))
    moved = inputs[0].nbytes + prepared.plan.outputs["OutputTensor"].data_size_in_bytes
    return row(function, data_type, where, moved, ours, theirs, cupys, bandwidth)


def row(
    operator: str, data_type: str, what: str, moved: int, ours: float, theirs: float, cupys: float | None, copy: float
) -> Row:
    return Row(
        operator,
        data_type,
        what,
        moved,
        round(ours, 1),
        round(theirs, 1),
        None if cupys is None else round(cupys, 1),
        round(moved / ours * 1e6 / copy, 3),
        round(moved / theirs * 1e6 / copy, 3),
        round(theirs / ours, 2),
    )


def compare(prepared: Prepared, function: str, data_type: str, x: torch.Tensor, dim: DIM) -> None:
    """Checks results against PyTorch: positions must name equally extreme elements, sums agree up to its error."""
    # PyTorch's sum of 2**29 exponentials overflows in FLOAT16.
    theirs = REDUCTIONS[function](x.float() if function == "LOG_SUM_EXP" else x, dim)
    ours = prepared.output("OutputTensor", torch.int32 if function in POSITIONS else x.dtype).reshape(theirs.shape)
    if function in POSITIONS:
        flat, axis = (x.reshape(-1), 0) if dim is None else (x, dim[0])
        places = [at.long().unsqueeze(axis) if dim else at.long().reshape(1) for at in (ours, theirs)]
        values = [flat.gather(axis, at) for at in places]
        assert torch.equal(*values), f"{function} along {dim} of {data_type}"
    elif function in ("MIN", "MAX"):
        assert torch.equal(ours, theirs), f"{function} along {dim} of {data_type}"
    else:
        scale = x.numel() / theirs.numel()
        slack = scale**0.5 if function in ("SUM", "AVERAGE") else 0.0
        tolerance = TOLERANCES[data_type] * (20 if function == "MULTIPLY" else 1)
        absolute = TOLERANCES[data_type] * slack
        torch.testing.assert_close(ours, theirs.to(ours.dtype), rtol=tolerance, atol=absolute, equal_nan=True)


def pooling(device: CudaDevice, name: str, data_type: str, indices: bool, bandwidth: float) -> Row:
    window, stride, padding = POOLINGS[name]
    sizes = IMAGES[data_type]
    inputs = data_for("MAX", data_type, sizes)
    results = (*sizes[:2], *((size + 2 * padding - window) // stride + 1 for size in sizes[2:]))
    desc: dict[str, object] = {
        "InputTensor": {"DataType": data_type, "Sizes": list(sizes)},
        "Strides": [stride] * 2,
        "WindowSize": [window] * 2,
        "StartPadding": [padding] * 2,
        "EndPadding": [padding] * 2,
    }
    if indices:
        desc["OutputIndicesTensor"] = {"DataType": "UINT32", "Sizes": list(results)}
    prepared = Prepared(device, {"type": "MAX_POOLING1", "desc": desc}, inputs)

    def theirs(turn: int) -> Any:
        pool = torch.nn.functional.max_pool2d
        return pool(inputs[turn], window, stride, padding, return_indices=indices)

    for turn in range(INPUTS):
        prepared.run(turn)
        torch.cuda.synchronize()
        right = theirs(turn)
        assert torch.equal(prepared.output("OutputTensor", inputs[0].dtype), right[0] if indices else right)
        if indices:
            at = prepared.output("OutputIndicesTensor", torch.int32).long().reshape(-1)
            assert torch.equal(inputs[turn].reshape(-1)[at].reshape(results), right[0])
        del right
    moved = inputs[0].nbytes + sum(tensor.data_size_in_bytes for tensor in prepared.plan.outputs.values())
    ours = measure(prepared.run)
    what = f"{name}{' with indices' if indices else ''}"
    return row("MAX_POOLING1", data_type, what, moved, ours, measure(theirs), None, bandwidth)


def geometric_means(measured: list[Row]) -> dict[str, float]:
    """Returns the geometric mean speedups over PyTorch: for reductions, for max pooling, and overall."""
    poolings = [found for found in measured if found.operator.startswith("MAX_POOLING")]
    reductions = [found for found in measured if not found.operator.startswith("MAX_POOLING")]
    sets = {"reductions": reductions, "max_pooling": poolings, "the_whole_table": measured}
    return {
        name: round(statistics.geometric_mean(found.torch_us / found.opwire_us for found in cases), 3)
        for name, cases in sets.items()
    }


def rows(device: CudaDevice, bandwidth: float) -> Iterator[Row]:
    for data_type in SIZES:
        for function in REDUCTIONS:
            for where in AXES:
                yield reduction(device, function, data_type, where, bandwidth)
        for name in POOLINGS:
            for indices in (False, True):
                yield pooling(device, name, data_type, indices, bandwidth)


def main(results: Path) -> None:
    device = CudaDevice(memory_bytes=2**30)
    card = torch.cuda.get_device_name()
    bandwidth = copy_bandwidth()
    print(f"{card}: a copy moves {bandwidth / 1e12:.2f} TB/s")
    measured = []
    for found in rows(device, bandwidth):
        measured.append(found)
        cupys = "" if found.cupy_us is None else f"  cupy {found.cupy_us:8.1f} us"
        print(
            f"{found.operator:12} {found.data_type} {found.what:18} {found.opwire_us:8.1f} us  "
            f"{found.opwire_share:5.2f} of copy  torch {found.torch_us:8.1f} us {found.torch_share:5.2f}  "
            f"x{found.speedup:5.2f}{cupys}",
            flush=True,
        )
    speedups = geometric_means(measured)
    for name, mean in speedups.items():
        print(f"geometric mean of {name.replace('_', ' ')}: {mean:.3f} times PyTorch")
    report = {
        "card": card,
        "copy_bytes_per_second": round(bandwidth),
        "torch": torch.__version__,
        "cupy": cupy.__version__,
        **{f"geometric_mean_speedup_of_{name}": mean for name, mean in speedups.items()},
        "rows": [asdict(found) for found in measured],
    }
    results.write_text(json.dumps(report, indent=1) + "\n")
    draw(report, results.with_suffix(".png"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
