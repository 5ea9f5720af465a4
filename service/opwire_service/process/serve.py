"""Starts a server with one process or several, according to the settings."""

from __future__ import annotations

import logging
from contextlib import closing
from ipaddress import ip_address

from ..devices import NUMBERED, kind_of
from ..settings import Settings
from .logging import configure
from .memory_trim import freeze_heap
from .server import HttpServer, address, announce
from .signals import reload_on_signal, stop_on_signals
from .startup import prepared, require_devices
from .supervisor import Supervisor

log = logging.getLogger("opwire")


def serve(settings: Settings) -> int:
    """Serves until SIGINT or SIGTERM, then completes accepted work. Returns the exit code.

    Raises:
        OSError, ValueError: the settings cannot be used on this machine.
    """
    configure(settings.log_level, settings.log_format)
    _warn(settings)
    settings, sockets = prepared(settings)
    log.info("devices: %s", ", ".join(settings.devices))
    if settings.workers > 1 or any(kind_of(name) in NUMBERED for name in settings.devices):
        return Supervisor(settings, sockets).run()
    server = HttpServer(settings, on_ready=_begin)
    # After it has stopped, uvicorn raises the signals again for the handlers it had replaced.
    stop_on_signals(server.handle_exit)
    reload_on_signal(server.reload_keys, settings)
    server.run(sockets)
    return 0 if server.started and not server.failed else 1


def check(settings: Settings) -> str:
    """Does all that a server does at its start except serving. Returns a description of the server.

    Raises:
        OSError, ValueError: the settings cannot be used on this machine.
    """
    configure(settings.log_level, settings.log_format)
    _warn(settings)
    settings, sockets = prepared(settings)
    HttpServer(settings)
    require_devices(settings)
    with closing(sockets[0]):
        url = address(settings, sockets[0])
    return f"{url}, devices {', '.join(settings.devices)}"


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
