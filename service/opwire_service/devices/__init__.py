"""The devices by name. A device's module is imported when it is chosen, not before."""

from __future__ import annotations

from importlib import import_module

from .device import Device

DEVICES = {
    "reference": ".reference:ReferenceDevice",
    "cpu": ".cpu:CpuDevice",
}
"""Name -> module and class."""


def load(name: str) -> Device:
    """Makes the device of a name.

    Raises:
        KeyError: there is no such device.
    """
    module, _, attribute = DEVICES[name].partition(":")
    device: Device = getattr(import_module(module, __name__), attribute)()
    return device
