"""Matrix products and convolutions: plans, operands that cancel, and exact results in integers."""

from __future__ import annotations

import math
import operator
import random
from fractions import Fraction
from typing import Any

import numpy as np

from opwire.check import Plan, check
from opwire.tensor import Array, DataType
from opwire_service.devices.base import Device
from tests.oracles import oracle
from tests.support.execution import never_stop

LEAST = 2.0**-149
"""The smallest positive FLOAT32."""


def tensor(array: Array) -> dict[str, Any]:
    strides = [step // array.itemsize for step in array.strides]
    return {"DataType": DataType.of(array.dtype).name, "Sizes": list(array.shape), "Strides": strides}


def plan_of(kind: str, inputs: dict[str, Array], **fields: Any) -> Plan:
    return check({"type": kind, "desc": {name: tensor(array) for name, array in inputs.items()} | fields})


def convolution_of(sizes: list[int], kernel: list[int], padding: int = 0, **changes: Any) -> Plan:
    """Returns the plan of a convolution of FLOAT32 tensors of these sizes."""
    spatial = len(sizes) - 2
    fields = {"Strides": 1, "Dilations": 1, "StartPadding": padding, "EndPadding": padding, "OutputPadding": 0}
    desc = {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": sizes},
        "FilterTensor": {"DataType": "FLOAT32", "Sizes": kernel},
        "Mode": "CROSS_CORRELATION",
        "Direction": "FORWARD",
        "GroupCount": 1,
        **{name: [value] * spatial for name, value in fields.items()},
    }
    return check({"type": "CONVOLUTION", "desc": {**desc, **changes}})


def answer(device: Device, kind: str, inputs: dict[str, Array], **fields: Any) -> Array:
    plan = plan_of(kind, inputs, **fields)
    outputs = {name: desc.allocate()[1] for name, desc in plan.outputs.items()}
    device.run(plan, inputs, outputs, never_stop)
    return outputs["OutputTensor"]


def gemm(device: Device, a: Array, b: Array, c: Array | None = None, **fields: Any) -> Array:
    inputs = {"ATensor": a, "BTensor": b} | ({} if c is None else {"CTensor": c})
    return answer(device, "GEMM", inputs, **({"TransA": "NONE", "TransB": "NONE", "Alpha": 1, "Beta": 1} | fields))


def assert_rounded(
    actual: Array, a: Array, b: Array, alpha: float = 1, beta: float = 0, c: Array | None = None
) -> None:
    """Checks a sample of elements against fractions."""
    chosen, unit = random.Random(1), 2**149
    for _ in range(60):
        i, j = chosen.randrange(actual.shape[0]), chosen.randrange(actual.shape[1])
        left, right = ([int(math.ldexp(x, 149)) for x in numbers.tolist()] for numbers in (a[i], b[:, j]))
        exact = Fraction(sum(map(operator.mul, left, right)), unit * unit)
        exact = Fraction(alpha) * exact + (Fraction(beta) * Fraction(float(c[i, j])) if c is not None else 0)
        right = oracle.rounded(exact, actual.dtype)
        assert actual[i, j] == right, (i, j, actual[i, j], right)


def assert_summed(actual: Array, a: Array, b: Array) -> None:
    """Checks all elements of some rows against ``math.fsum``, except those that it leaves close to a tie."""
    right = b.astype(np.float64)
    for i in random.Random(2).sample(range(len(a)), 6):
        products = a[i].astype(np.float64)[:, np.newaxis] * right  # exact, with twice the bits
        sums = np.array([math.fsum(column) for column in products.T.tolist()])
        found = sums.astype(actual.dtype)
        beyond = np.where(sums > found, np.inf, -np.inf).astype(found.dtype)
        is_middle = np.abs(sums - found) == np.abs(sums - np.nextafter(found, beyond))
        assert is_middle.mean() < 0.01
        np.testing.assert_array_equal(actual[i][~is_middle], found[~is_middle])


def normal(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def cancelling(seed: int, rows: int, depth: int) -> tuple[Array, Array]:
    """Returns operands of all magnitudes whose products cancel except for a far smaller rest."""
    chosen = np.random.default_rng(seed)
    half = (chosen.standard_normal((rows, depth)) * 2.0 ** chosen.integers(-60, 60, (rows, depth))).astype(np.float32)
    rest = (chosen.standard_normal((rows, 3)) * 2.0**-40).astype(np.float32)
    column = chosen.standard_normal((depth, rows)).astype(np.float32)
    return np.hstack([half, rest, -half]), np.vstack([column, np.ones((3, rows), np.float32), column])


def convolve(source: Array, kernel: Array, stride: int, dilation: int, pad: int, groups: int) -> Array:
    """Convolves integers in two dimensions."""
    padded = np.pad(source, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    high, wide = (1 + (size - 1) * dilation for size in kernel.shape[2:])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (high, wide), (2, 3))
    windows = windows[:, :, ::stride, ::stride, ::dilation, ::dilation]
    split = windows.reshape(len(source), groups, -1, *windows.shape[2:])
    filters = kernel.reshape(groups, -1, *kernel.shape[1:])
    found = np.einsum("ngcyxij,gmcij->ngmyx", split, filters)
    joined: Array = found.reshape(len(source), -1, *found.shape[3:])
    return joined


def conv_fields(spatial: int, stride: int, dilation: int, pad: int, groups: int) -> dict[str, Any]:
    each = {"Strides": stride, "Dilations": dilation, "StartPadding": pad, "EndPadding": pad}
    return {name: [value] * spatial for name, value in each.items()} | {"GroupCount": groups}


def assert_convolved(device: Device, shape: tuple[int, ...]) -> None:
    """Checks convolutions of integers, as floats that hold them exactly and as bytes, for a row of ``SHAPES``."""
    images, channels, size, filters, window, stride, dilation, pad, groups = shape
    chosen = np.random.default_rng(0)
    source = chosen.integers(-9, 10, (images, channels, size, size))
    kernel = chosen.integers(-9, 10, (filters, channels // groups, window, window))
    right = convolve(source, kernel, stride, dilation, pad, groups)
    fields = conv_fields(2, stride, dilation, pad, groups)
    inputs = {"InputTensor": source.astype(np.float32), "FilterTensor": kernel.astype(np.float32)}
    np.testing.assert_array_equal(answer(device, "CONVOLUTION", inputs, **FORWARD, **fields), right)
    inputs = {"InputTensor": source.astype(np.int8), "FilterTensor": kernel.astype(np.int8)}
    np.testing.assert_array_equal(answer(device, "CONVOLUTION_INTEGER", inputs, **fields), right)


FORWARD = {"Mode": "CROSS_CORRELATION", "Direction": "FORWARD", "OutputPadding": [0, 0]}

SHAPES = [
    # images, channels, size, filters, window, stride, dilation, padding, groups
    (2, 48, 60, 96, 3, 1, 1, 1, 1),
    (1, 40, 9, 530, 3, 1, 1, 1, 1),
    (1, 2300, 10, 6, 3, 1, 1, 1, 1),
    (5, 30, 31, 210, 5, 2, 2, 3, 3),
    (1, 64, 40, 64, 3, 1, 1, 1, 64),
    (2, 8, 200, 12, 2, 50, 1, 0, 1),
    (3, 700, 14, 40, 1, 1, 1, 0, 1),
    (1, 2, 70, 3, 2, 1, 60, 5, 1),
    (3, 24, 45, 24, 3, 2, 1, 1, 24),
    (1, 12, 300, 24, 5, 1, 2, 4, 12),
    (2, 30, 9, 12, 3, 1, 1, 1, 6),
    (3, 40, 13, 70, 3, 2, 1, 1, 1),
    # few filters, of which taps some places apart meet the same elements
    (1, 3, 61, 15, 5, 2, 1, 2, 1),
    (1, 6, 41, 6, 5, 4, 6, 3, 6),
    (1, 56, 60, 9, 3, 2, 17, 0, 1),
    # the middle tap meets elements, some taps in the middle do, or none does
    (2, 40, 7, 70, 3, 1, 9, 9, 1),
    (2, 6, 7, 6, 3, 1, 9, 9, 6),
    (1, 10, 5, 70, 7, 2, 3, 9, 1),
    (1, 10, 3, 70, 2, 1, 20, 10, 1),
]
