"""Judges a device by DirectML's answers, operator by operator."""

from __future__ import annotations

from collections.abc import Sequence

from opwire_service.devices.base import Device
from tests.directml.answers import report
from tests.directml.computed import Computed
from tests.directml.differences import Rule, differences, rules

MOST = 1 / 2
"""The largest share of an operator's elements that may differ for listed reasons, on average over its cases."""


def judge(cases: Sequence[Computed], device: Device) -> None:
    """Checks that cases agree with DirectML, or differ for a listed reason."""
    _judge(cases, device)


def judge_all(cases: Sequence[Computed], device: Device) -> None:
    """Checks all cases of an operator, that most elements are not listed, and that each of its rules is needed."""
    listed, used = _judge(cases, device)
    assert listed <= MOST * len(cases), f"{listed / len(cases):.0%} of the elements differ"
    unused = [rule for rule in rules().get(cases[0].name, ()) if rule not in used]
    assert not unused, f"these rules explain nothing that others do not: {unused}"


def _judge(cases: Sequence[Computed], device: Device) -> tuple[float, list[Rule]]:
    wrong: list[str] = []
    used: list[Rule] = []
    listed = 0.0
    for case in cases:
        found = list(differences(case, case.run(device)))
        left = [each for each in found if each.unexplained.any()]
        used += [rule for each in found for rule in each.used]
        listed += max((each.different.mean() for each in found), default=0)
        wrong += report(case, left) if left else []
    assert not wrong, "\n".join(["not as DirectML answers, for no listed reason", *wrong])
    return listed, used
