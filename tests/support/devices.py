"""Devices that not every machine has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from opwire_service.devices import load
from opwire_service.devices.base import Device, DeviceUnavailable


@contextmanager
def loaded(name: str) -> Iterator[Device]:
    """Yields a device; skips the test if this machine does not have it."""
    try:
        device = load(name)
    except DeviceUnavailable as reason:
        pytest.skip(str(reason))
    yield device
    device.close()
