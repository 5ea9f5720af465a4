"""API keys, TLS, CORS, bounds on heads, and what logs and pages must not reveal."""

from __future__ import annotations

import base64
import json
import re
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

from opwire_service.process.server import HttpServer
from opwire_service.settings import Limits, Settings
from tests.support.http.bodies import large_answer
from tests.support.http.problems import read_problem
from tests.support.http.processes import process
from tests.support.http.serving import serving
from tests.support.http.sockets import connect, next_answer, read_answer, talk

KEY, OTHER_KEY = "correct-horse.battery~staple+1/2==", "another_key"
SOURCE = {"DataType": "FLOAT32", "Sizes": [3]}
OPERATOR = {"type": "REDUCE", "desc": {"Function": "SUM", "InputTensor": SOURCE, "Axes": [0]}}
TENSOR = base64.b64encode(bytes(range(12))).decode()
REQUEST = {"operator": OPERATOR, "inputs": {"InputTensor": TENSOR}}


@pytest.fixture(scope="module")
def keys_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text(f"# who may\n\nalice: {KEY}  # hers\n{OTHER_KEY}\n")
    return file


@pytest.fixture(scope="module")
def guarded(keys_file: Path) -> Iterator[str]:
    with serving(Settings(port=0, api_keys_file=keys_file)) as server:
        yield server.url or ""


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer("wrong"),
        bearer(KEY[:-1]),
        bearer(KEY + "="),
        bearer("alice:" + KEY),
        bearer("alice"),
        bearer("#"),
        bearer("x" * 20_000),
        {"Authorization": KEY},
        {"Authorization": "Bearer"},
        {"Authorization": f"Basic {KEY}"},
        {"Authorization": f"Bearer{KEY}"},
        {"X-Api-Key": KEY},
    ],
)
@pytest.mark.parametrize("path", ["/v1/execute", "/v1/batch", "/v1/validate"])
def test_data_routes_require_a_key(guarded, path, headers):
    response = httpx.post(guarded + path, json=REQUEST, headers=headers)
    problem = read_problem(401, response.headers, response.content)
    assert problem["code"] == "unauthorized"
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert KEY not in response.text


@pytest.mark.parametrize(
    "path", ["/v1/server", "/v1/server/load", "/v1/nothing", "/metrics", "/v2", "/v2/models/ARGMAX"]
)
def test_reading_requires_a_key(guarded, path):
    assert httpx.get(guarded + path).status_code == 401
    assert httpx.get(guarded + path, headers=bearer(KEY)).status_code == (404 if path == "/v1/nothing" else 200)


def test_inference_requires_a_key(guarded):
    path = f"{guarded}/v2/models/ARGMAX/infer"
    assert httpx.post(path, json={}).status_code == 401
    assert httpx.post(path, json={}, headers=bearer(KEY)).status_code in (400, 422)


@pytest.mark.parametrize(
    "path",
    [
        *("/livez", "/readyz", "/v2/health/live", "/v2/health/ready", "/docs", "/openapi.json", "/v1/schema"),
        *("/v1/operators", "/v1/operators/GEMM", "/v1/feature-levels", "/", "/try", "/live", "/operators/GEMM"),
    ],
)
def test_health_and_documentation_need_no_key(guarded, path):
    assert httpx.get(guarded + path).status_code == 200


@pytest.mark.parametrize("key", [KEY, OTHER_KEY])
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER "])
def test_every_key_and_spelling_of_bearer_is_accepted(guarded, key, scheme):
    response = httpx.post(f"{guarded}/v1/execute", json=REQUEST, headers={"Authorization": f"{scheme} {key}"})
    assert response.status_code == 200


def test_two_authorization_headers_are_refused(guarded):
    both = [("Authorization", f"Bearer {KEY}"), ("Authorization", f"Bearer {KEY}")]
    assert httpx.get(f"{guarded}/v1/server", headers=both).status_code == 401


def test_an_unauthorized_request_is_refused_before_its_body(guarded):
    request_head = b"POST /v1/execute HTTP/1.1\r\nHost: a\r\nContent-Length: 200000000\r\n\r\n"
    with connect(guarded) as connection:
        connection.sendall(request_head)
        assert connection.recv(1000).startswith(b"HTTP/1.1 401 ")


def test_metrics_can_be_public(keys_file):
    with serving(Settings(port=0, api_keys_file=keys_file, metrics_open=True)) as server:
        assert httpx.get(f"{server.url}/metrics").status_code == 200
        assert httpx.get(f"{server.url}/v1/server").status_code == 401


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "contains no API keys"),
        ("# none\n", "contains no API keys"),
        ("fine\nnot fine-secret\n", "line 2"),
        ("a:b:c\n", "line 1"),
        ("näme:key\n", "line 1"),
    ],
)
def test_invalid_key_files_are_refused(tmp_path, text, said):
    file = tmp_path / "keys"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=said):
        HttpServer(Settings(api_keys_file=file))


def test_an_invalid_key_file_stops_the_server(tmp_path):
    file = tmp_path / "keys"
    file.write_text("fine\nnot fine-secret\n", encoding="utf-8")
    done = failed_serve("--api-keys-file", str(file))
    assert "line 2" in done
    assert "secret" not in done


def failed_serve(*arguments: str) -> str:
    """Returns the error output of a command that cannot serve."""
    command = [sys.executable, "-m", "opwire_service", "serve", "--port", "0", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    return done.stderr


def test_missing_files_stop_the_server(tmp_path):
    missing = str(tmp_path / "missing")
    for option in ("--api-keys-file", "--tls-certificate"):
        said = failed_serve(option, missing)
        assert missing in said
        assert option in said
    assert "--tls-certificate" in failed_serve("--tls-key", missing)


def test_the_log_contains_no_secrets_or_tensors(keys_file):
    trace = "0af7651916cd43dd8448eb211c80319c"
    options = ("--api-keys-file", str(keys_file), "--log-level", "debug", "--log-format", "json")
    with process(*options) as served, httpx.Client(base_url=served.url, headers=bearer(KEY), timeout=30) as http:
        headers = {"traceparent": f"00-{trace}-b7ad6b7169203331-01", "x-request-id": "mine"}
        assert http.post("/v1/execute", json=REQUEST, headers=headers).status_code == 200
        wrong = {**REQUEST, "inputs": {"InputTensor": TENSOR[:-4]}}
        assert http.post(f"/v1/execute?token={OTHER_KEY}", json=wrong).status_code == 422
        assert http.get("/v1/server", headers=bearer("guessed-key")).status_code == 401
        assert http.get(
            "/v1/operators/ARGMAX", headers={"traceparent": f"00-{'0' * 32}-b7ad6b7169203331-01"}
        ).is_success
        served.process.terminate()
        assert served.finish() == 0
    text = "".join(served.lines)
    for secret in (KEY, OTHER_KEY, "guessed-key", TENSOR, TENSOR[:-4]):
        assert secret not in text
    entries = [json.loads(line) for line in served.lines]
    assert all({"time", "level", "logger", "message"} <= set(entry) for entry in entries)
    first, refused, barred, read = [entry for entry in entries if "route" in entry]
    assert (first["request_id"], first["trace_id"], first["client"]) == ("mine", trace, "alice")
    assert (first["route"], first["operator"], first["status"], first["code"]) == ("/v1/execute", "REDUCE", 200, "ok")
    assert 0 < first["milliseconds"] < 30_000
    assert (refused["status"], refused["code"], refused["trace_id"]) == (422, "contract_violation", None)
    assert (barred["status"], barred["code"], barred["client"]) == (401, "unauthorized", None)
    assert (read["route"], read["path"], read["trace_id"]) == ("/v1/operators/{name}", "/v1/operators/ARGMAX", None)


@pytest.mark.parametrize(
    ("host", "guarded", "warned"), [("0.0.0.0", False, True), ("0.0.0.0", True, False), ("127.0.0.1", False, False)]
)
def test_a_public_address_without_keys_logs_a_warning(keys_file, host, guarded, warned):
    options = ("--api-keys-file", str(keys_file)) if guarded else ()
    with process("--device", "reference", "--host", host, *options) as served:
        assert any("without API keys" in line for line in served.lines) == warned


def test_the_server_speaks_tls(certificate):
    file, key = certificate
    with process("--device", "reference", "--tls-certificate", str(file), "--tls-key", str(key)) as served:
        assert served.url.startswith("https://127.0.0.1:")
        with httpx.Client(base_url=served.url, verify=ssl.create_default_context(cafile=str(file))) as http:
            assert http.post("/v1/execute", json=REQUEST).status_code == 200
            assert http.get("/readyz").json() == {"ready": True}
            answer = http.post("/v1/execute", json=large_answer(2**18))
            assert len(answer.json()["outputs"]["OutputTensor"]["data"]) == -(-(2**20) // 3) * 4
        with pytest.raises(httpx.TransportError):
            httpx.get(served.url.replace("https", "http"))


def test_an_invalid_tls_key_stops_the_server(certificate, tmp_path):
    file, _ = certificate
    key = tmp_path / "key.pem"
    key.write_text("no key")
    said = failed_serve("--tls-certificate", str(file), "--tls-key", str(key))
    assert str(key) in said


PREFLIGHT = {
    "Origin": "https://pages.example",
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "content-type, authorization",
}


def test_other_origins_are_refused_by_default(server_url):
    answers = (
        httpx.options(f"{server_url}/v1/execute", headers=PREFLIGHT),
        httpx.post(f"{server_url}/v1/execute", json=REQUEST, headers={"Origin": "https://pages.example"}),
        httpx.get(f"{server_url}/v1/server", headers={"Origin": "https://pages.example"}),
    )
    for answer in answers:
        assert not [name for name in answer.headers if name.startswith("access-control-")]
    assert answers[0].status_code == 405


def test_configured_origins_are_allowed(keys_file):
    settings = Settings(port=0, cors_origins=("https://pages.example",), api_keys_file=keys_file)
    with serving(settings) as server, httpx.Client(base_url=server.url or "", timeout=30) as http:
        preflight = http.options("/v1/execute", headers=PREFLIGHT)
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-origin"] == "https://pages.example"
        assert "authorization" in preflight.headers["access-control-allow-headers"].lower()
        origin = {"Origin": "https://pages.example"}
        for answer in (
            http.post("/v1/execute", json=REQUEST, headers=origin | bearer(KEY)),
            http.post("/v1/execute", json=REQUEST, headers=origin),
            http.get("/v1/server", headers=origin | bearer(KEY)),
        ):
            assert answer.headers["access-control-allow-origin"] == "https://pages.example"
            assert "inference-header-content-length" in answer.headers["access-control-expose-headers"].lower()
            assert "access-control-allow-credentials" not in answer.headers
        other = http.options("/v1/execute", headers={**PREFLIGHT, "Origin": "https://other.example"})
        assert "access-control-allow-origin" not in other.headers


def request_head(fields: int, size: int) -> bytes:
    """Returns a request head with a number of fields and a total size; the last field pads it."""
    lines = ["GET /livez HTTP/1.1", "Host: a", "Connection: close", *(f"X-{i}: y" for i in range(fields - 3))]
    start = "\r\n".join([*lines, "X-Last: "])
    return (start + "z" * (size - len(start) - 4) + "\r\n\r\n").encode()


@pytest.mark.parametrize("piece", [10**6, 1000, 7])
@pytest.mark.parametrize(("fields", "size"), [(101, 3000), (4, 33 * 1024), (4, 200_000)])
def test_large_heads_are_refused(server_url, fields, size, piece):
    data = request_head(fields, size)
    with connect(server_url) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, min(len(data), 40_000 if piece < 10**6 else len(data)), piece):
            connection.sendall(data[start : start + piece])
        problem = read_problem(*read_answer(connection))
    assert problem["code"] == "head_too_large"
    assert problem["size"] > problem["limit"]


@pytest.mark.parametrize("piece", [10**6, 1000, 7])
@pytest.mark.parametrize(("fields", "size"), [(100, 3000), (4, 32_000)])
def test_heads_within_the_bounds_are_accepted(server_url, fields, size, piece):
    data = request_head(fields, size)
    with connect(server_url) as connection:
        for start in range(0, len(data), piece):
            connection.sendall(data[start : start + piece])
        assert read_answer(connection)[0] == 200


def test_a_body_in_the_same_packet_does_not_count_as_head(server_url):
    body = json.dumps({**REQUEST, "inputs": {"InputTensor": {"data": [1, 2, 3]}}}).encode() + b" " * 60_000
    request = b"POST /v1/execute HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b"
    assert talk(server_url, request % (len(body), body))[0] == 200


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_deep_json_is_refused(server_url, opening, closing):
    for depth in (250, 30_000):
        text = f'{{"operator": {opening * depth}1{closing * depth}, "inputs": {{}}}}'
        response = httpx.post(f"{server_url}/v1/execute", content=text, headers={"Content-Type": "application/json"})
        problem = read_problem(400, response.headers, response.content)
        assert problem["code"] == "invalid_json"
        assert "recursion limit" in problem["detail"]


@pytest.mark.parametrize("sent", [b"", b"GET /livez HT", b"GET /livez HTTP/1.1\r\nHost: a\r\n"])
def test_an_incomplete_head_times_out(sent):
    with serving(Settings(port=0, limits=Limits(receive_ms=500))) as server:
        began = time.monotonic()
        with connect(server.url or "") as connection:
            connection.sendall(sent)
            assert connection.recv(100) == b""
        assert time.monotonic() - began > 0.2


def test_an_idle_connection_is_kept():
    with serving(Settings(port=0, limits=Limits(receive_ms=800))) as server, connect(server.url or "") as connection:
        for pause in (1.5, 0):
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
            assert next_answer(connection)[0] == 200
            time.sleep(pause)


class Sources(HTMLParser):
    """Collects what a page loads, and counts its inline scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.inline = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.loaded += [value for name in ("src", "href") if (value := given.get(name))]
        self.inline += (tag == "script" and "src" not in given) or any(name.startswith("on") for name in given)


def test_the_documentation_page_has_a_strict_content_security_policy(server_url):
    page = httpx.get(f"{server_url}/docs")
    sources = Sources()
    sources.feed(page.text)
    assert sources.loaded
    assert sources.inline == 0
    for answer in (page, *(httpx.get(httpx.URL(server_url).join(source)) for source in sources.loaded)):
        assert answer.status_code == 200
        policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["frame-ancestors"] == "'none'"
        assert policy.get("script-src", policy["default-src"]) in ("'self'", "'none'")
        assert not re.findall(r"https?:|\*", answer.headers["content-security-policy"])
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


def test_no_answer_can_be_taken_for_another_media_type(server_url, guarded):
    """On every documented path with every method, pages, preflights and what is refused before it is routed."""
    with httpx.Client(base_url=server_url) as http:
        paths = [path.replace("{name}", "REDUCE") for path in http.get("/openapi.json").json()["paths"]]
        answers = [
            http.request(method, path)
            for path in paths
            for method in ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS")
        ]
        answers += [http.get(path) for path in ("/", "/docs", "/operators/GEMM", "/nowhere", "/openapi.json")]
        answers.append(http.get("/v1/schema", headers={"If-None-Match": "*"}))
        answers.append(http.post("/v1/execute", json=REQUEST))
    answers.append(httpx.post(f"{guarded}/v1/execute", json=REQUEST))
    assert {200, 304, 400, 401, 404, 405} <= {answer.status_code for answer in answers}
    for answer in answers:
        assert answer.headers.get_list("x-content-type-options") == ["nosniff"], answer.request
    for head in (b"not HTTP\r\n\r\n", b"GET / HTTP/1.1\r\nA: %b\r\n\r\n" % (b"a" * 40_000)):
        status, headers, _ = talk(server_url, head)
        assert status in (400, 431)
        assert headers["x-content-type-options"] == "nosniff"
