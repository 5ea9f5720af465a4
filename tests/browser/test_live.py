"""The Live page under load, across a restart, and without a server."""

from __future__ import annotations

import re
import time
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from opwire_service.settings import Settings
from tests.browser.test_tensors import MODULES
from tests.e2e.console.test_console import REQUEST
from tests.support.http.processes import process
from tests.support.http.serving import serving
from tests.unit.graph.test_checking import diamond

ROWS = {"data": [[[[1, 2, 3], [4, 5, 6]]]]}


def figure(page: Page, name: str) -> Any:
    return page.locator(".figures div", has=page.get_by_text(name, exact=True)).locator("dd")


def test_an_idle_server_shows_no_requests(tabs):
    with serving() as server:
        page = tabs.open(f"{server.url}/live")
        expect(page.get_by_text("No requests since startup.")).to_be_visible()
        expect(figure(page, "requests/s")).to_have_text("0")


def test_the_page_follows_a_load_a_pause_and_a_restart(tabs):
    with serving() as server:
        url = server.url
        assert url is not None
        tab = tabs.tab(f"{url}/live", expected=[0])
        page = tab.page
        expect(figure(page, "requests/s")).to_have_text("0")
        with httpx.Client(base_url=url) as client:
            for _ in range(40):
                assert client.post("/v1/execute", json=REQUEST).status_code == 200
                time.sleep(0.03)
            client.post("/v1/execute", json={"operator": {}})
            assert client.post("/v1/execute", json={"graph": diamond(), "inputs": {"x": ROWS}}).status_code == 200
        expect(figure(page, "requests/s")).not_to_have_text("0")
        expect(page.get_by_role("row", name=re.compile("^ARGMAX"))).to_be_visible()
        expect(page.get_by_role("row", name=re.compile("^GRAPH"))).to_be_visible()
        expect(page.get_by_role("region", name="Refusals")).to_contain_text("invalid_request")
        expect(page.get_by_role("img", name=re.compile("Requests per second"))).to_be_visible()
        page.get_by_role("button", name="Pause").click()
        time.sleep(0.3)
        asked = len(tab.requests)
        time.sleep(1.5)
        assert len(tab.requests) == asked
        page.get_by_role("button", name="Resume").click()
        expect(figure(page, "requests/s")).to_have_text("0")
        port = int(url.rpartition(":")[2])
    expect(page.get_by_text("The server cannot be reached")).to_be_visible()
    with serving(Settings(port=port)):
        expect(page.get_by_text(re.compile("another server|responding again"))).to_be_visible(timeout=20_000)
        expect(page.get_by_text("The server cannot be reached")).to_have_count(0, timeout=20_000)


HIDDEN = """let hidden = false;
    Object.defineProperty(document, 'hidden', { get: () => hidden });
    window.hide = (given) => { hidden = given; document.dispatchEvent(new Event('visibilitychange')); };"""


def test_a_hidden_page_sends_no_requests(tabs, console_url):
    tab = tabs.tab(f"{console_url}/live", before=HIDDEN)
    page = tab.page
    expect(figure(page, "requests/s")).to_have_text("0")
    page.evaluate("window.hide(true)")
    page.wait_for_timeout(1500)  # lets requests in progress finish
    asked = len(tab.requests)
    page.wait_for_timeout(1500)
    assert len(tab.requests) == asked
    with page.expect_request("**/v1/server/load*"):
        page.evaluate("window.hide(false)")
    page.evaluate("window.hide(true)")
    page.wait_for_timeout(1500)
    with page.expect_request("**/v1/server/load*"):
        page.get_by_label("keep updating while hidden").check()


@pytest.mark.thorough
def test_requests_of_all_processes_are_counted(tabs):
    """Each connection goes to one of two processes; whichever responds, the page counts the requests of both."""
    with process("--workers", "2") as server:
        page = tabs.open(f"{server.url}/live")
        expect(page.get_by_text("2 of 2 processes")).to_be_visible()
        for _ in range(30):
            with httpx.Client(base_url=server.url) as client:
                client.post("/v1/execute", json={"operator": {}})
        expect(page.get_by_role("row", name=re.compile("^invalid_request"))).to_contain_text("30")


def test_rates_and_quantiles_come_from_two_samples(tabs, console_url):
    """Checked against hand-computed numbers: 100 samples between 1 and 2.5 ms, and one in the next bucket."""
    page = tabs.open(f"{console_url}/live")
    expect(page.locator(".figures")).to_be_visible()
    before: dict[str, Any] = {
        **{"instance": "a", "time": 10.0, "outcomes": {"ok": 5}, "bounds_us": [1000, 2500, 5000], "operators": {}},
        "stages": {"total": {"sum_us": 0, "buckets": [7, 0, 0, 0]}},
    }
    after = {**before, "time": 12.0, "outcomes": {"ok": 206, "queue_full": 4}}
    after["stages"] = {"total": {"sum_us": 1, "buckets": [7, 100, 0, 0]}}
    place = MODULES.replace("app/tensor", "app/metrics").replace("tensor[/]", "metrics[.]")
    between = f"async (given) => (await import({place} + 'metrics.js')).between(...given)"
    sample = page.evaluate(between, [before, after])
    assert sample["outcomes"] == {"ok": 100.5, "queue_full": 2}
    assert sample["quantiles"]["total"] == {"p50": 1.75, "p99": pytest.approx(2.485)}
    assert page.evaluate(between, [before, {**after, "instance": "b"}]) is None
    assert page.evaluate(between, [after, {**before, "time": 13.0}]) is None
