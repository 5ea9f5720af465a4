"""The devices by name. A device's module is imported when it is chosen, not before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from .base import Device, DeviceUnavailable

DEVICES = {
    "reference": ".reference:ReferenceDevice",
    "cpu": ".cpu:CpuDevice",
    "cuda": ".cuda.device:CudaDevice",
}
"""Name -> module and class."""

AUTO = "auto"
"""In the place of a name: every numbered device that there is, and the CPU."""

CLUSTER = "cluster"
"""In the place of a name, in a request: any device of the cluster."""

NUMBERED = frozenset({"cuda"})
"""Devices of which a machine may have several, or none: ``cuda:1`` is the second."""


def kind_of(name: str) -> str:
    """The name of a device without its number."""
    return name.partition(":")[0]


def is_device(name: str) -> bool:
    """Whether there is a device of a name, on whatever machine."""
    kind, colon, number = name.partition(":")
    return kind in DEVICES and (not colon or (kind in NUMBERED and number.isascii() and number.isdigit()))


def load(name: str, processes: int = 1) -> Device:
    """Makes the device of a name.

    Args:
        processes: that use it together.

    Raises:
        KeyError: there is no such device.
        DeviceUnavailable: this machine has not what it needs.
    """
    if not is_device(name):
        raise KeyError(name)
    kind, _, number = name.partition(":")
    made = _class(kind)
    device: Device = made(int(number or 0), processes=processes) if kind in NUMBERED else made()
    return device


def resolve(names: Sequence[str]) -> tuple[str, ...]:
    """The devices that some names stand for on this machine, each once; ``cuda:0`` is ``cuda``.

    Raises:
        KeyError: there is no such device.
        DeviceUnavailable: a device that is named is not there. ``auto`` takes what there is.
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
        raise DeviceUnavailable(f"there is no {name}: this machine has {count} of them")
    return _numbered(kind, int(number or 0))


def _numbered(kind: str, number: int) -> str:
    return f"{kind}:{number}" if number else kind


def _class(kind: str) -> Any:
    module, _, attribute = DEVICES[kind].partition(":")
    return getattr(import_module(module, __name__), attribute)
