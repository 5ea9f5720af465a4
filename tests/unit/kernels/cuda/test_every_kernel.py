"""The run for compute-sanitizer reaches every CUDA kernel, and fails if it does not."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from opwire.check import Plan, check
from opwire_service.devices.cuda.device import CudaDevice
from tests.cuda.sanitize import Memory, ordered
from tests.support.execution import never_stop
from tests.support.gpu import coverage
from tests.support.gpu.every_kernel import cases
from tests.support.gpu.host_cupy import Runtime, host_cupy


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    return [plan for plan, _ in cases()]


def test_every_kernel_is_covered(plans):
    assert coverage.missing(plans) == []
    assert coverage.entries() >= {
        ("reduction", "reduce_rows"),
        ("reduction", "reduce_columns"),
        ("windows", "pool_windows"),
        ("spread", "spread"),
        ("strips", "pool_strips"),
        ("elementwise", "compute"),
        ("movement/fold", "fold"),
        ("normalization/rows", "held_rows"),
        ("products/certify", "certify"),
        ("products/settle", "settle"),
        ("resampling/resample", "resample_triangles"),
    }


@pytest.mark.parametrize("operator", ["ARGMAX", "MAX_POOLING", "MAX_POOLING1", "MAX_POOLING2"])
def test_an_uncovered_operator_is_reported(plans, operator):
    assert operator in coverage.missing(plan for plan in plans if plan.operator.name != operator)


@pytest.mark.parametrize(
    ("entry", "passes", "splits"),
    [
        ("reduce_columns", "ONLY", False),
        ("reduce_columns", "SETTLE", True),
        ("reduce_rows", "QUICK", True),
        ("reduce_rows", "ONLY", True),
    ],
)
def test_an_uncovered_layout_is_reported(plans, entry, passes, splits):
    def is_excluded(kernel: object) -> bool:
        return (
            isinstance(kernel, coverage.Kernel)
            and (kernel.entry, kernel.splits) == (entry, splits)
            and ("PASS", passes) in kernel.computes
        )

    rest = [plan for plan in plans if not any(map(is_excluded, coverage.launched(plan)))]
    assert any(map(is_excluded, coverage.missing(rest)))


def test_an_uncovered_source_is_reported(plans):
    rest = [plan for plan in plans if not any(k.entry == "pool_strips" for k in coverage.launched(plan))]
    assert {"strips", ("strips", "pool_strips")} <= set(coverage.missing(rest))


def test_the_run_has_an_allocation_for_each_tensor(monkeypatch, tmp_path):
    runtime = Runtime()
    monkeypatch.setenv("OPWIRE_KERNEL_CACHE", str(tmp_path))
    monkeypatch.setitem(sys.modules, "cupy", host_cupy(runtime))
    desc = {"InputTensor": {"DataType": "INT32", "Sizes": [9, 17]}, "Axes": [1], "Function": "SUM"}
    plan = check({"type": "REDUCE", "desc": desc})
    device = CudaDevice()
    job = device.job(plan)
    with device.lane(never_stop) as lane, Memory(lane) as memory:
        found = memory.of(job, plan, b"\x01\x02\x03\x04")
        sizes = {name: len(runtime.blocks[address]) for name, address in found.inputs.items()}
        left = runtime.blocks[found.inputs["InputTensor"]].view(np.int32)
    device.close()
    assert sizes == {"InputTensor": 9 * 17 * 4}
    assert (left == 0x04030201).all()
    assert not runtime.blocks


def test_plans_with_two_ways_are_run_in_both(plans):
    every = list(ordered([(plan, b"") for plan in plans]))
    assert {plan for (plan, _), has_few_float64 in every if not has_few_float64} == set(plans)
    assert {plan.operator.name for (plan, _), has_few in every if has_few} > {
        "REDUCE",
        "CONVOLUTION",
        "ELEMENT_WISE_EXP",
    }
