"""The page of a comparison in a browser: from a file, without a network."""

from __future__ import annotations

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

import opwire
from opwire.difference.reports import to_html
from tests.browser.tabs import NARROW, WIDE

X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(4, 6)


def _report() -> str:
    """Returns the page of a chain of 50 nodes, of which one is wrong and one has no tensor."""
    graph = opwire.Graph()
    tensor = graph.input("x", "FLOAT32", X.shape)
    tensors = {}
    for i in range(50):
        tensor, made = graph.element_wise_negate(tensor), X * (-1) ** (i + 1)
        made[1, 2] += (-1) ** i if i >= 30 else 0
        tensors[tensor.source] = made
    tensors.pop("element_wise_negate_40.OutputTensor")
    return to_html(opwire.diff(graph, tensors, {"x": X}))


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(_report(), "utf-8")
    return str(path.as_uri())


def test_the_worst_node_is_open_and_shown_in_the_graph(tabs, address):
    page = tabs.open(address)
    expect(page.get_by_role("heading", level=1)).to_have_text("graph")
    details = page.locator("details")
    expect(details.first.locator("summary")).to_contain_text("element_wise_negate_31")
    assert details.first.evaluate("each => each.open")
    expect(details.first.locator("dl")).to_contain_text("element_wise_negate_31.OutputTensor[1, 2]")
    expect(page.locator(".box")).to_have_count(49)
    expect(page.locator(".box.wrong")).to_be_in_viewport()


def test_a_node_of_the_graph_opens_its_details(tabs, address):
    page = tabs.open(address)
    assert page.locator("details:not([hidden])").count() == 40
    page.get_by_role("button", name="element_wise_negate_50, ELEMENT_WISE_NEGATE: exact").focus()
    page.keyboard.press("Enter")
    opened = page.locator("details", has=page.locator("summary:focus"))
    expect(opened).to_contain_text("element_wise_negate_50.OutputTensor")
    page.get_by_role("button", name="Show 9 more").click()
    assert page.locator("details:not([hidden])").count() == 49


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (WIDE, "dark"), (NARROW, "dark")])
def test_the_page_can_be_read_by_all(tabs, address, size, scheme):
    page = tabs.open(address, size, color_scheme=scheme)
    expect(page.locator("details").first).to_be_visible()
    found = Axe().run(page).response["violations"]
    assert not found, found
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_the_console_opens_reports(tabs, console_url, tmp_path):
    page = tabs.open(f"{console_url}/report")
    (tmp_path / "report.html").write_text(_report(), "utf-8")
    (tmp_path / "other.json").write_text('{"nodes": {}}', "utf-8")
    page.get_by_label("Report").set_input_files(tmp_path / "other.json")
    expect(page.get_by_role("alert")).to_have_text("other.json cannot be opened: this is not a report of opwire diff")
    page.get_by_label("Report").set_input_files(tmp_path / "report.html")
    expect(page.locator(".box")).to_have_count(49)
    expect(page.get_by_role("alert")).to_have_text("")
    assert page.locator(".box.wrong rect").evaluate("each => each.style.fill")
    found = Axe().run(page).response["violations"]
    assert not found, found
