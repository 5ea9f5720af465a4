"""Starts a server with one process or several, according to the settings."""

from __future__ import annotations

import logging
from dataclasses import replace
from ipaddress import ip_address

from ..devices import NUMBERED, kind_of, resolve
from ..devices.ray.requirements import require_ray
from ..settings import Settings
from .logging import configure
from .memory_trim import freeze_heap
from .server import HttpServer, announce
from .signals import stop_on_signals
from .supervisor import Supervisor

log = logging.getLogger("opwire")


def serve(settings: Settings) -> int:
    """Serves until SIGINT or SIGTERM, then completes accepted work. Returns the exit code.

    Raises:
        OSError, ValueError: a file named in the settings cannot be read or is invalid, or a device is not available on
            this machine.
    """
    configure(settings.log_level, settings.log_format)
    _warn(settings)
    settings = replace(settings, devices=resolve(settings.devices))
    if settings.ray:
        require_ray(settings.ray)
    log.info("devices: %s", ", ".join(settings.devices))
    if settings.workers > 1 or any(kind_of(name) in NUMBERED for name in settings.devices):
        return Supervisor(settings).run()
    server = HttpServer(settings, on_ready=_begin)
    # After it has stopped, uvicorn raises the signals again for the handlers it had replaced.
    stop_on_signals(server.handle_exit)
    server.run()
    return 0 if server.started and not server.failed else 1


def _begin(url: str) -> None:
    freeze_heap()
    announce(url)


def _warn(settings: Settings) -> None:
    if settings.api_keys_file is None and not _is_loopback(settings.host):
        log.warning("listening on %s without API keys: anyone who can reach the server can use it", settings.host)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
