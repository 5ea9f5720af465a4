"""Quotients rounded to integers, and products rounded to floats, once, for float64 tiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from opwire.tensor import Array

from ...exact import FLOAT16, FLOAT32
from ...reference.quantization import product
from ..numbers.undecided import undecided


def saturated(quotients: Array, zero_point: Array | float, limits: tuple[int, int]) -> Array:
    """Rounds to integers, ties to even, adds the zero point and saturates, all in place; NaN gives 0.

    Up to some hundreds, a quotient of two 24-bit numbers is either a half or far enough from it that rounding it to
    float64 changes nothing.
    """
    np.rint(quotients, out=quotients)
    quotients += zero_point
    if np.isnan(quotients).any():
        quotients[np.isnan(quotients)] = 0
    return np.clip(quotients, *limits, out=quotients)


def put_products(integers: Array, scale: Array, target: Array, *, exact: bool) -> None:
    """Writes products of integers and scales.

    Args:
        integers: float64; may be overwritten with the products.
        scale: float64 that broadcasts to them.
        target: the output.
        exact: whether float64 represents every product.
    """
    if exact:
        integers *= scale
        target[...] = integers
        return
    products = integers * scale
    target[...] = products
    found = undecided(products, 2.0**-53, target.dtype)
    if found.size:
        index = np.unravel_index(found, products.shape)
        scales = np.broadcast_to(scale, products.shape)[index]
        pairs = zip(integers[index].tolist(), scales.tolist(), strict=True)
        to = _format(target.dtype)
        target[index] = np.array([product(int(integer), factor, to) for integer, factor in pairs], target.dtype)


def _format(dtype: np.dtype[Any]) -> Any:
    return FLOAT32 if dtype == np.float32 else FLOAT16
