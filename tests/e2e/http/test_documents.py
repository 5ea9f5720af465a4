"""A server's description of itself: operators, levels, limits, health, the OpenAPI document and its page."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
import pytest

from opwire_service.settings import Settings
from tests.directml.tensor_support import COUNT, FACTS
from tests.support.http.problems import read_problem
from tests.support.http.serving import serving
from tests.support.http.sockets import talk
from tests.support.paths import ROOT

RELU = {"type": "ACTIVATION_RELU", "desc": {"InputTensor": {"DataType": "FLOAT32", "Sizes": [1]}}}
COMMITTED = ROOT / "openapi" / "openapi.json"

SCHEMAS = ("/v1/schema", "/v1/schema/meta", "/v1/schema/documents")


def get_json(http: httpx.Client, path: str) -> Any:
    response = http.get(path)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"]
    return response.json()


def test_every_operator_is_listed(http):
    (listed,) = get_json(http, "/v1/operators").values()
    assert {
        operator["type"]: [operator["value"], operator["introduced"].removeprefix("DML_FEATURE_LEVEL_")]
        for operator in listed
    } == {f"DML_OPERATOR_{name}": row for name, row in FACTS["operators"].items()}
    executable = {operator["type"].removeprefix("DML_OPERATOR_") for operator in listed if operator["executable"]}
    assert executable == set(FACTS["operators"])


@pytest.mark.parametrize("name", FACTS["fields"])
def test_an_executable_operator_is_described_with_runnable_examples(http, name):
    by_name = get_json(http, f"/v1/operators/{name}")
    value, introduced = FACTS["operators"][name]
    assert by_name["introduced"] == f"DML_FEATURE_LEVEL_{introduced}"
    assert [member["name"] for member in by_name["fields"]] == FACTS["fields"][name].replace("?", "").split()
    assert by_name["support"]
    assert get_json(http, f"/v1/operators/DML_OPERATOR_{name}") == by_name
    assert by_name["value"] == value
    # The examples are complete requests.
    example = by_name["examples"][0]
    request = {key: example[key] for key in ("feature_level", "operator", "inputs")}
    assert http.post("/v1/execute", json=request).status_code == 200


@pytest.mark.parametrize(
    ("query", "held"),
    [
        ("state=known&level=1_0", {"REDUCE", "GEMM"}),
        ("state=declared&family=argreduce", {"ARGMAX", "ARGMIN"}),
        ("state=executable&data_type=INT64&level=3_0", {"ARGMAX", "ARGMIN", "REDUCE"}),
        ("family=recurrent&data_type=DML_TENSOR_DATA_TYPE_FLOAT16", {"RNN", "LSTM", "GRU"}),
    ],
)
def test_operators_are_filtered_by_query(http, query, held):
    (listed,) = get_json(http, f"/v1/operators?{query}").values()
    names = {operator["type"].removeprefix("DML_OPERATOR_") for operator in listed}
    assert held <= names
    assert len(names) < COUNT
    wanted = dict(part.split("=") for part in query.split("&"))
    for operator in listed:
        assert wanted.get("family") in (None, operator["family"])
        assert wanted.get("state") != "executable" or operator["executable"]
        assert wanted.get("state") != "declared" or operator["declared"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("state=some", "allowed: known, declared, executable"),
        ("level=9", "allowed: 1_0, 2_0"),
        ("family=x", "allowed: activations, "),
        ("data_type=BOOL", "allowed: FLOAT32, "),
        ("stat=known", "allowed: state, level"),
        (f"family={'x' * 2000}", "family is"),
    ],
)
def test_invalid_filters_are_refused(http, query, said):
    response = http.get(f"/v1/operators?{query}")
    problem = read_problem(400, response.headers, response.content)
    assert said in problem["detail"]
    assert len(problem["detail"]) < 600


@pytest.mark.parametrize("path", SCHEMAS)
def test_the_schema_is_served_compressed_and_cached(http, path):
    plain = http.get(path, headers={"Accept-Encoding": "identity"})
    packed = http.get(path, headers={"Accept-Encoding": "br, gzip;q=0.5"})
    assert plain.status_code == packed.status_code == 200
    assert plain.json() == packed.json()
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"])
    assert "content-encoding" not in http.get(path, headers={"Accept-Encoding": "gzip;q=0, *"}).headers
    for known in (plain.headers["etag"], f"W/{packed.headers['etag']}", f'"x", {plain.headers["etag"]}', "*"):
        again = http.get(path, headers={"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"]
    assert http.get(path, headers={"If-None-Match": '"x"'}).status_code == 200
    assert http.head(path).status_code == 200


def test_an_operator_is_found_by_its_names(http):
    found = get_json(http, "/v1/operators/GEMM")
    assert found["type"] == "DML_OPERATOR_GEMM"
    assert found["value"] == FACTS["operators"]["GEMM"][0]
    assert found["introduced"] == "DML_FEATURE_LEVEL_1_0"
    assert found["executable"] is True
    assert [member["name"] for member in found["fields"]][:4] == ["ATensor", "BTensor", "CTensor", "OutputTensor"]
    assert found["support"]
    assert get_json(http, "/v1/operators/SCATTER")["type"] == "DML_OPERATOR_SCATTER_ELEMENTS"


@pytest.mark.parametrize("name", ["NOPE", "argmax", "%20", "%00", "%ff", "\u00e9", "%22", "x" * 5000, "..;", "INVALID"])
def test_an_unknown_operator_is_not_found(http, name):
    response = http.get(f"/v1/operators/{name}")
    problem = read_problem(404, response.headers, response.content)
    assert problem["code"] == "unknown_operator"
    assert len(problem["detail"]) < 200


def test_every_feature_level_is_listed(http):
    (listed,) = get_json(http, "/v1/feature-levels").values()
    assert [level["name"].removeprefix("DML_FEATURE_LEVEL_") for level in listed] == list(FACTS["levels"])
    assert {level["value"] for level in listed} == set(FACTS["levels"].values())
    assert sum(len(level["introduces"]) for level in listed) == COUNT


def test_the_server_describes_itself(http):
    info = get_json(http, "/v1/server")
    assert info["name"] == "opwire"
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", info["version"])
    assert info["ready"] is True
    assert info["feature_levels"] == [f"DML_FEATURE_LEVEL_{level}" for level in FACTS["levels"]]
    assert info["default_feature_level"] == "DML_FEATURE_LEVEL_6_4"
    names = [device["name"] for device in info["devices"]]
    assert names[0] == info["default_device"]
    assert "reference" in names
    assert {"body_bytes", "tensor_elements", "output_bytes", "work", "queued", "timeout_ms"} <= set(info["limits"])
    assert all(type(limit) is int and limit > 0 for limit in info["limits"].values())


def test_health_routes_respond(http):
    assert get_json(http, "/livez") == {"live": True}
    assert get_json(http, "/readyz") == {"ready": True}


@pytest.mark.parametrize(
    "path", ["/v1/operators", "/v1/operators/ARGMAX", "/v1/feature-levels", "/v1/server", "/livez"]
)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_wrong_methods_are_refused_with_allow(http, path, method):
    response = http.request(method, path, json={})
    problem = read_problem(405, response.headers, response.content)
    assert "GET" in response.headers["allow"].split(", ")
    assert problem["allow"] == response.headers["allow"].split(", ")


@pytest.mark.parametrize(
    "path", ["/livez", "/readyz", "/v1/operators", "/v1/server", "/docs", "/openapi.json", "/nothing"]
)
def test_head_is_get_without_a_body(http, path):
    head, whole = http.head(path), http.get(path)
    assert head.content == b""
    assert head.status_code == whole.status_code
    assert head.headers["content-type"] == whole.headers["content-type"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1",
        "/v1/",
        "/v1/execute/",
        "/v1/operators/",
        "/v1/operators/ARGMAX/x",
        "/V1/execute",
        "/docs/",
        "/%e9",
        "//",
        "/docs/assets/",
        "/docs/assets/nothing.js",
        "/docs/assets/../../pyproject.toml",
        "/docs/assets/%2e%2e/%2e%2e/pyproject.toml",
        "/%2e%2e/%2e%2e/etc/passwd",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_unknown_routes_are_not_found(server_url, path, method):
    request = f"{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    status, headers, body = talk(server_url, request.encode("latin-1"))
    problem = read_problem(status, headers, body)
    assert problem["code"] in ("not_found", "method_not_allowed", "unknown_operator")
    assert status == 404 or method == "POST"
    assert all(problem.get("allow", ["GET"]))


def test_the_openapi_document_matches_the_committed_one(http):
    assert http.get("/openapi.json").json() == json.loads(COMMITTED.read_text(encoding="utf-8"))


def test_the_openapi_document_describes_every_route(http):
    document = http.get("/openapi.json").json()
    native = {path for path in document["paths"] if path.startswith("/v1/")}
    assert native == {
        *(f"/v1/{name}" for name in ("execute", "validate", "batch", "operators", "feature-levels", "server")),
        "/v1/operators/{name}",
        "/v1/server/load",
        "/v1/graphs",
        "/v1/graphs/{name}",
        *SCHEMAS,
    }
    methods = {path: set(document["paths"][path]) for path in native}
    assert methods.pop("/v1/graphs/{name}") == {"get", "put", "delete"}
    for path, found in methods.items():
        assert found == {"post" if path in ("/v1/execute", "/v1/validate", "/v1/batch") else "get"}
    for route in [route for path in native for route in document["paths"][path].values()]:
        assert "200" in route["responses"]
        for status, answer in route["responses"].items():
            if int(status) >= 400:
                assert list(answer["content"]) == ["application/problem+json"]


def test_the_examples_in_the_openapi_document_succeed(http):
    document = http.get("/openapi.json").json()
    for path in ("/v1/execute", "/v1/batch", "/v1/validate"):
        examples = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["examples"]
        assert examples
        for name, example in examples.items():
            response = http.post(path, json=example["value"])
            assert response.status_code == 200, name
            if path == "/v1/validate":
                assert response.json()["valid"], name
            if path == "/v1/batch":
                assert all("outputs" in result for result in response.json()["results"]), name


class Loaded(HTMLParser):
    """Collects the URLs that a page loads, and its inline scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value for name, value in attrs if name in ("src", "href") and value]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_documentation_page_loads_only_from_this_server(http):
    response = http.get("/docs")
    assert response.headers["content-type"].startswith("text/html")
    page = Loaded()
    page.feed(response.text)
    assert any(link.endswith(".js") for link in page.links)
    assert any(link.endswith(".css") for link in page.links)
    assert not re.findall(r"https?://", response.text)
    scripts = page.text
    for link in page.links:
        assert not urlsplit(link).netloc
        loaded = http.get(link)
        assert loaded.status_code == 200
        assert loaded.content
        if link.endswith(".js"):
            scripts += loaded.text
        if link.endswith(".css"):
            for target in re.findall(r"(?:@import|url\()\s*['\"]?([^'\")\s]+)", loaded.text):
                assert target.startswith("data:") or not urlsplit(urljoin(link, target)).netloc, target
                assert target.startswith("data:") or http.get(urljoin(link, target)).status_code == 200, target
    assert "/openapi.json" in scripts


def test_the_root_redirects_to_the_documentation_without_the_console():
    with serving(Settings(port=0, console=False)) as server:
        response = httpx.get(f"{server.url}/")
        assert response.is_redirect
        assert response.headers["location"] == "/docs"
        assert httpx.get(f"{server.url}/try").status_code == 404


def test_every_operation_is_named_grouped_and_summarized(http):
    """What linters of OpenAPI documents ask for, so that generated clients have names that people would choose."""
    document = http.get("/openapi.json").json()
    operations = [
        operation for path in document["paths"].values() for method, operation in path.items() if method != "parameters"
    ]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names)) >= 40
    assert all(re.fullmatch("[a-z]+([A-Z][a-z]+)*", name) for name in names)
    described = {tag["name"] for tag in document["tags"] if tag["description"]}
    assert {tag for operation in operations for tag in operation["tags"]} == described
    for operation in operations:
        assert len(operation["tags"]) == 1
        assert operation["summary"]
        assert not operation["summary"].endswith(".")
        assert any(status.startswith("4") for status in operation["responses"])
        for status in {"429", "503"} & operation["responses"].keys():
            assert "Retry-After" in operation["responses"][status]["headers"]
        answer = operation["responses"]["200"]
        content, headers = answer.get("content", {}), answer["headers"]
        assert ("Inference-Header-Content-Length" in headers) == (
            "Accept: application/octet-stream" in answer["description"]
        )
        assert "application/octet-stream" not in content  # a generated client would take the JSON as either type
    assert document["servers"]
    assert document["info"]["license"]["identifier"] == "Apache-2.0"


ASKED: list[tuple[str, str, dict[str, Any]]] = [
    ("get", "/v1/server", {}),
    ("get", "/v1/operators", {}),
    ("get", "/v1/schema", {}),
    ("get", "/v1/feature-levels", {}),
    ("get", "/v1/graphs", {}),
    ("get", "/readyz", {}),
    ("get", "/metrics", {}),
    ("get", "/v2", {}),
    ("post", "/v1/execute", {"operator": RELU, "inputs": {"InputTensor": {"data": [1]}}}),
    ("post", "/v1/batch", {"requests": []}),
    ("post", "/v1/validate", {"operator": RELU}),
    ("post", "/v1/validate", {}),
]
OF_HTTP = {"content-length", "content-type", "content-encoding", "date", "transfer-encoding", "vary", "cache-control"}


@pytest.mark.parametrize(("method", "path", "body"), ASKED)
def test_the_headers_of_a_response_are_documented(http, method, path, body):
    response = http.request(method, path, json=body or None)
    described = http.get("/openapi.json").json()["paths"][path][method]["responses"][str(response.status_code)]
    names = {name.lower() for name in described["headers"]} - {"inference-header-content-length"}
    assert names == {*response.headers} - OF_HTTP - {"x-content-type-options"}


def test_each_error_has_its_header(http):
    document = http.get("/openapi.json").json()
    for path, item in document["paths"].items():
        for operation in item.values():
            for status, header in {"401": "WWW-Authenticate", "405": "Allow", "304": "ETag"}.items():
                if status in operation["responses"]:
                    assert header in operation["responses"][status]["headers"], path
            assert all("X-Request-Id" in answer["headers"] for answer in operation["responses"].values())
