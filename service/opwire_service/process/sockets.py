"""Binds the sockets of a server, so that their address is taken before anything else is started."""

from __future__ import annotations

import socket
import sys

_BACKLOG = 2048

SPREAD = sys.platform == "linux"
"""Whether the system distributes connections among sockets that share an address (``SO_REUSEPORT``)."""


def reserve(host: str, port: int) -> list[socket.socket]:
    """Binds sockets for all addresses of a host on one port; port 0 selects a free one.

    Where the system distributes connections among sockets, these only reserve the port, and each worker binds its own:
    a socket shared by all would give most connections to the worker that is quickest to accept.

    Raises:
        OSError: an address is not available.
    """
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    for family, _, _, _, where in dict.fromkeys(found):
        at = (str(where[0]), sockets[0].getsockname()[1] if sockets else port)
        listening = socket.create_server(at, family=family, backlog=_BACKLOG)
        if SPREAD:
            # Binding exclusively first detects another server on this port; from here on the port is shared.
            with listening:
                at = listening.getsockname()[:2]
            listening = bind_shared(family, at)
        sockets.append(listening)
    return sockets


def bind_shared(family: int, at: tuple[str, int]) -> socket.socket:
    """Returns a bound socket that shares its address with others and does not listen yet."""
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    made.bind(at)
    return made
