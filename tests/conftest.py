"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from opwire_service.devices import load
from opwire_service.devices.base import Device, DeviceUnavailable
from opwire_service.devices.cpu import CpuDevice
from tests.clients import KINDS, MakeClient, clients
from tests.serving import serving

# The kernels that a test needs are compiled the first time, which takes longer than the test.
DEVICE_NAMES = ["reference", "cpu", pytest.param("cuda", marks=[pytest.mark.cuda, pytest.mark.timeout(600)])]
"""The devices that every test of a device runs on."""


@pytest.fixture(scope="session", params=DEVICE_NAMES)
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    if request.param == CpuDevice.name:
        yield request.getfixturevalue("cpu_device")
        return
    try:
        made = load(request.param)
    except DeviceUnavailable as reason:
        pytest.skip(str(reason))
    yield made
    made.close()


@pytest.fixture(scope="session")
def cpu_device() -> Iterator[CpuDevice]:
    """The CPU device with all kernels compiled, so that they are tested, and not what stands in for them."""
    made = CpuDevice()
    made.warm_up()
    yield made
    made.close()


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """The address of a real server with default settings, shared by the tests of a session."""
    with serving() as server:
        assert server.url is not None
        yield server.url


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """On which loop ``anyio`` tests run."""
    return "asyncio"


@pytest.fixture(params=KINDS)
def make_client(request: pytest.FixtureRequest) -> Iterator[MakeClient]:
    """Makes clients, with and without ``await``: a test that uses it runs with either."""
    with clients(request.param) as make:
        yield make
