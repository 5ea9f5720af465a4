"""Zeros of different sign are different constants, as they make different zeros."""

from __future__ import annotations

from opwire.formulas import Constant


def test_zeros_of_different_sign_are_different():
    assert Constant(0.0) != Constant(-0.0)
    assert len({Constant(0.0): 1, Constant(-0.0): 2}) == 2
    assert Constant(1.0) == Constant(1)
