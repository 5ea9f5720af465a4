"""Compares a backend with exact results, and checks the descs that it emits. Replace `softmax` and `descs` by yours."""

from __future__ import annotations

import numpy as np
import pytest

import opwire

DML = opwire.local()  # operators run in this process, on the CPU
LEVEL = "4_0"  # what the oldest device that you support has


def softmax(x: np.ndarray) -> np.ndarray:
    """The backend, here NumPy."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    shares: np.ndarray = powers / powers.sum(axis=-1, keepdims=True)
    return shares


def descs(shape: tuple[int, ...]) -> list[dict[str, object]]:
    """The operators that the backend gives to DirectML."""
    flat = [1, 1, int(np.prod(shape[:-1])), shape[-1]]
    tensor = {"DataType": "FLOAT32", "Sizes": flat}
    return [{"type": "ACTIVATION_SOFTMAX", "desc": {"InputTensor": tensor, "OutputTensor": tensor}}]


@pytest.mark.parametrize("shape", [(1, 7), (5, 64), (2, 3, 500)])
def test_results_are_close(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(7).standard_normal(shape).astype(np.float32)
    exact = DML.activation_softmax1(x, axes=[len(shape) - 1]).output
    opwire.assert_close_ulp(softmax(x), exact, ulp=8)


def test_large_inputs_do_not_overflow() -> None:
    x = np.array([[1000, 999, -1000]], np.float32)
    opwire.assert_close_ulp(softmax(x), DML.activation_softmax1(x, axes=[1]).output, ulp=8)


@pytest.mark.parametrize("shape", [(1, 7), (5, 64), (2, 3, 500)])
def test_descs_are_valid(shape: tuple[int, ...]) -> None:
    for desc in descs(shape):
        opwire.check(desc, feature_level=LEVEL)  # raises ContractViolation with every reason
