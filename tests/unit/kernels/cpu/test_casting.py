"""Casts between all types, across several tiles: limits of types, ties, and NaN."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from opwire.check import check
from opwire.tensor import DataType
from tests.oracles.movement import cast_to
from tests.support.execution import never_stop
from tests.support.moving import moved, same_bits, tensor

TYPES = [data_type for data_type in DataType if data_type.bits >= 8]
COUNT = 40_000


def edges(dtype: np.dtype[Any]) -> np.ndarray:
    """Returns values near the limits of types and near ties of narrower ones, as far as the type holds them."""
    powers = [2.0**e for e in (*range(-28, 18), 24, 25, 31, 32, 53, 63, 64, 127, 128)]
    near = [
        p * (1 + f) for p in powers for f in (0, 2.0**-11, 2.0**-24, 2.0**-11 + 2.0**-40, -(2.0**-12), 0.5, 2.0**-52)
    ]
    near += [65504.0, 65519.99, 65520.0, 3.5e38, 1e300, 5e-324, 2.0**-149, 1.5 * 2.0**-149, 0.99]
    numbers = np.array([0.0, *near])
    with np.errstate(all="ignore"):
        if dtype.kind == "f":
            both = np.concatenate([numbers, -numbers]).astype(dtype)
            return np.concatenate([both, np.array([np.nan, np.inf, -np.inf], dtype)])
        limits = np.iinfo(dtype)
        integers = [round(n) + d for n in near if n < 2**64 for d in (-1, 0, 1)]
        inside = {n for i in integers for n in (i, -i) if limits.min <= n <= limits.max}
        return np.array(sorted(inside | {int(limits.min), int(limits.max)}), dtype)


@pytest.mark.parametrize("to", TYPES, ids=lambda each: each.name)
@pytest.mark.parametrize("of", TYPES, ids=lambda each: each.name)
def test_every_type_casts_to_every_other(cpu_device, of, to):
    found = edges(of.dtype)
    right = np.array([cast_to(number, to.dtype) for number in found.tolist()], to.dtype)
    if of is to:
        right = found
    source = np.resize(found, COUNT).reshape(4, -1)
    expected = np.resize(right, COUNT).reshape(4, -1)
    for given, answer in ((source, expected), (source.T, expected.T)):
        fields = {"OutputTensor": {"DataType": to.name, "Sizes": list(given.shape)}}
        result = moved(cpu_device, "CAST", {"InputTensor": given}, **fields)["OutputTensor"]
        wrong = (result != answer) & ~((result != result) & (answer != answer))
        assert not wrong.any(), (given[wrong][:3], result[wrong][:3], answer[wrong][:3])


@pytest.mark.parametrize("of", [np.float16, np.float32, np.float64, np.int16], ids=str)
@pytest.mark.parametrize("to", [np.float16, np.int8, np.uint64], ids=str)
def test_parallel_casts_match(cpu_device, of, to):
    source = (np.random.default_rng(2).standard_normal(700_001) * 90).astype(of)
    fields = {"OutputTensor": {"DataType": DataType.of(np.dtype(to)).name, "Sizes": [source.size]}}
    result = moved(cpu_device, "CAST", {"InputTensor": source}, **fields)["OutputTensor"]
    for i in range(0, source.size, 997):
        assert result[i] == cast_to(source[i].item(), np.dtype(to))


def test_casts_to_the_same_type_keep_nan_payloads(cpu_device):
    bits = np.arange(0x7FA00001, 0x7FA00001 + 100_000, dtype=np.uint32)
    source = bits.view(np.float32)
    fields = {"OutputTensor": {"DataType": "FLOAT32", "Sizes": [bits.size]}}
    assert same_bits(moved(cpu_device, "CAST", {"InputTensor": source}, **fields)["OutputTensor"], source)


@pytest.mark.parametrize("to", [np.float16, np.int8], ids=str)
def test_small_casts_match_with_and_without_a_kernel(cpu_device, to):
    source = edges(np.dtype(np.int32))
    right = np.array([cast_to(number, np.dtype(to)) for number in source.tolist()], to)
    data_type = DataType.of(np.dtype(to)).name
    desc = {"InputTensor": tensor(source), "OutputTensor": {"DataType": data_type, "Sizes": [source.size]}}
    plan = check({"type": "CAST", "desc": desc})
    outputs = {"OutputTensor": np.empty_like(right)}
    for _ in range(50):
        outputs["OutputTensor"][...] = 77
        cpu_device.run(plan, {"InputTensor": source}, outputs, never_stop)
        assert (outputs["OutputTensor"] == right).all()
        time.sleep(0.01)
