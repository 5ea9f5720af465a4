"""Every declared operator: random descs are accepted at their level, and each rule can be broken alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from opwire.check import check, validate
from opwire.level import FeatureLevel
from opwire.operator import Operator
from opwire.operators import OPERATORS
from tests.strategies import broken, descs
from tests.strategies.levels import lowest_level
from tests.strategies.outputs import output_sizes
from tests.support.profiles import request_examples

DRAWN = settings(request_examples(20), derandomize=True, database=None, phases=[Phase.generate])
FEW = settings(DRAWN, max_examples=DRAWN.max_examples // 3)

ROUND = settings(DRAWN, max_examples=DRAWN.max_examples // 8)
"""Rounds; most operators have every rule broken in the first one, so later ones run only if needed."""

ROUNDS = 30

ALL = pytest.mark.parametrize("operator", OPERATORS.values(), ids=lambda operator: operator.name)


def violations(operator: str, desc: dict[str, Any], level: FeatureLevel) -> list[tuple[str, str]]:
    """Returns the violations and warnings."""
    found = validate({"type": operator, "desc": desc}, level, strict=True).violations
    return [(violation.code.value, violation.pointer) for violation in found]


@ALL
def test_random_descs_are_accepted(operator):
    @FEW
    @given(st.data())
    def holds(data):
        drawn = data.draw(descs(operator))
        plan = check(drawn.request, drawn.level)
        expected = output_sizes(operator, drawn.desc)
        found = {name: list(plan.outputs[name].sizes) for name in expected}
        assert found == expected, "the output's sizes are not those of SIZES in tests/strategies, or of the first input"
        # Derived outputs and counts can also be given explicitly.
        whole = dict(drawn.desc)
        for member in operator.members.counts:
            whole[member.name] = len(whole[member.counts[0]])
        for name, desc in plan.outputs.items():
            array, bracket, _ = name.partition("[")
            if not bracket:
                whole[name] = desc.to_json()
            elif name.endswith("[0]"):
                whole[array] = [part.to_json() for part in plan.outputs.values()]
        given = validate({"type": operator.name, "desc": whole}, drawn.level)
        assert given.valid
        assert given.outputs == plan.outputs
        lowest = given.minimum_feature_level
        assert lowest is not None
        assert lowest <= drawn.level
        right, is_decided = lowest_level(operator.name, drawn.desc)
        assert lowest is right if is_decided else lowest >= right
        if lowest > FeatureLevel.V1_0:
            below = [level for level in FeatureLevel if level < lowest][-1]
            assert violations(operator.name, whole, below)

    holds()


@ALL
def test_each_rule_is_broken_alone(operator):
    left = set(range(len(operator.rules)))
    for number in range(ROUNDS):

        @seed(number)
        @ROUND
        @given(st.data())
        def breaks(data):
            drawn = data.draw(descs(operator))
            for i, rule in enumerate(operator.rules):
                for desc, code, place in broken(rule, drawn):
                    found = violations(operator.name, desc, drawn.level)
                    assert (code, f"/desc{place}") in found, (rule, desc, drawn.level, found)
                    if {pointer for _, pointer in found} == {f"/desc{place}"}:
                        left.discard(i)

        breaks()
        if not left:
            break
    assert not left, [operator.rules[i] for i in left]


def has_minimum(operator: Operator[Any]) -> bool:
    return any(getattr(member, "least", None) is not None for member in operator.members.attributes)


BOUNDED = [operator for operator in OPERATORS.values() if has_minimum(operator)]


@pytest.mark.parametrize("operator", BOUNDED, ids=lambda operator: operator.name)
def test_numbers_below_their_minimum_are_refused(operator):
    @settings(DRAWN, max_examples=3)
    @given(st.data())
    def holds(data):
        drawn = data.draw(descs(operator))
        for member in operator.members.attributes:
            least = getattr(member, "least", None)
            if least is None:
                continue
            value: Any = drawn.desc[member.name]
            if isinstance(value, list) and value:
                desc, place = {**drawn.desc, member.name: [least - 1, *value[1:]]}, f"/desc/{member.name}/0"
            else:
                desc, place = {**drawn.desc, member.name: least - 1}, f"/desc/{member.name}"
            assert violations(operator.name, desc, drawn.level) == [("out_of_range", place)]

    holds()
