"""The console's files as served, the server's load, and models over HTTP; without a browser."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import struct
import sys
import tomllib
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp

import opwire_service
from opwire.dxdispatch import read_text
from opwire_service.process.application import create_app
from opwire_service.settings import Limits, Settings
from tests.support.http.problems import read_problem
from tests.support.http.processes import process, until
from tests.support.http.serving import serving
from tests.support.paths import MODELS

CONSOLE = Path(opwire_service.__file__).parent / "console"
VENDOR = CONSOLE / "vendor"
PAGES = ("/", "/operators/REDUCE", "/try", "/live", "/report")

POLICY = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "font-src 'self'",
    "connect-src 'self'",
    "worker-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types opwire",
}


def links(http: httpx.Client, page: str) -> list[str]:
    found = re.findall('(?:src|href)="([^"]*console/[^"]+)"', http.get(page).text)
    return [str(httpx.URL(f"{http.base_url}").join(page).join(link)) for link in dict.fromkeys(found)]


@pytest.mark.parametrize("page", PAGES)
def test_pages_and_files_have_security_and_cache_headers(http, page):
    response = http.get(page)
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["cache-control"] == "no-cache"
    assert http.get(page, headers={"If-None-Match": response.headers["etag"]}).status_code == 304
    assert not re.search(r"<script>|<style|style=|https?://", response.text)
    for answer in (response, *map(http.get, links(http, page))):
        assert answer.status_code == 200, answer.url
        assert set(answer.headers["content-security-policy"].split("; ")) == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "set-cookie" not in answer.headers
    file = links(http, page)[0]
    assert "immutable" in http.get(file).headers["cache-control"]
    plain = http.get(file, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.content == http.get(file).content


@pytest.mark.parametrize(("page", "kilobytes"), [("/", 110), ("/operators/REDUCE", 120), ("/try", 290), ("/live", 120)])
def test_a_page_loads_few_bytes(http, page, kilobytes):
    sizes = [int(http.get(link).headers["content-length"]) for link in (page, *links(http, page))]
    assert sum(sizes) <= kilobytes * 1000


def test_all_console_files_are_small_in_total(http):
    version = re.search("console/([0-9a-f]+)/", http.get("/").text)
    assert version is not None
    files = [path for folder in ("app", "css", "vendor") for path in (CONSOLE / folder).rglob("*.[jc]s*")]
    sizes = []
    for path in files:
        response = http.get(f"/console/{version[1]}/{path.relative_to(CONSOLE).as_posix()}")
        assert response.status_code == 200
        sizes.append(int(response.headers["content-length"]))
    assert sum(sizes) <= 300_000


def test_pages_preload_all_imported_modules(http):
    """The page lists every module that another one imports."""
    for page in PAGES:
        found = set(links(http, page))
        for link in [each for each in found if "/app/" in each]:
            for target in re.findall(r'^(?:import|export)[^;"]*"(\.[^"]+\.js)"', http.get(link).text, re.MULTILINE):
                assert str(httpx.URL(link).join(target)) in found, (page, link, target)


@pytest.mark.parametrize(
    "path",
    [
        "/console/",
        "/console/0/app/api.js",
        "/console/{v}/pages/try.html",
        "/console/{v}/../../settings.py",
        "/operators/NO",
    ],
)
def test_unknown_console_paths_are_not_found(http, path):
    version = re.search("console/([0-9a-f]+)/", http.get("/").text)
    assert version is not None
    response = http.get(path.replace("{v}", version[1]))
    read_problem(404, response.headers, response.content)


@pytest.mark.parametrize("path", ["/nothing", "/operators/NO", "/a/b/c"])
def test_browsers_get_a_page_for_wrong_links(http, path):
    response = http.get(path, headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (response.status_code, response.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert set(response.headers["content-security-policy"].split("; ")) == POLICY
    for link in re.findall('(?:src|href)="([^"]+)"', response.text):
        assert http.get(str(httpx.URL(f"{http.base_url}{path}").join(link))).status_code == 200, link
    plain = http.get(path)
    read_problem(404, plain.headers, plain.content)


def test_browsers_get_problems_of_the_api(http):
    response = http.get("/v1/operators/NO", headers={"Accept": "text/html"})
    read_problem(404, response.headers, response.content)


def test_the_icon_is_an_image_of_32_pixels(http):
    response = http.get("/favicon.ico")
    assert response.headers["content-type"] == "image/x-icon"
    reserved, kind, count, width, height = struct.unpack_from("<3H2B", response.content)
    assert (reserved, kind, count, width, height) == (0, 1, 1, 32, 32)
    size, start = struct.unpack_from("<2I", response.content, 14)
    assert response.content[start:].startswith(b"\x89PNG")
    assert len(response.content) == start + size


def test_vendored_files_match_their_table():
    table = tomllib.loads((VENDOR / "vendor.toml").read_text(encoding="utf-8"))
    licences = (VENDOR / "LICENSES.txt").read_text(encoding="utf-8")
    assert {path.name for path in VENDOR.iterdir()} == {*table["files"], "vendor.toml", "LICENSES.txt"}
    for name, row in table["files"].items():
        data = (VENDOR / name).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (row["bytes"], row["sha256"]), name
    for name, row in table["packages"].items():
        assert row["licence"] in ("MIT", "Apache-2.0", "OFL-1.1")
        assert f"{name} {row['version']} ({row['licence']})" in licences


REQUEST = {
    "operator": {
        "type": "ARGMAX",
        "desc": {"InputTensor": {"DataType": "FLOAT32", "Sizes": [3]}, "Axes": [0], "AxisDirection": "INCREASING"},
    },
    "inputs": {"InputTensor": {"data": [1, 3, 2]}},
}


def test_data_routes_do_not_run_console_code():
    """A data route responds before the console's routes are matched."""
    called = asyncio.run(calls_of_a_request(create_app(Settings(port=0))))
    assert any(name.endswith("http/data/exchange.py") for name in called)
    assert not any(name.endswith("http/documents/console.py") for name in called)


async def calls_of_a_request(app: ASGIApp) -> set[str]:
    """Returns the project files in which a repeated request calls anything."""
    started = asyncio.Event()
    lifespan: asyncio.Queue[Any] = asyncio.Queue()

    async def send(message: Any) -> None:
        assert message["type"] in ("lifespan.startup.complete", "lifespan.shutdown.complete")
        started.set()

    await lifespan.put({"type": "lifespan.startup"})
    running = asyncio.ensure_future(app({"type": "lifespan", "asgi": {"version": "3.0"}}, lifespan.get, send))
    await started.wait()
    await post(app)
    called: set[str] = set()
    sys.setprofile(lambda frame, event, _: called.add(frame.f_code.co_filename) if event == "call" else None)
    try:
        await post(app)
    finally:
        sys.setprofile(None)
    await lifespan.put({"type": "lifespan.shutdown"})
    await running
    return {name for name in called if "opwire" in name}


async def post(app: ASGIApp) -> None:
    body = json.dumps(REQUEST).encode()
    statuses = []
    sent = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Any:
        for message in sent:
            return message
        return await asyncio.Future()  # the client stays connected, silently

    async def send(message: Any) -> None:
        statuses.append(message.get("status", 200))

    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    scope = {
        **{"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http"},
        **{"path": "/v1/execute", "raw_path": b"/v1/execute", "query_string": b"", "root_path": "", "headers": headers},
        **{"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "state": {}},
    }
    await app(scope, receive, send)
    assert set(statuses) == {200}


def test_the_load_counts_outcomes_operators_and_stages():
    with serving() as server, httpx.Client(base_url=server.url or "") as client:
        empty = client.get("/v1/server/load").json()
        assert (empty["outcomes"], empty["operators"], empty["stages"]) == ({}, {}, {})
        assert empty["workers"] == {"serving": 1, "expected": 1, "replaced": 0}
        for _ in range(5):
            client.post("/v1/execute", json=REQUEST)
        client.post("/v1/execute", content=b"{")
        client.get("/try")
        client.get("/v1/server")
        load = client.get("/v1/server/load", params={"operator": ["ARGMAX", "GEMM"]}).json()
        assert load["outcomes"] == {"ok": 5, "invalid_json": 1}
        assert load["instance"] == empty["instance"]
        assert load["operators"]["ARGMAX"]["count"] == sum(load["operators"]["ARGMAX"]["total"]["buckets"]) == 5
        assert sum(load["stages"]["total"]["buckets"]) == 5
        assert len(load["bounds_us"]) + 1 == len(load["stages"]["run"]["buckets"])
        assert set(load["devices"]) == {"cpu", "reference"}
        text = client.get("/metrics").text
        told = re.search(r'opwire_operator_stage_seconds_total\{operator="ARGMAX",stage="run"\} (\S+)', text)
        assert told is not None
        assert load["operators"]["ARGMAX"]["run_us"] == round(float(told[1]) * 1e6)
        assert client.get("/v1/server/load?operator=GRAPH").status_code == 200
        response = client.get("/v1/server/load?operator=NO")
        assert "not a DirectML operator type" in read_problem(400, response.headers, response.content)["detail"]


def test_two_servers_have_different_instance_ids():
    with serving() as one, serving() as other:
        instances = {httpx.get(f"{each.url}/v1/server/load").json()["instance"] for each in (one, other)}
        assert len(instances) == 2


def test_the_load_sums_up_all_processes():
    with process("--workers", "2", "--device", "reference") as served:
        answers = []

        def counted() -> int:
            answers.append(httpx.get(f"{served.url}/v1/server/load").json())
            return int(answers[-1]["outcomes"].get("ok", 0))

        for _ in range(6):  # each on its own connection, so that both processes get some
            assert httpx.post(f"{served.url}/v1/execute", json=REQUEST).status_code == 200
            counted()
        until(lambda: counted() == 6)  # a process counts after responding
        assert len({answer["instance"] for answer in answers}) == 1
        assert answers[-1]["outcomes"]["ok"] == 6
        assert answers[-1]["operators"]["ARGMAX"]["count"] == 6
        assert answers[-1]["workers"]["expected"] == 2


def model(name: str) -> Any:
    return read_text((MODELS / f"{name}.json").read_bytes())


def test_a_model_is_checked_and_run(http):
    found = http.post("/v1/validate", json={"model": model("argmax_inline"), "feature_level": "2_1"}).json()
    assert not found["valid"]
    assert found["minimum_feature_level"] == "DML_FEATURE_LEVEL_3_0"
    assert set(found["dispatchables"]) == {"argmax", "overwrite"}
    assert all(each["pointer"].startswith("/model/dispatchables/") for each in found["violations"])
    answer = http.post("/v1/execute", json={"model": model("argmax_inline"), "output_format": "numbers"}).json()
    # The first command overwrites the values with nine as an integer; the second reads the saved ones.
    assert answer["outputs"]["class"]["data"] == [2, 1]
    assert len(answer["outputs"]["scores"]["data"]) == 6


def test_all_that_a_model_prints_is_returned_whatever_its_resources_are_called(http):
    values = {"x": [[1], [1]], "x[0]": [[2]], "x[1]": [[3]], "x[0][0]": [[4], [4]]}
    resources = {
        name: {"initialValuesDataType": "INT32", "initialValues": printed[0]} for name, printed in values.items()
    }
    commands = [{"type": "print", "resource": name} for i in range(2) for name in values if i < len(values[name])]
    whole = {"resources": resources, "dispatchables": {}, "commands": commands}
    for form in ("numbers", "base64"):
        answer = http.post("/v1/execute", json={"model": whole, "output_format": form}).json()
        assert answer["outputs"].keys() == values.keys()
        listed = {name: each if isinstance(each, list) else [each] for name, each in answer["outputs"].items()}
        assert {name: len(each) for name, each in listed.items()} == {"x": 2, "x[0]": 1, "x[1]": 1, "x[0][0]": 2}
        if form == "numbers":
            assert {name: [item["data"] for item in each] for name, each in listed.items()} == values


@pytest.mark.parametrize("route", ["execute", "validate"])
def test_a_model_is_found_wherever_it_is_in_the_body(http, route):
    options = {"device": None, "output_format": "numbers"} if route == "execute" else {}
    whole = json.dumps({"feature_level": None, **options, "model": model("argmax_inline")})
    expected = http.post(f"/v1/{route}", content=whole).json()
    assert "outputs" in expected
    for written in (
        whole.replace('"model"', " " * 100_000 + '"model"', 1),
        whole.replace('"model"', '"mod\\u0065l"', 1),
    ):
        found = http.post(f"/v1/{route}", content=written).json()
        assert {**found, "timing": 0, "request_id": 0} == {**expected, "timing": 0, "request_id": 0}


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        ({"model": 1}, 400, "malformed"),
        ({"model": {}}, 400, "malformed"),
        ({"model": model("files")}, 422, "violation"),
        ({"model": model("argmax_inline"), "inputs": {}}, 400, "malformed"),
        ({"model": model("argmax_inline"), "device": "no"}, 400, "this server has"),
        ({"model": {**model("argmax_inline"), "commands": []}, "device": "no"}, 400, "this server has"),
        ({"model": model("argmax_inline"), "feature_level": "9_9"}, 422, "violation"),
    ],
)
def test_invalid_models_are_refused(http, given, status, said):
    response = http.post("/v1/execute", json=given)
    assert said in read_problem(status, response.headers, response.content, given)["detail"]


def test_oversized_models_are_refused_before_they_are_allocated():
    large = {"initialValuesDataType": "UINT8", "initialValues": {"value": 1, "valueCount": 4_000_000_000}}
    many = {f"n{i}": REQUEST["operator"] for i in range(5)}
    with serving(Settings(port=0, limits=Limits(batch_requests=4))) as server:
        for change, code in (
            ({"resources": {"x": large}}, "tensor_too_large"),
            ({"dispatchables": many}, "batch_too_large"),
        ):
            whole = {"resources": {}, "dispatchables": {}, "commands": [], **change}
            response = httpx.post(f"{server.url}/v1/execute", json={"model": whole})
            assert read_problem(413, response.headers, response.content)["code"] == code
