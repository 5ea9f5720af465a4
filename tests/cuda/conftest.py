"""The devices that tests on a GPU compare."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from opwire_service.devices.cuda.device import CudaDevice
from tests.support.devices import loaded


@pytest.fixture(scope="module")
def cuda() -> Iterator[CudaDevice]:
    """A GPU, which each module takes anew, so that no module finds the memory of another."""
    with loaded("cuda") as device:
        assert isinstance(device, CudaDevice)
        yield device
