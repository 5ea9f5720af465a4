"""A server behind a proxy with a path prefix, which the proxy strips or keeps, with standard clients."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from typer.testing import CliRunner

from opwire import Client
from opwire_service.cli.app import app
from opwire_service.process.application import create_app
from opwire_service.settings import Settings
from tests.support.http.serving import serving

ROOT = "/tensors/dml"
ARRAY = np.array([[1, 5, 2], [9, 0, 3]], np.float32)
ATTRIBUTES = {"Axes": "[1]", "AxisDirection": "INCREASING"}


class Proxy(ThreadingHTTPServer):
    """Forwards requests below ROOT.

    Attributes:
        server_url: The URL of the server behind it.
        strips: Whether it removes ROOT from the path.
    """

    daemon_threads = True

    def __init__(self, server_url: str, *, strips: bool) -> None:
        super().__init__(("127.0.0.1", 0), _ForwardingHandler)
        self.server_url = server_url
        self.strips = strips


class _ForwardingHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        assert isinstance(self.server, Proxy)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path
        if not re.match(f"{ROOT}(?=[/?]|$)", path):
            answer, content = httpx.Response(418), b""
        else:
            path = path.removeprefix(ROOT) if self.server.strips else path
            url = self.server.server_url + (path or "/")
            headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            with httpx.stream(self.command, url, headers=headers, content=body, timeout=30) as answer:
                content = b"".join(answer.iter_raw())
        self.send_response(answer.status_code)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving(Settings(port=0, root_path=ROOT)) as running:
        assert running.url is not None
        yield running.url


@pytest.fixture(scope="module", params=[True, False], ids=["strips", "passes"])
def base(server: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The server's URL as its clients see it."""
    with Proxy(server, strips=request.param) as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{proxy.server_address[1]}{ROOT}"
        proxy.shutdown()
        thread.join()


def tensor() -> Any:
    return triton.InferInput("InputTensor", ARRAY.shape, "FP32").set_data_from_numpy(ARRAY)


def test_the_client_works_below_a_prefix(base):
    with Client(base) as client:
        assert client.argmax(ARRAY, axes=[1]).output.tolist() == [[1], [0]]
        assert client.server()["name"] == "opwire"


def test_triton_client_works_below_a_prefix(base):
    with triton.InferenceServerClient(base.removeprefix("http://")) as client:
        assert client.is_server_live()
        assert client.get_server_metadata()["name"] == "opwire"
        result = client.infer("ARGMAX", [tensor()], parameters=ATTRIBUTES)
        assert result.as_numpy("OutputTensor").tolist() == [[1], [0]]
        assert client.get_inference_statistics("ARGMAX", "6400")["model_stats"][0]["inference_count"] > 0


@pytest.mark.anyio
async def test_triton_async_client_works_below_a_prefix(base):
    async with triton_aio.InferenceServerClient(base.removeprefix("http://")) as client:
        result = await client.infer("ARGMAX", [tensor()], parameters=ATTRIBUTES)
        assert result.as_numpy("OutputTensor").tolist() == [[1], [0]]


def test_pages_and_their_links_work_below_a_prefix(base):
    # The pages are on the proxy's host, so their links begin with the proxy's prefix.
    host = base.removesuffix(ROOT)
    for page, least in (("", 10), ("/", 10), ("/try", 20), ("/operators/REDUCE", 10), ("/docs", 4)):
        links = re.findall('(?:src|href)="([^"]+)"', httpx.get(base + page).text)
        assert len(links) >= least
        for link in links:
            assert link.startswith(ROOT)
            assert httpx.get(host + link).status_code == 200, link
    assert httpx.get(f"{base}/openapi.json").json()["servers"][0] == {"url": ROOT}
    for path in ("/livez", "/metrics", "/v1/operators/ARGMAX"):
        assert httpx.get(base + path).status_code == 200


@pytest.mark.parametrize(
    ("path", "media"), [("/v1/none", "application/problem+json"), ("/v2/none", "application/json")]
)
def test_problems_are_returned_below_a_prefix(base, path, media):
    answer = httpx.get(base + path)
    assert (answer.status_code, answer.headers["content-type"]) == (404, media)


def test_a_similar_prefix_is_not_found(server):
    assert httpx.get(f"{server}{ROOT}x/livez").status_code == 404


def test_api_keys_are_required_below_a_prefix(tmp_path):
    file = tmp_path / "keys"
    file.write_text("a-long-enough-key-for-this-test\n")
    with serving(Settings(port=0, root_path=ROOT, api_keys_file=file)) as running:
        for prefix in ("", ROOT):
            assert httpx.get(f"{running.url}{prefix}/livez").status_code == 200
            for path in ("/v1/server", "/metrics", "/v2", "/v2/models/ARGMAX"):
                assert httpx.get(f"{running.url}{prefix}{path}").status_code == 401


@pytest.mark.parametrize("path", ["/v1", "/v2", "/docs", "/livez", "/v2/models"])
def test_a_route_cannot_be_the_root_path(path):
    with pytest.raises(ValueError, match="collides with a route"):
        create_app(Settings(root_path=path))


@pytest.mark.parametrize("path", ["tensors", "/a b", '/a"b', "//", "/a//b"])
def test_invalid_root_paths_are_refused(path):
    result = CliRunner().invoke(app, ["serve", "--port", "0", "--root-path", path])
    assert result.exit_code == 2
    assert "expected a path such as /tensors" in re.sub(r"[\s│]+", " ", result.output)
