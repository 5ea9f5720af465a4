"""A small run of every CUDA kernel, to be watched by ``compute-sanitizer python -m tests.cuda.sanitize``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from opwire.check import Plan, check
from opwire.errors import ContractViolation
from opwire.operators.reduce import ReduceFunction
from opwire_service.devices.cuda import CudaDevice
from tests.execution import execute

DATA_TYPES = ("FLOAT32", "FLOAT16", "INT32", "INT64", "UINT8")

LAYOUTS: tuple[tuple[list[int], list[int], list[int] | None], ...] = (
    ([1, 65536], [1], None),  # one row for many threads, in splits
    ([40, 96], [1], None),
    ([4096, 64], [0], None),  # columns in splits
    ([3, 37, 31], [1], None),
    ([5, 7, 9], [0, 2], None),
    ([6, 10], [1], [1, 6]),
    ([3, 50], [1], [7, 0]),
    ([17], [], None),
)
"""Sizes, axes and strides."""

POOLINGS: tuple[dict[str, Any], ...] = (
    {"sizes": [1, 3, 21, 32], "window": [3, 3], "stride": [2, 2], "padding": [1, 1]},
    {"sizes": [2, 1, 16, 32], "window": [2, 2], "stride": [2, 2], "padding": [0, 0]},
    {"sizes": [1, 2, 9, 13], "window": [3, 3], "stride": [1, 1], "padding": [1, 1]},
    {"sizes": [1, 1, 40, 40], "window": [35, 35], "stride": [1, 1], "padding": [0, 0]},
    {"sizes": [1, 2, 5, 6, 7], "window": [2, 3, 2], "stride": [1, 2, 1], "padding": [1, 1, 0]},
)


def reductions() -> Iterator[Plan]:
    for function, data_type, (sizes, axes, strides) in itertools.product(ReduceFunction, DATA_TYPES, LAYOUTS):
        tensor: dict[str, object] = {"DataType": data_type, "Sizes": sizes}
        if strides is not None:
            tensor["Strides"] = strides
        desc = {"Function": function.name, "InputTensor": tensor, "Axes": axes}
        try:
            yield check({"type": "REDUCE", "desc": desc})
        except ContractViolation:
            continue  # not every function takes every data type


def poolings() -> Iterator[Plan]:
    for data_type, row, indices in itertools.product(DATA_TYPES, POOLINGS, (False, True)):
        tensor = {"DataType": data_type, "Sizes": row["sizes"]}
        desc = {
            "InputTensor": tensor,
            "WindowSize": row["window"],
            "Strides": row["stride"],
            "StartPadding": row["padding"],
            "EndPadding": row["padding"],
        }
        if indices:
            sizes = check({"type": "MAX_POOLING1", "desc": desc}).outputs["OutputTensor"].sizes
            desc["OutputIndicesTensor"] = {"DataType": "UINT64", "Sizes": list(sizes)}
        yield check({"type": "MAX_POOLING1", "desc": desc})


def main() -> None:
    device = CudaDevice(memory_bytes=2**28)
    generator = np.random.default_rng(1)
    for plan in itertools.chain(reductions(), poolings()):
        buffers = {name: generator.bytes(desc.data_size_in_bytes) for name, desc in plan.inputs.items()}
        execute(device, plan, buffers)
    device.close()


if __name__ == "__main__":
    main()
