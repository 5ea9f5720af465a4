"""The node tests of the ``onnx`` package: those whose operators DirectML has give the expected results."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("onnx")

import opwire
from opwire.client.local_client import LocalClient
from opwire.onnx.lowerings import LOWERINGS
from tests.onnx_models.node_cases import node_cases, outcomes

OTHER_RESULTS = {
    "test_attention_4d_causal_fp16": "its products are rounded to FLOAT16 in another order",
    "test_attention_4d_causal_fp16_expanded": "its products are rounded to FLOAT16 in another order",
    "test_dft_inverse": "what cancels is 0, not nearly",
    "test_dft_inverse_opset19": "what cancels is 0, not nearly",
    "test_dynamicquantizelinear": "the quotient of a tie is rounded once, not to FLOAT32 before",
    "test_dynamicquantizelinear_expanded": "the quotient of a tie is rounded once, not to FLOAT32 before",
}
"""Cases whose results differ from those expected, and why."""

ON_CPU = {
    "NonZero": "the sizes of its output depend on elements",
    "OneHot": "its depth is a float, and no constant of the cases",
    "ReduceLogSumExp": "its cases are of FLOAT64",
    "Unique": "the sizes of its output depend on elements",
}
"""Operators with a lowering that stay on the CPU in every case, and why."""


@pytest.fixture(scope="module")
def runner() -> Iterator[LocalClient]:
    with opwire.local() as client:
        yield client


def test_every_operator_gives_the_expected_results_in_its_first_case(runner: LocalClient) -> None:
    """Runs the first case of each operator that has a lowering whose nodes all become operators."""
    left = {name for _, name in LOWERINGS} & {case.operator for case in node_cases().values()}
    errors: dict[str, str] = {}
    for case in node_cases().values():
        if case.operator in left and case.name not in OTHER_RESULTS:
            ((_, outcome),) = outcomes(runner, [case.name])
            if not outcome.reasons:
                left.remove(case.operator)
                errors |= {case.name: outcome.error} if outcome.error else {}
    assert errors == {}
    assert left == ON_CPU.keys()


@pytest.mark.thorough
def test_all_cases_give_the_expected_results(runner: LocalClient) -> None:
    wrong = {case.name for case, outcome in outcomes(runner) if outcome.error}
    assert wrong == OTHER_RESULTS.keys()
