"""The clients over TLS, directly and through a proxy's tunnel."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from opwire import errors
from tests.support.http.sockets import listening

ANSWER = b'HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{"operators":[]}'


@pytest.fixture
def secure_url(certificate: tuple[Path, Path]) -> Iterator[str]:
    """The URL of a server with TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    def answers(connection: socket.socket, over: threading.Event) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            secured.settimeout(5)
            while secured.recv(65536):
                secured.sendall(ANSWER)

    with listening(answers) as url:
        yield url.replace("http:", "https:")


@pytest.fixture
def tunnels() -> Iterator[tuple[str, list[bytes]]]:
    """The URL of a proxy, and the heads of the CONNECT requests it gets."""
    heads: list[bytes] = []

    def pass_on(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(65536):
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)

    def tunnel(connection: socket.socket, over: threading.Event) -> None:
        heads.append(connection.recv(65536))
        host, _, port = heads[-1].split()[1].decode().partition(":")
        with socket.create_connection((host, int(port)), timeout=5) as server:
            connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            back = threading.Thread(target=pass_on, args=(server, connection))
            back.start()
            pass_on(connection, server)
            back.join()

    with listening(tunnel) as url:
        yield url, heads


def context_trusting(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate[0]))


def test_calls_to_a_trusted_server_share_a_connection(make_client, secure_url, certificate):
    client = make_client(secure_url, verify=context_trusting(certificate), timeout=10)
    assert [client.operators() for _ in range(3)] == [[]] * 3
    client.close()


def test_trusted_certificates_come_from_the_environment(make_client, secure_url, certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    client = make_client(secure_url, timeout=10)
    assert client.operators() == []
    client.close()


def test_a_plain_connection_needs_no_certificates(make_client, server_url, monkeypatch, tmp_path):
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none"))
    client = make_client(server_url, timeout=10)
    client.ready()
    client.close()


def test_an_unknown_certificate_is_refused_unless_verification_is_off(make_client, secure_url):
    with pytest.raises(errors.ConnectError, match="certificate verify failed"):
        make_client(secure_url, max_retries=0).operators()
    client = make_client(secure_url, verify=False, timeout=10)
    assert client.operators() == []
    client.close()


def test_a_server_is_reached_through_a_tunnel(make_client, secure_url, certificate, tunnels, monkeypatch):
    url, heads = tunnels
    for name in ("no_proxy", "NO_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", url.replace("://", "://user:secret@"))
    client = make_client(secure_url, verify=context_trusting(certificate), timeout=10)
    assert [client.operators() for _ in range(2)] == [[]] * 2
    client.close()
    (head,) = heads
    assert head.startswith(b"CONNECT " + secure_url.removeprefix("https://").encode() + b" HTTP/1.")
    assert b"Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n" in head
