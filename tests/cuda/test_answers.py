"""Every result of a card is DirectML's own, or differs from it for a listed reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from opwire_service.devices import load
from opwire_service.devices.base import Device, DeviceUnavailable
from tests.directml.computed import by_operator
from tests.directml.judging import judge

pytestmark = [pytest.mark.cuda, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cuda() -> Iterator[Device]:
    try:
        device = load("cuda")
    except DeviceUnavailable as reason:
        pytest.skip(str(reason))
    yield device
    device.close()


@pytest.mark.parametrize("name", by_operator())
def test_the_card_answers_as_directml_does(cuda, name):
    cases = by_operator()[name]
    if not cuda.executes(name):
        pytest.skip(f"cards do not run {name}")
    judge(cases, cuda)
