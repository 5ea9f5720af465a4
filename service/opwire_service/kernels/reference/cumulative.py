"""CUMULATIVE_SUMMATION and CUMULATIVE_PRODUCT: each output element is the exact running value, rounded once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import add, mul
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.enums import AxisDirection
from opwire.tensor import Array, DataType

from ...execution import Arrays, Stop
from ..exact import FORMATS, ExactProduct, FloatFormat, ProductBounds, Sum
from .elements import Elements, groups

CHUNK = 64
"""Elements per chunk; their running values take a few milliseconds."""

_FIRST_BITS = 256
"""Initial precision of a running product in bits, enough for most results."""

Running = Iterator[Any]
"""Yields the value after each element."""


def _run(sums: bool) -> Callable[[Plan, Arrays, Arrays, Stop], None]:
    def run(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        attributes = plan.attributes
        exclusive = attributes.HasExclusiveSum if sums else attributes.HasExclusiveProduct
        data_type = plan.inputs["InputTensor"].data_type
        for view, target in groups((attributes.Axis,), inputs["InputTensor"], outputs["OutputTensor"]):
            if attributes.AxisDirection is AxisDirection.DECREASING:
                view, target = view[::-1], target[::-1]
            first = 0
            if exclusive:
                target[0] = 0 if sums else 1
                view, first = view[:-1], 1
            for i, value in enumerate(_running(view, data_type, sums, stop), first):
                # A sum that starts at 0 is never -0.
                target[i] = value + 0 if exclusive and sums and data_type.is_float else value

    return run


def _running(view: Array, data_type: DataType, sums: bool, stop: Stop) -> Running:
    elements = Elements(view, stop, CHUNK)
    if not data_type.is_float:
        return _wrapping(elements, data_type, sums)
    of = FORMATS[data_type]
    return _running_sums(elements, of) if sums else _running_products(elements, of)


def _wrapping(elements: Elements, data_type: DataType, sums: bool) -> Running:
    total, combine = (0, add) if sums else (1, mul)
    for values in elements:
        for value in values.tolist():
            total = combine(total, value) % (1 << data_type.bits)
            yield np.array(total, f"<u{data_type.bits // 8}").view(data_type.dtype)


def _running_sums(elements: Elements, of: FloatFormat) -> Running:
    total = Sum(of)
    for values in elements:
        for i in range(values.size):
            total.add(values[i : i + 1])
            yield total.rounded()


def _running_products(elements: Elements, of: FloatFormat) -> Running:
    """Restarts with twice as many bits when the bounds of the product are too wide to decide the rounding."""
    bits, done = _FIRST_BITS, 0
    while True:
        product, number = ExactProduct(of, ProductBounds(bits)), 0
        for values in elements:
            for i in range(values.size):
                product.multiply(values[i : i + 1])
                number += 1
                if number <= done:
                    continue
                result = product.rounded()
                if result is None:
                    break
                yield result
                done = number
            else:
                continue
            break
        else:
            return
        bits *= 2


KERNELS = {"CUMULATIVE_SUMMATION": _run(sums=True), "CUMULATIVE_PRODUCT": _run(sums=False)}
