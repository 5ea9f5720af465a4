"""The error bounds of functions in pairs of FLOAT32 are proven, operation by operation."""

from __future__ import annotations

import pytest

from opwire_service.kernels.formulas import pairs
from scripts.pairs import bound


@pytest.mark.parametrize("name", pairs.PAIRS.own)
def test_bounds_are_proven(name):
    assert pairs.PAIRS.own[name] / 1.5 < bound(name) <= pairs.PAIRS.own[name]
