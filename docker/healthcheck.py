"""Health check of the container: exits with 0 if the server is ready."""

from __future__ import annotations

import os
import ssl
import sys
from http.client import HTTPConnection, HTTPSConnection

SECONDS = 4


def status(port: int, tls: bool) -> int:
    """Returns the HTTP status of /readyz."""
    if tls:
        connection: HTTPConnection = HTTPSConnection("127.0.0.1", port, timeout=SECONDS, context=_context())
    else:
        connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    connection.request("GET", "/readyz")
    return connection.getresponse().status


def _context() -> ssl.SSLContext:
    """Returns a context without verification, because the certificate is for the public host name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


if __name__ == "__main__":
    sys.exit(status(int(os.environ["OPWIRE_PORT"]), bool(os.environ.get("OPWIRE_TLS_CERTIFICATE"))) != 200)
