"""Faults planted in ONNX Runtime are found at their nodes and named, and nothing else is called wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import opwire

pytest.importorskip("onnxruntime")

from benchmarks.diff import inputs_of, unmodified, with_faults
from opwire.difference import Verdict
from tests.support.planting.networks import SMALL

NETWORKS = ("tagger", "decoder")


@pytest.fixture(scope="module")
def runner() -> Iterator[opwire.LocalClient]:
    with opwire.local() as client:
        yield client


@pytest.mark.parametrize("name", NETWORKS)
def test_nothing_is_wrong_with_onnx_runtime(name: str, runner: opwire.LocalClient) -> None:
    model = SMALL[name]()
    found, _ = unmodified(model, inputs_of(model), runner)
    assert {node.verdict for node in found.nodes} <= {Verdict.EXACT, Verdict.FAITHFUL, Verdict.EXPLAINED}


@pytest.mark.parametrize("name", NETWORKS)
def test_planted_faults_are_found_and_named(name: str, runner: opwire.LocalClient) -> None:
    model = SMALL[name]()
    score = with_faults(model, inputs_of(model), 10, 0, runner)
    assert score.planted.total() >= 8
    assert not score.false
    assert score.found == score.planted
    assert score.named.total() >= 0.8 * score.planted.total(), score.missed
