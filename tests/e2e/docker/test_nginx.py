"""The deployment's load balancer, as a real nginx: what it forwards and what it hides."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from opwire_service.settings import Settings
from tests.support.http.serving import serving
from tests.support.paths import ROOT

CONFIGURATION = ROOT / "docker/nginx/nginx.conf"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")

if not CONFIGURATION.exists():
    pytest.skip("the deployment is not here: these are the tests of an installed wheel", allow_module_level=True)
pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")


def localized(folder: Path, port: int, server: str) -> str:
    """Returns the configuration with local addresses; nginx before 1.27.3 cannot resolve replicas."""
    text = CONFIGURATION.read_text(encoding="utf-8")
    text = text.replace("server opwire:8000 resolve", f"server {server}")
    text, count = re.subn(r"\n\s*server replica:8000 .*", "", text)
    assert count == 1
    text, count = re.subn("listen 8080", f"listen 127.0.0.1:{port}", text)
    assert count == 1
    return text.replace("/tmp/", f"{folder}/").replace("resolver 127.0.0.11", "resolver 127.0.0.1")


@pytest.fixture(scope="module")
def balancer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address of nginx, and that of the server, which it forwards to with and without the prefix /tensors."""
    folder = tmp_path_factory.mktemp("nginx")
    folder.chmod(0o777)  # nginx runs as another user if root starts it
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with serving(Settings(port=0, devices=("reference",), root_path="/tensors")) as running:
        assert running.url is not None
        file = folder / "nginx.conf"
        file.write_text(localized(folder, port, running.url.removeprefix("http://").removesuffix("/tensors")))
        assert NGINX is not None
        with subprocess.Popen([NGINX, "-c", str(file)], stderr=subprocess.PIPE, text=True) as process:
            try:
                url = f"http://127.0.0.1:{port}"
                wait_for_answer(url, process)
                yield url, running.url.removesuffix("/tensors")
            finally:
                process.terminate()


def wait_for_answer(url: str, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 30
    while True:
        try:
            httpx.get(f"{url}/livez")
            return
        except httpx.TransportError:
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < end
            time.sleep(0.05)


@pytest.mark.parametrize("path", ["/livez", "/tensors/livez", "/tensors/v1/server", "/v1/operators/REDUCE"])
def test_routes_are_forwarded(balancer, path):
    assert httpx.get(balancer[0] + path).status_code == 200


@pytest.mark.parametrize("path", ["/metrics", "/tensors/metrics"])
def test_metrics_are_hidden(balancer, path):
    assert "opwire_" in httpx.get(balancer[1] + path).text
    assert httpx.get(balancer[0] + path).status_code == 404


@pytest.mark.parametrize(
    "path",
    ["/%6detrics", "//metrics", "/metrics/", "/tensors//metrics", "/tensors/./metrics", "/x/../tensors/metrics?a=b"],
)
def test_metrics_are_hidden_in_every_spelling(balancer, path):
    with socket.create_connection(("127.0.0.1", int(balancer[0].rpartition(":")[2]))) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"opwire_" not in answer
