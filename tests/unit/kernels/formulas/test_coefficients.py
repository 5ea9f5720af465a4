"""The coefficients of functions keep the bounds that their table states."""

from __future__ import annotations

import pytest

from opwire_service.kernels.formulas import coefficients
from scripts.coefficients import Claim, claims

LONG = ("TANH", "ERF", "TAIL", "ERFC")
"""Proofs that take seconds to minutes."""

CLAIMS = claims()


def test_every_entry_has_a_proof():
    tables = {name for name, value in vars(coefficients).items() if name.isupper() and isinstance(value, tuple)}
    assert {name.removesuffix("_OVER") for name in tables} == set(coefficients.WITHIN) == set(CLAIMS)


@pytest.mark.parametrize("name", sorted(CLAIMS.keys() - LONG))
def test_bounds_are_proven(name):
    assert CLAIMS[name].holds(coefficients.WITHIN[name])


@pytest.mark.thorough
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", LONG)
def test_bounds_of_long_ranges_are_proven(name):
    assert CLAIMS[name].holds(coefficients.WITHIN[name])


def test_a_wrong_coefficient_is_found():
    right = CLAIMS["LOG"]
    ((first, *rest), below) = right.approximation
    wrong = Claim(([first * (1 + 2.0**-40), *rest], below), right.function, right.low, right.high)
    assert not wrong.holds(coefficients.WITHIN["LOG"])
