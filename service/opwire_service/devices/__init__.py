"""Devices by name. The module of a device is only imported when the device is used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from .base import Device, DeviceUnavailable

DEVICES = {"reference": ".reference:ReferenceDevice", "cpu": ".cpu:CpuDevice", "cuda": ".cuda.device:CudaDevice"}
"""Module and class of each kind of device."""

AUTO = "auto"
"""Stands for every numbered device of the machine and the CPU; in a request, for the best device."""

CLUSTER = "cluster"
"""Stands, in a request, for any device of the cluster."""

NUMBERED = frozenset({"cuda"})
"""Kinds of which a machine may have any number of devices: ``cuda:1`` is the second."""


def kind_of(name: str) -> str:
    """Returns the name of a device without its number."""
    return name.partition(":")[0]


def is_device(name: str) -> bool:
    """Whether a name is a valid device name, regardless of this machine."""
    kind, colon, number = name.partition(":")
    return kind in DEVICES and (not colon or (kind in NUMBERED and number.isascii() and number.isdigit()))


def load(name: str, processes: int = 1) -> Device:
    """Creates a device.

    Args:
        name: name of the device.
        processes: number of processes that share it.

    Raises:
        KeyError: the name is not a valid device name.
        DeviceUnavailable: this machine lacks what the device needs.
    """
    if not is_device(name):
        raise KeyError(name)
    kind, _, number = name.partition(":")
    made = _class(kind)
    device: Device = made(int(number or 0), processes=processes) if kind in NUMBERED else made()
    return device


def resolve(names: Sequence[str]) -> tuple[str, ...]:
    """Resolves names to the devices of this machine, without duplicates; ``cuda:0`` becomes ``cuda``.

    Raises:
        KeyError: a name is not a valid device name.
        DeviceUnavailable: a named device is not available; ``auto`` selects only available ones.
    """
    return tuple(dict.fromkeys(each for name in names for each in (_every() if name == AUTO else [_present(name)])))


def _every() -> Iterator[str]:
    for kind in sorted(NUMBERED):
        try:
            count = _class(kind).count()
        except DeviceUnavailable:
            continue
        yield from (_numbered(kind, number) for number in range(count))
    yield "cpu"


def _present(name: str) -> str:
    if not is_device(name):
        raise KeyError(name)
    kind, _, number = name.partition(":")
    if kind not in NUMBERED:
        return name
    count = _class(kind).count()
    if int(number or 0) >= count:
        raise DeviceUnavailable(
            f"there is no device {name}: this machine has {count} {kind} device{'s' * (count != 1)}"
        )
    return _numbered(kind, int(number or 0))


def _numbered(kind: str, number: int) -> str:
    return f"{kind}:{number}" if number else kind


def _class(kind: str) -> Any:
    module, _, attribute = DEVICES[kind].partition(":")
    return getattr(import_module(module, __name__), attribute)
