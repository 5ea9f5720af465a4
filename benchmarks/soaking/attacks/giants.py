"""Small requests for huge work: tensors with stride 0 and short timeouts, on each device; and legitimate wide rows."""

from __future__ import annotations

import base64
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from .wire import BINARY, EXECUTE, HEAD_LENGTH, JSON, Target, execute, json_bytes, reduction

_LATE = 3.0
"""Seconds beyond its timeout within which a request must be answered, as the machine may be busy."""

_ITEM_BYTES = {"UINT8": 1, "INT8": 1, "FLOAT16": 2, "FLOAT32": 4, "INT64": 8, "UINT64": 8}

_FUNCTIONS = (
    *("SUM", "AVERAGE", "MULTIPLY", "MIN", "MAX", "L1", "L2", "LOG_SUM", "LOG_SUM_EXP", "SUM_SQUARE"),
    *("ARGMIN", "ARGMAX"),
)

_DEVICES = ("cpu", "reference")


def pooling(target: Target) -> None:
    """Max pooling of a single element repeated up to 2^28 times, with small and large windows."""
    shapes = ([1, 1, 1, 2**27], [1, 1, 2**13, 2**14], [2**9, 2**9, 2**5, 2**4], [1, 1, 2**27, 1], [2**13, 2**13, 1, 1])
    windows = ([1, 1], [1, 3], [3, 1], [16, 16], [1, 4096])
    drawn = [
        *product(("MAX_POOLING", "MAX_POOLING1", "MAX_POOLING2"), shapes, windows, ("UINT8", "FLOAT16", "FLOAT32"))
    ]
    target.chance.shuffle(drawn)
    worst = ("MAX_POOLING", shapes[0], windows[0], "UINT8")
    chosen = [(worst, "cpu"), (worst, "reference"), *product(drawn[: target.size(20, 2)], _DEVICES)]
    operators = [(pool(*row), _ITEM_BYTES[row[3]], device) for row, device in chosen]
    target.each([partial(_ask, target, *row, target.chance.choice((100, 300, 1000))) for row in operators], 4)


def reductions(target: Target) -> None:
    """Reductions over no axis, one axis or all axes, of a single element repeated up to 2^28 times."""
    shapes: tuple[tuple[list[int], list[int]], ...] = (
        ([2**26], []),
        ([2**28], [0]),
        ([2**14, 2**14], [0]),
        ([2**13, 2**13], [1]),
        ([2] * 8, []),
        ([2**25, 2], []),
    )
    drawn = [*product(_FUNCTIONS, shapes, ("FLOAT32", "FLOAT16", "INT64", "UINT8"), _DEVICES)]
    target.chance.shuffle(drawn)
    chosen = [("SUM", shapes[0], "FLOAT32", "reference"), *drawn[: target.size(40, 5)]]
    rows = [
        (reduction(shape[0], shape[1], function, kind), _ITEM_BYTES[kind], device)
        for function, shape, kind, device in chosen
    ]
    target.each([partial(_ask, target, *row, target.chance.choice((100, 300, 1000))) for row in rows], 4)


def pool(kind: str, sizes: list[int], window: list[int], data_type: str) -> dict[str, object]:
    fits = [min(size, edge) for size, edge in zip(sizes[2:], window, strict=True)]
    source = {"DataType": data_type, "Sizes": sizes, "Strides": [0] * 4}
    arrays = {"Strides": [1, 1], "WindowSize": fits, "StartPadding": [0, 0], "EndPadding": [0, 0]}
    if kind == "MAX_POOLING2":
        arrays["Dilations"] = [1, 1]
    return {"type": kind, "desc": {"InputTensor": source, **arrays}}


def _ask(target: Target, operator: dict[str, object], item_bytes: int, device: str, timeout_ms: int) -> None:
    body = json_bytes(execute(operator, bytes(item_bytes), device=device, timeout_ms=timeout_ms))
    # The timeout may expire while the answer is being sent, which cuts it off.
    what, within = f"{device} {body[:200]!r}", timeout_ms / 1000 + _LATE
    target.ask(target.post(EXECUTE, body), what, within=within, may_close=True)


def wide_rows(target: Target) -> None:
    """One-dimensional pooling: wide rows are legitimate work, to be answered correctly and soon."""
    widths = [1_323_000] if target.quick else [1_040_000, 1_323_000, 3_000_000]
    target.each([partial(_ask_for_row, target, width) for width in widths], 3)


def _ask_for_row(target: Target, width: int) -> None:
    samples = np.random.default_rng(width).integers(-1000, 1000, width).astype(np.float32)
    source = {"DataType": "FLOAT32", "Sizes": [1, 1, 1, width]}
    arrays = {"Strides": [1, 1], "WindowSize": [1, 3], "StartPadding": [0, 0], "EndPadding": [0, 0]}
    operator = {"type": "MAX_POOLING", "desc": {"InputTensor": source, **arrays}}
    head = json_bytes({"operator": operator, "inputs": {"InputTensor": {"binary_data_size": samples.nbytes}}})
    fields = {"Content-Type": BINARY, HEAD_LENGTH: str(len(head)), "Accept": JSON}
    what = f"a row of {width} samples"
    answer = target.ask(target.post(EXECUTE, head + samples.tobytes(), fields), what)
    if answer is not None:
        target.tally.expect(answer.status == 200, f"{what}: status {answer.status}")
        target.tally.expect(_begins_right(answer.body, samples), f"{what}: a wrong answer")


def _begins_right(body: bytes, samples: NDArray[np.float32]) -> bool:
    """Returns whether the start of the answer, all that is kept, has the maxima of three neighbors each."""
    right = np.maximum(np.maximum(samples[:-2], samples[1:-1]), samples[2:])
    text = base64.b64encode(right[:120_000].tobytes())
    return text in body
