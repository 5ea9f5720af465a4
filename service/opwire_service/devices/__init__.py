"""The devices by name. A device's module is imported when it is chosen, not before."""

from __future__ import annotations

from importlib import import_module

from .device import Device

DEVICES = {
    "reference": ".reference:ReferenceDevice",
    "cpu": ".cpu:CpuDevice",
    "cuda": ".cuda:CudaDevice",
}
"""Name -> module and class."""

NUMBERED = frozenset({"cuda"})
"""Devices of which a machine may have several, or none: ``cuda:1`` is the second."""


def kind_of(name: str) -> str:
    """The name of a device without its number."""
    return name.partition(":")[0]


def is_device(name: str) -> bool:
    """Whether there is a device of a name, on whatever machine."""
    kind, colon, number = name.partition(":")
    return kind in DEVICES and (not colon or (kind in NUMBERED and number.isascii() and number.isdigit()))


def load(name: str) -> Device:
    """Makes the device of a name.

    Raises:
        KeyError: there is no such device.
        DeviceUnavailable: this machine has not what it needs.
    """
    if not is_device(name):
        raise KeyError(name)
    kind, _, number = name.partition(":")
    module, _, attribute = DEVICES[kind].partition(":")
    made = getattr(import_module(module, __name__), attribute)
    device: Device = made(int(number)) if number else made()
    return device
