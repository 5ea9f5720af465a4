"""What a server needs before it loads its devices: files, devices and extras that exist, and a free port."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from ..devices import load, resolve
from ..devices.ray.requirements import require_ray
from ..http.security.api_keys import ApiKeys
from ..settings import Settings, UnusableSetting
from .sockets import reserve

T = TypeVar("T")
R = TypeVar("R")


def prepared(settings: Settings) -> tuple[Settings, list[socket.socket]]:
    """Returns the settings with the devices of this machine, and the bound sockets; closes none of them.

    Raises:
        UnusableSetting: a file cannot be read or is invalid, a device or an extra is not there, or the port is in use.
    """
    if settings.api_keys_file is not None:
        _using("api_keys_file", ApiKeys.read, settings.api_keys_file)
    if settings.tls_certificate is not None:
        _require_certificate(settings.tls_certificate, settings.tls_key)
    settings = replace(settings, devices=_using("devices", resolve, settings.devices))
    if settings.ray:
        _using("ray", require_ray, settings.ray)
    return settings, bound(settings)


def bound(settings: Settings) -> list[socket.socket]:
    """Binds sockets for the address of a server.

    Raises:
        UnusableSetting: the host is not one of this machine, or the port is in use.
    """
    try:
        found = socket.getaddrinfo(settings.host or None, settings.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise UnusableSetting("host", f"{settings.host}: {error.strerror or error}") from None
    try:
        return reserve(settings.host, settings.port)
    except OSError as error:
        is_host = all(not _is_own(family, where[0]) for family, _, _, _, where in found)
        said = f"{settings.host}:{settings.port}: {error.strerror or error}"
        raise UnusableSetting("host" if is_host else "port", said) from None


def require_devices(settings: Settings) -> None:
    """Loads the devices and closes them again.

    Raises:
        UnusableSetting: a device cannot be used.
    """
    for name in settings.devices:
        _using("devices", load, name).close()


def _is_own(family: int, host: object) -> bool:
    """Whether an address is one of this machine."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True


def _using(setting: str, call: Callable[[T], R], value: T) -> R:
    """Calls a function with the value of a setting, which its errors then name."""
    try:
        return call(value)
    except (OSError, ValueError) as error:
        name = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
        raise UnusableSetting(setting, f"{name}{getattr(error, 'strerror', None) or error}") from None


def _require_certificate(certificate: Path, key: Path | None) -> None:
    """Refuses a certificate or key that cannot be used."""
    for setting, file in (("tls_certificate", certificate), ("tls_key", key)):
        if file is not None:
            _using(setting, Path.read_bytes, file)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:
        files = " and ".join(str(file) for file in (certificate, key) if file)
        said = f"{files}: not a certificate chain and its key: {getattr(error, 'strerror', None) or error}"
        raise UnusableSetting("tls_certificate", said) from None
