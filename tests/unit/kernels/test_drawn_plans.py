"""For any valid desc, devices match plain Python and write nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from hypothesis import given

from opwire.check import check
from opwire_service.devices import load
from opwire_service.devices.base import Device
from opwire_service.kernels.executable import EXECUTABLE
from tests.oracles import oracle
from tests.strategies.operators import Case, cases
from tests.support.execution import execute
from tests.support.profiles import examples, shared_examples

OF_REDUCE = 100
"""Total number of examples; the test covers twelve operators."""


CARD = [pytest.mark.cuda, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", params=["reference and cpu", pytest.param("cuda", marks=CARD)])
def devices(request: pytest.FixtureRequest, cpu_device: Device) -> Iterator[list[Device]]:
    """Drawing cases and computing the expected result is slower than any device, so both are shared by several."""
    with ExitStack() as stack:
        names = request.param.split(" and ")
        yield [cpu_device if name == "cpu" else stack.enter_context(closing(load(name))) for name in names]


def run_case(devices: list[Device], case: Case) -> None:
    plan = check(case.operator, case.level)
    right = oracle.expected(plan, case.inputs)
    for device in devices:
        oracle.assert_answers(plan, execute(device, plan, case.buffers), right)


@pytest.mark.parametrize("name", EXECUTABLE)
def test_random_cases_match_plain_python(devices, name):
    @(examples(OF_REDUCE) if name == "REDUCE" else shared_examples(240, len(EXECUTABLE)))
    @given(cases((name,)))
    def holds(case):
        run_case(devices, case)

    holds()
