"""The run for compute-sanitizer reaches every CUDA kernel, and fails if it does not."""

from __future__ import annotations

import pytest

from opwire.check import Plan
from tests.cuda import sanitize


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    return [plan for plan, _ in sanitize.cases()]


def test_every_kernel_is_covered(plans):
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
def test_an_uncovered_operator_is_reported(plans, operator):
    assert operator in sanitize.missing(plan for plan in plans if plan.operator.name != operator)


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
            isinstance(kernel, sanitize.Kernel)
            and (kernel.entry, kernel.splits) == (entry, splits)
            and ("PASS", passes) in kernel.computes
        )

    rest = [plan for plan in plans if not any(map(is_excluded, sanitize.launched(plan)))]
    assert any(map(is_excluded, sanitize.missing(rest)))


def test_an_uncovered_source_is_reported(plans):
    rest = [plan for plan in plans if not any(k.entry == "pool_strips" for k in sanitize.launched(plan))]
    assert {"strips", ("strips", "pool_strips")} <= set(sanitize.missing(rest))
