"""Measures exact products on the CPU against NumPy, and against ONNX Runtime and PyTorch if installed.

Run it from the root of the repository: ``python -m benchmarks.products``. All participants of a cell take turns in one
process with ``--threads`` threads; the fastest call of each counts. The last column is the share of a peer's results
that are correctly rounded; all of opwire's are.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from llvmlite.binding import get_host_cpu_name
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from opwire.check import check
from opwire.tensor import Array, DataType
from opwire_service.devices.cpu import CpuDevice

from .onnx_model import network, node
from .resting import rest

Call = Callable[[], Any]

Clock = Callable[[], float]

NAMES = {"numpy": "NumPy", "onnxruntime": "ONNX Runtime", "torch": "PyTorch"}

SQUARE = re.compile(r"GEMM FLOAT32 ([0-9]+)(x\1x\1)?")
"""The name of a square product, here and in the GPU results."""

CARDS = "cuda-products-*.json"
"""GPU results, in the folder of the plot, which includes them."""

OPSET = 17
"""ONNX opset."""

TURN = 0.03
"""Duration of a participant's turn, in seconds."""

CONVOLUTIONS = {
    # channels, size, filters, window, stride, padding, groups
    "resnet50 conv1": (3, 224, 64, 7, 2, 3, 1),
    "resnet50 conv2 3x3": (64, 56, 64, 3, 1, 1, 1),
    "resnet50 conv2 1x1": (64, 56, 256, 1, 1, 0, 1),
    "resnet50 conv3 3x3": (128, 28, 128, 3, 1, 1, 1),
    "resnet50 conv4 3x3": (256, 14, 256, 3, 1, 1, 1),
    "resnet50 conv5 3x3": (512, 7, 512, 3, 1, 1, 1),
    "mobilenet depthwise 112": (32, 112, 32, 3, 1, 1, 32),
    "mobilenet pointwise 112": (32, 112, 64, 1, 1, 0, 1),
    "mobilenet depthwise 14": (512, 14, 512, 3, 1, 1, 512),
}

GEMMS = {
    **{f"{n}": (1, n, n, n) for n in (64, 128, 256, 512, 1024, 2048)},
    "tall 8192x64x512": (1, 8192, 64, 512),
    "thin 16x4096x4096": (1, 16, 4096, 4096),
    "batch 96 of 128x64x128": (96, 128, 64, 128),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A request and its equivalents in the peers."""

    name: str
    operator: str
    inputs: dict[str, Array]
    fields: dict[str, Any]
    peers: dict[str, Call]


def _normal(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def _gemm(name: str, sizes: tuple[int, ...], dtype: Any) -> Cell:
    batch, m, k, n = sizes
    a, b = _normal(batch, m, k, dtype=dtype), _normal(batch, k, n, dtype=dtype)
    single_a, single_b = a.astype(np.float32), b.astype(np.float32)
    peers: dict[str, Call] = {"numpy": lambda: np.matmul(single_a, single_b)}
    if find_spec("torch"):
        import torch

        of_torch = torch.from_numpy(a), torch.from_numpy(b)
        peers["torch"] = lambda: torch.matmul(*of_torch)
    fields = {"TransA": "NONE", "TransB": "NONE", "Alpha": 1, "Beta": 1}
    kind = DataType.of(a.dtype).name
    return Cell(f"GEMM {kind} {name}", "GEMM", {"ATensor": a[None], "BTensor": b[None]}, fields, peers)


def _integers(n: int) -> Cell:
    chosen = np.random.default_rng(0)
    a, b = (chosen.integers(0, 256, (n, n), np.uint8) for _ in range(2))
    peers: dict[str, Call] = {"numpy f32": lambda: np.matmul(a.astype(np.float32), b.astype(np.float32))}
    return Cell(f"MATRIX_MULTIPLY_INTEGER {n}", "MATRIX_MULTIPLY_INTEGER", {"ATensor": a, "BTensor": b}, {}, peers)


def _convolution(name: str) -> Cell:
    channels, size, filters, window, stride, padding, groups = CONVOLUTIONS[name]
    source = _normal(1, channels, size, size)
    kernel = _normal(filters, channels // groups, window, window)
    arrays = {"Strides": stride, "Dilations": 1, "StartPadding": padding, "EndPadding": padding, "OutputPadding": 0}
    fields: dict[str, Any] = {key: [value] * 2 for key, value in arrays.items()} | {"GroupCount": groups}
    fields |= {"Mode": "CROSS_CORRELATION", "Direction": "FORWARD"}
    peers: dict[str, Call] = {}
    if find_spec("torch"):
        import torch

        given = torch.from_numpy(source), torch.from_numpy(kernel)
        peers["torch"] = lambda: torch.conv2d(*given, stride=stride, padding=padding, groups=groups)
    return Cell(name, "CONVOLUTION", {"InputTensor": source, "FilterTensor": kernel}, fields, peers)


def _attention() -> Cell:
    q, k, v = (np.random.default_rng(i).standard_normal((8, 128, 768)).astype(np.float32) for i in range(3))
    fields = {"Scale": 0.125, "MaskFilterValue": -10000, "MaskType": "NONE", "HeadCount": 12}
    peers: dict[str, Call] = {}
    if find_spec("torch"):
        import torch

        heads = [torch.from_numpy(x).reshape(8, 128, 12, 64).transpose(1, 2) for x in (q, k, v)]
        peers["torch"] = lambda: torch.nn.functional.scaled_dot_product_attention(*heads)
    inputs = {"QueryTensor": q, "KeyTensor": k, "ValueTensor": v}
    return Cell("BERT-base attention", "MULTIHEAD_ATTENTION", inputs, fields, peers)


def _lstm() -> Cell:
    hidden, steps, batch = 512, 128, 8
    inputs = {
        "InputTensor": _normal(1, steps, batch, hidden),
        "WeightTensor": _normal(1, 1, 4 * hidden, hidden) / np.float32(32),
        "RecurrenceTensor": _normal(1, 1, 4 * hidden, hidden) / np.float32(32),
    }
    activations = [{"Type": f"ACTIVATION_{name}"} for name in ("SIGMOID", "TANH", "TANH")]
    fields: dict[str, Any] = {"ActivationDescs": activations, "Direction": "FORWARD", "ClipThreshold": 0}
    fields |= {"UseClipThreshold": False, "CoupleInputForget": False}
    fields["OutputSequenceTensor"] = {"DataType": "FLOAT32", "Sizes": [steps, 1, batch, hidden]}
    peers: dict[str, Call] = {}
    if find_spec("torch"):
        import torch

        network, source = torch.nn.LSTM(hidden, hidden), torch.from_numpy(inputs["InputTensor"][0])

        def run() -> Any:
            with torch.no_grad():
                return network(source)

        peers["torch"] = run
    return Cell("LSTM 512, 128 steps", "LSTM", inputs, fields, peers)


def _onnxruntime(cell: Cell, outputs: dict[str, Array], threads: int) -> Call | None:
    """Returns a session for cells that a single ONNX operator can express."""
    kinds = {"GEMM": "MatMul", "MATRIX_MULTIPLY_INTEGER": "MatMulInteger", "CONVOLUTION": "Conv"}
    if not find_spec("onnxruntime") or cell.operator not in kinds:
        return None
    import onnxruntime

    attributes: dict[str, Any] = {}
    if cell.operator == "CONVOLUTION":
        pads = cell.fields["StartPadding"] + cell.fields["EndPadding"]
        attributes = {"strides": cell.fields["Strides"], "pads": pads, "group": cell.fields["GroupCount"]}
    only = node(kinds[cell.operator], list(cell.inputs), list(outputs), attributes)
    inputs = {name: (array.dtype.name, array.shape) for name, array in cell.inputs.items()}
    model = network([only], {}, inputs, {name: array.dtype.name for name, array in outputs.items()}, {"": OPSET})
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, cell.inputs)


def _participants(device: CpuDevice, cell: Cell, threads: int) -> tuple[dict[str, Call], dict[str, Array]]:
    tensors = {
        name: {"DataType": DataType.of(array.dtype).name, "Sizes": list(array.shape)}
        for name, array in cell.inputs.items()
    }
    plan = check({"type": cell.operator, "desc": {**tensors, **cell.fields}})
    outputs = {name: desc.allocate()[1] for name, desc in plan.outputs.items()}
    bound = device.bind(plan, cell.inputs, outputs)
    if find_spec("torch"):
        import torch

        torch.set_num_threads(threads)
    calls: dict[str, Call] = {"opwire": lambda: bound(lambda: False), **cell.peers}
    session = _onnxruntime(cell, outputs, threads)
    return calls | ({} if session is None else {"onnxruntime": session}), outputs


def _measure(calls: dict[str, Call], threads: int, rounds: int, clock: Clock) -> dict[str, float]:
    """Returns the minimum seconds of each participant; they take turns of several calls.

    NumPy's BLAS uses all threads, opwire's one per thread of its own. The minimum is the most robust on a busy machine.
    """
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            rest()
            with threadpool_limits(1 if name == "opwire" else threads, "blas"):
                call()
                end = time.perf_counter() + TURN
                while True:
                    begin = clock()
                    call()
                    least[name] = min(least[name], clock() - begin)
                    if time.perf_counter() > end:
                        break
    return least


def _shares(cell: Cell, calls: dict[str, Call], outputs: dict[str, Array]) -> dict[str, float]:
    """Returns the share of each peer's float results that equal opwire's, which are correctly rounded."""
    if cell.operator != "GEMM":
        return {}
    right = outputs["OutputTensor"].reshape(-1)
    found = {name: np.asarray(call()).reshape(-1) for name, call in calls.items() if name != "opwire"}
    return {name: float((values.astype(right.dtype) == right).mean()) for name, values in found.items()}


def _cells() -> list[Cell]:
    cells = [_gemm(name, sizes, np.float32) for name, sizes in GEMMS.items()]
    cells += [_gemm(str(n), (1, n, n, n), np.float16) for n in (512, 1024)]
    cells += [_integers(n) for n in (256, 1024)]
    cells += [_convolution(name) for name in CONVOLUTIONS]
    return [*cells, _attention(), _lstm()]


def _row(name: str, taken: dict[str, float], shares: dict[str, float]) -> list[str]:
    own, peers = taken["opwire"], {peer: value for peer, value in taken.items() if peer != "opwire"}
    listed = ", ".join(f"{peer} {value * 1e3:.3f}" for peer, value in peers.items())
    rounded = ", ".join(f"{peer} {share:.1%}" for peer, share in shares.items())
    return [name, f"{own * 1e3:.3f}", listed, f"{own / min(peers.values()):.2f}" if peers else "", rounded]


def picture(cells: dict[str, Any], path: Path) -> None:
    """Draws the share of correctly rounded results of square products, by library, on CPUs and GPUs."""
    mpl.use("svg")
    from matplotlib import pyplot

    chart, axes = pyplot.subplots(figsize=(8, 3.6))
    lines: dict[str, dict[int, float]] = {}
    for name, cell in cells.items():
        if square := SQUARE.fullmatch(name):
            for peer, share in cell["correctly_rounded"].items():
                lines.setdefault(NAMES[peer], {})[int(square[1])] = share
    for report in (json.loads(each.read_text()) for each in sorted(path.parent.glob(CARDS))):
        squares = [(square[1], row) for row in report["rows"] if (square := SQUARE.fullmatch(row["name"]))]
        lines[f"PyTorch, {report['card']}"] = {int(size): row["torch_right"] for size, row in squares}
    sizes = sorted(set().union(*lines.values()))
    for name, shares in {**lines, "opwire, on both": dict.fromkeys(sizes, 1.0)}.items():
        color = "black" if name.startswith("opwire") else None
        axes.plot(list(shares), [100 * share for share in shares.values()], marker="o", label=name, color=color)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.set_ylim(0, 105)
    axes.set_xlabel("rows, columns and depth of FLOAT32 matrices")
    axes.set_ylabel("% correctly rounded")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=8)
    chart.tight_layout()
    chart.savefig(path)
    pyplot.close(chart)


def machine(threads: int, is_processor_time: bool) -> dict[str, object]:
    """Returns the description of the machine for a report."""
    versions = {name: version(name) for name in ("numpy", "torch", "onnxruntime", "jax") if find_spec(name)}
    load = os.getloadavg()[1] if hasattr(os, "getloadavg") else None
    known = {"processor": get_host_cpu_name(), "cores": os.cpu_count(), "threads": threads}
    return {**known, "load": load, "processor_time": is_processor_time, **versions}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--processor-time", action="store_true", help="compare CPU time, for a busy machine")
    parser.add_argument("--only", default="", help="only cells whose names contain this")
    parser.add_argument("--json", type=Path, help="JSON file for the results")
    parser.add_argument("--picture", type=Path, help="SVG file for a plot of the correctly rounded shares")
    options = parser.parse_args(arguments)
    if options.processor_time and options.threads != 1:
        parser.error("--processor-time compares single threads: use --threads 1")
    clock = time.thread_time if options.processor_time else time.perf_counter
    device = CpuDevice(threads=options.threads)
    for _ in device.warm_up():  # otherwise a bound plan looks for its kernels on every call
        pass
    table, figures = Table("cell", "opwire ms", "peers ms", "vs. best peer", "correctly rounded"), {}
    for cell in _cells():
        if options.only not in cell.name:
            continue
        calls, outputs = _participants(device, cell, options.threads)
        taken = _measure(calls, options.threads, options.rounds, clock)
        shares = _shares(cell, calls, outputs)
        figures[cell.name] = {"seconds": taken, "correctly_rounded": shares}
        row = _row(cell.name, taken, shares)
        table.add_row(*row)
        print(*row, sep="  ", flush=True)
    Console(width=170).print(table)
    if options.json:
        report = {"machine": machine(options.threads, options.processor_time), "cells": figures}
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    if options.picture:
        picture(figures, options.picture)
    device.close()


if __name__ == "__main__":
    main()
