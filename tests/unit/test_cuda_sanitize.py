"""The run that is watched by compute-sanitizer reaches every CUDA kernel, and notices if it does not."""

from __future__ import annotations

import pytest

from opwire.check import Plan
from tests.cuda import sanitize


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    return [plan for plan, _ in sanitize.cases()]


def test_every_kernel_is_run(plans):
    assert sanitize.missing(plans) == []
    assert sanitize.entries() >= {
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
def test_an_operator_that_is_not_run_is_missed(plans, operator):
    assert operator in sanitize.missing(plan for plan in plans if plan.operator.name != operator)


@pytest.mark.parametrize(
    ("entry", "passes", "splits"),
    [
        ("reduce_columns", "ONLY", False),
        ("reduce_columns", "REPAIR", True),
        ("reduce_rows", "QUICK", True),
        ("reduce_rows", "ONLY", True),
    ],
)
def test_a_layout_that_is_not_run_is_missed(plans, entry, passes, splits):
    def left_out(kernel: object) -> bool:
        return (
            isinstance(kernel, sanitize.Kernel)
            and (kernel.entry, kernel.splits) == (entry, splits)
            and ("PASS", passes) in kernel.computes
        )

    rest = [plan for plan in plans if not any(map(left_out, sanitize.launched(plan)))]
    assert any(map(left_out, sanitize.missing(rest)))


def test_a_source_that_is_not_run_is_missed(plans):
    rest = [plan for plan in plans if not any(k.entry == "pool_strips" for k in sanitize.launched(plan))]
    assert {"strips", ("strips", "pool_strips")} <= set(sanitize.missing(rest))
