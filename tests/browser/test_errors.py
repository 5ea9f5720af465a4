"""Errors are shown with a remedy, and nothing the user typed is lost."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from opwire_service.settings import Limits, Settings
from tests.browser.tabs import link
from tests.browser.test_try import NUMBERS, REDUCE, numbers_of
from tests.support.http.serving import serving
from tests.support.http.sockets import connect

ENDLESS: dict[str, Any] = {
    "type": "REDUCE",
    "desc": {
        "Function": "SUM_SQUARE",
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [2**28], "Strides": [0]},
        "Axes": [0],
    },
}
"""More work than any test waits for, from four bytes of input."""

BAD = {"type": "REDUCE", "desc": {**REDUCE["desc"], "Axes": [7]}}
ONES = {"InputTensor": {"kind": "constant", "value": "1"}}
TRY = json.dumps(REDUCE, indent=1)


def note(page: Page, status: int) -> Any:
    return page.get_by_role("alert").filter(has_text=f"status {status}").first


def click_run(page: Page) -> None:
    expect(page.get_by_text("valid from")).to_be_visible()
    page.locator(".bar").get_by_role("button", name=re.compile("^Run")).click()


def answering(status: int, body: str, **headers: str) -> Any:
    """Returns a route handler that responds in place of the server."""
    content = headers.pop("content_type", "application/problem+json")
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    def answer(route: Route) -> None:
        route.fulfill(status=status, body=body, headers={"Content-Type": content, **named})

    return answer


@pytest.fixture(scope="module")
def single_slot_url() -> Iterator[str]:
    """The URL of a server that runs one operator and queues none."""
    settings = Settings(port=0, devices=("reference",), threads=1, limits=Limits(queued=0))
    with serving(settings) as server:
        assert server.url is not None
        yield server.url


def test_a_full_queue_counts_down_to_the_next_run(tabs, single_slot_url):
    desc = {**ENDLESS["desc"], "InputTensor": {"DataType": "FLOAT32", "Sizes": [2**16], "Strides": [0]}}
    address = link(single_slot_url, text=json.dumps({**ENDLESS, "desc": desc}), inputs=ONES)
    page = tabs.open(address, expected=[429], prepare=lambda page: page.clock.install())
    body = json.dumps({"operator": ENDLESS, "inputs": {"InputTensor": "AAAAAA=="}}).encode()
    with connect(single_slot_url) as running:
        running.sendall(b"POST /v1/execute HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        until_running(page, single_slot_url, 1)
        click_run(page)
        waiting = note(page, 429).get_by_role("button", name=re.compile(r"Run again in \d+ s"))
        expect(waiting).to_be_disabled()
    until_running(page, single_slot_url, 0)
    page.clock.fast_forward(61_000)
    page.get_by_role("button", name="Run again", exact=True).click()
    assert numbers_of(page) == [str(2**16)]


def until_running(page: Page, url: str, count: int) -> None:
    """Waits until ``count`` operators run."""
    for _ in range(500):
        load = page.request.get(f"{url}/v1/server/load").json()
        if load["devices"]["reference"]["running"] == count:
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"there never were {count}")


def test_cancel_stops_the_work_on_the_server(tabs, single_slot_url):
    page = tabs.open(link(single_slot_url, text=json.dumps(ENDLESS), inputs=ONES))
    click_run(page)
    until_running(page, single_slot_url, 1)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Nothing has been run yet.")).to_be_visible()
    until_running(page, single_slot_url, 0)
    expect(page.get_by_role("button", name=re.compile("^Run"))).to_be_enabled()


def test_contract_violations_are_listed(tabs, console_url):
    page = tabs.open(link(console_url, text=json.dumps(BAD), inputs=NUMBERS), expected=[422])
    expect(page.get_by_text("1 violation; first")).to_be_visible()
    page.get_by_role("button", name=re.compile("^Run")).click()
    expect(note(page, 422)).to_be_visible()
    expect(page.locator(".outputs ul.bad")).to_contain_text("/operator/desc/Axes/0")


def test_an_oversized_request_is_neither_generated_nor_sent(tabs):
    with serving(Settings(port=0, limits=Limits(body_bytes=2000))) as server:
        desc = {**REDUCE["desc"], "InputTensor": {"DataType": "FLOAT32", "Sizes": [40_000, 50_000]}}
        tab = tabs.tab(link(server.url or "", text=json.dumps({"type": "REDUCE", "desc": desc})))
        click_run(tab.page)
        expect(note(tab.page, 413)).to_contain_text("8000000000 bytes given, 2000 allowed")
        assert not [request for request in tab.requests if request.url.endswith("/v1/execute")]


@pytest.mark.parametrize(
    ("status", "answer", "said"),
    [
        (
            502,
            {"body": "<h1>Bad gateway</h1>" + "x" * 500, "content_type": "text/html"},
            ["not JSON", "<h1>Bad gateway"],
        ),
        (200, {"body": "<title>Log in</title>", "content_type": "text/html"}, ["not JSON", "<title>Log in"]),
        (500, {"body": '{"title": "Internal error", "detail": "failed", "request_id": "r7"}'}, ["log", "request r7"]),
        (503, {"body": '{"title": "Draining", "detail": "stops"}', "retry_after": "7"}, ["starting or stopping"]),
    ],
)
def test_responses_of_proxies_and_failing_servers_are_explained(tabs, console_url, status, answer, said):
    address = link(console_url, text=TRY, inputs=NUMBERS)
    between = answering(status, **answer)
    page = tabs.open(address, expected=[status], prepare=lambda page: page.route("**/v1/validate", between))
    found = page.get_by_role("alert").filter(has_text=f"status {status}").first
    for text in said:
        expect(found).to_contain_text(text)
    expect(found).not_to_contain_text("x" * 201)
    assert page.locator("h1:not(.offscreen)").count() == 0  # shown as text, not as markup


@pytest.mark.parametrize("path", ["", "operators/REDUCE", "try"])
def test_a_page_waits_for_an_unreachable_server(tabs, console_url, path):
    """The contract cannot be loaded at first; the page appears without a reload once it can."""
    lost = iter([True])

    def answer(route: Route) -> None:
        if next(lost, False):
            route.abort("connectionrefused")
        else:
            route.continue_()

    page = tabs.open(f"{console_url}/{path}", expected=[0], prepare=lambda page: page.route("**/v1/schema", answer))
    shown = {"": "[data-operator=REDUCE]", "operators/REDUCE": "#examples", "try": ".passes"}[path]
    expect(page.locator(shown).first).to_be_visible()


def test_going_offline_and_back_keeps_the_text(tabs, console_url):
    tab = tabs.tab(link(console_url, text=TRY, inputs=NUMBERS), expected=[0])
    page = tab.page
    expect(page.get_by_text("valid from")).to_be_visible()
    tab.context.set_offline(True)
    click_run(page)
    banner = page.get_by_text("The server cannot be reached. Your input is kept")
    expect(banner).to_be_visible()
    page.locator(".cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.type(" // kept")
    page.wait_for_url(re.compile("#z="))
    tab.context.set_offline(False)
    expect(banner).to_have_count(0)
    click_run(page)
    assert numbers_of(page) == ["8", "12"]
    page.reload()
    expect(page.locator(".cm-content")).to_contain_text("// kept")


REFUSED = """Object.defineProperty(navigator, 'clipboard', { value: {
    writeText: () => Promise.reject(new DOMException('no', 'NotAllowedError')) } });"""
INSECURE = "Object.defineProperty(window, 'isSecureContext', { value: false });"


@pytest.mark.parametrize("before", [REFUSED, INSECURE])
def test_copying_works_without_the_clipboard_api(tabs, console_url, before):
    page = tabs.open(link(console_url, text=TRY, inputs=NUMBERS), before=before)
    expect(page.get_by_text("valid from")).to_be_visible()
    page.get_by_role("button", name="Copy as …").click()
    expect(page.locator("dialog.copy pre")).to_contain_text("curl")
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="Copied.")).to_be_visible()


BLOCKED = """for (const name of ['localStorage', 'sessionStorage']) {
    Object.defineProperty(window, name, { get() { throw new DOMException('no', 'SecurityError'); } }); }"""


def test_the_console_works_in_a_browser_without_storage(tabs, tmp_path):
    (tmp_path / "keys").write_text("a-long-enough-key-for-this-test\n")
    with serving(Settings(port=0, api_keys_file=tmp_path / "keys")) as server:
        page = tabs.open(link(server.url or "", text=TRY, inputs=NUMBERS), expected=[401], before=BLOCKED)
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Key").fill("a-long-enough-key-for-this-test")
        dialog.get_by_role("button", name="Use this key").click()
        click_run(page)
        assert numbers_of(page) == ["8", "12"]
        page.get_by_role("button", name=re.compile("switch to light")).click()
        expect(page.get_by_role("button", name=re.compile("switch to dark"))).to_be_visible()
        page.keyboard.press("?")
        page.get_by_label("Enable the / and ? shortcuts").uncheck()
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_have_count(0)
