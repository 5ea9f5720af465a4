"""Accessibility and deployment: axe-core, keyboard, narrow screens, colors, API keys, path prefixes, lost servers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from opwire_service.settings import Limits, Settings
from tests.browser.tabs import NARROW, PHONE, WIDE, link
from tests.browser.test_try import NUMBERS, REDUCE, numbers_of
from tests.support.http.serving import serving

KEY = "a-long-enough-key-for-this-test"
BAD = {"type": "REDUCE", "desc": {**REDUCE["desc"], "Axes": [1, 2]}}
LOOKS: dict[str, tuple[tuple[int, int], dict[str, Any]]] = {
    "light": (WIDE, {"color_scheme": "light"}),
    "dark": (WIDE, {"color_scheme": "dark"}),
    "forced": (WIDE, {"forced_colors": "active"}),
    "phone": (PHONE, {"has_touch": True}),
}


MANY_ROWS = "tbody > tr:nth-child(n + 41)"
"""Selects rows beyond those that show all kinds of cells; axe takes long for each of the operators."""


def violations(page: Page, left_out: str = "#nothing") -> list[str]:
    """Returns what axe finds, except in the elements of a selector."""
    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    found = Axe().run(page, context={"exclude": [[left_out]]}, options={"runOnly": rules})
    return [
        f"{each['id']}: {[node['html'][:200] for node in each['nodes'][:3]]}" for each in found.response["violations"]
    ]


def pages(url: str) -> Iterator[tuple[str, str]]:
    """Yields addresses, each with a selector for what it must show."""
    yield f"{url}/#q=MAX_POOL&type=FLOAT16&open=MAX_POOLING2", ".detail"
    yield f"{url}/", ".intro"
    yield f"{url}/operators/REDUCE", "#examples"
    yield link(url, text=json.dumps(BAD, indent=1), inputs=NUMBERS, level="2_1"), ".violations li"
    yield link(url, operator="GRAPH"), "g.box"
    yield f"{url}/live", ".figures"


def shown(page: Page, url: str) -> Iterator[str]:
    """Visits one page after the other and yields each address once the page is shown."""
    for address, found in pages(url):
        page.goto("about:blank")  # otherwise only the fragment would change
        page.goto(address)
        expect(page.locator(found).first).to_be_visible()
        yield address


THOROUGH = [pytest.param(look, marks=pytest.mark.thorough) for look in LOOKS if look != "light"]


@pytest.mark.parametrize("look", ["light", *THOROUGH])
def test_axe_finds_no_violations(tabs, console_url, look):
    size, options = LOOKS[look]
    page = tabs.open(f"{console_url}/live", size, **options)
    left_out = MANY_ROWS if look == "light" else "#nothing"
    found = [f"{address[:60]} {each}" for address in shown(page, console_url) for each in violations(page, left_out)]
    page.get_by_role("button", name=re.compile("^key")).click()
    found += [f"dialog {each}" for each in violations(page)]
    assert not found, "\n".join(found)


def test_narrow_screens_do_not_scroll_sideways(tabs, console_url):
    page = tabs.open(f"{console_url}/live", NARROW)
    for address in shown(page, console_url):
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0], address


BROKEN_WORDS = """() => {
    const broken = [];
    const range = document.createRange();
    for (const cell of document.querySelectorAll("th, td, h1")) {
        const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
        while (cell.checkVisibility() && walker.nextNode()) {
            for (const word of walker.currentNode.data.matchAll(/[A-Za-z0-9]{2,}/g)) {
                range.setStart(walker.currentNode, word.index);
                range.setEnd(walker.currentNode, word.index + word[0].length);
                const lines = [...range.getClientRects()].filter((each) => each.width > 0).map((each) => each.top);
                if (new Set(lines).size > 1) broken.push(word[0]);
            }
        }
    }
    return broken;
}"""


@pytest.mark.parametrize("size", [(400, 800), (800, 800), (1400, 900)])
def test_tables_do_not_break_words(tabs, console_url, size):
    for name in ("MULTIHEAD_ATTENTION", "CONVOLUTION", "ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL"):
        page = tabs.open(f"{console_url}/operators/{name}", size)
        expect(page.locator("#examples")).to_be_visible()
        assert page.evaluate(BROKEN_WORDS) == []
        tabs.close_all()


def test_the_try_page_works_by_keyboard_alone(tabs, console_url):
    """A violation is found, fixed and run without a pointer, and the Tab key leaves the editor."""
    page = tabs.open(link(console_url, text=json.dumps(BAD, indent=1), inputs=NUMBERS))
    expect(page.get_by_text("1 violation; first")).to_be_visible()
    editor = page.get_by_role("textbox", name="Operator as JSON")
    expect(editor).to_have_accessible_description(re.compile(r"line \d+: axis 2 "))
    page.keyboard.press("F8")
    page.keyboard.type("0")
    expect(page.get_by_text("violation; first")).to_have_count(0)
    expect(editor).to_be_focused()
    page.keyboard.press("Tab")
    expect(editor).not_to_be_focused()
    page.keyboard.press("Control+Enter")
    assert numbers_of(page) == ["20"]


def test_the_skip_link_and_the_shortcut_help_work_by_keyboard(tabs, console_url):
    page = tabs.open(f"{console_url}/live")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Ctrl+Enter")
    page.get_by_label("Enable the / and ? shortcuts").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_color_scheme_survives_a_reload(tabs, console_url):
    page = tabs.open(f"{console_url}/", color_scheme="light")
    for name in ("light", "dark"):
        page.get_by_role("button", name=re.compile(f"switch to {name}")).click()
    back = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(back)
    page.reload()
    assert page.evaluate(back) == dark
    assert page.evaluate("Object.keys(localStorage)") == ["opwire-theme"]


def test_the_api_key_is_asked_for_once_and_never_leaks(tabs, tmp_path):
    file = tmp_path / "keys"
    file.write_text(KEY + "\n")
    with serving(Settings(port=0, api_keys_file=file)) as server:
        url = server.url
        assert url is not None
        tab = tabs.tab(f"{url}/", expected=[401])
        page = tab.page
        expect(page.locator("[data-operator=REDUCE]")).to_be_visible()  # the contract needs no key
        expect(page.get_by_text("key needed")).to_be_visible()
        page.goto(link(url, text=json.dumps(REDUCE), inputs=NUMBERS))
        dialog = page.get_by_role("dialog")
        expect(dialog).to_be_visible()
        dialog.get_by_label("Key").fill("a-wrong-key-that-is-long-enough")
        dialog.get_by_role("button", name="Use this key").click()
        expect(dialog).to_contain_text("rejected this key")
        dialog.get_by_label("Key").fill(KEY)
        dialog.get_by_role("button", name="Use this key").click()
        expect(dialog).to_have_count(0)
        page.get_by_role("button", name=re.compile("^Run")).click()
        assert numbers_of(page) == ["8", "12"]
        page.get_by_role("button", name="Copy as …").click()
        expect(page.locator("dialog.copy pre")).to_contain_text("$OPWIRE_API_KEY")
        assert KEY not in page.content()
        assert KEY not in page.url
        assert page.evaluate("JSON.stringify(localStorage) + document.cookie") == "{}"
        assert page.evaluate("Object.values(sessionStorage)") == [KEY]
        for request in tab.requests:
            assert KEY not in request.url
            assert KEY not in (request.post_data or "")
        page.get_by_role("button", name="Close", exact=True).click()
        page.get_by_role("button", name="key ✓").click()
        dialog.get_by_role("button", name="Forget key").click()
        assert page.evaluate("sessionStorage.length") == 0


@pytest.mark.parametrize(
    ("limits", "status", "said"),
    [
        (Limits(tensor_elements=2), 413, "given, 2 allowed"),
        (Limits(timeout_ms=1, work=2**40, tensor_elements=2**30), 504, "time limit"),
    ],
)
def test_refusals_show_the_limit_and_the_request_id(tabs, limits, status, said):
    sizes = [2, 3] if status == 413 else [3000, 3000]
    desc = {"Function": "LOG_SUM_EXP", "InputTensor": {"DataType": "FLOAT32", "Sizes": sizes}, "Axes": [1]}
    with serving(Settings(port=0, limits=limits)) as server:
        page = tabs.open(link(server.url or "", text=json.dumps({"type": "REDUCE", "desc": desc})), expected=[413, 504])
        page.get_by_role("button", name=re.compile("^Run")).click()
        note = page.get_by_role("alert").filter(has_text=f"status {status}").first
        expect(note).to_contain_text(said)
        expect(note.get_by_role("button", name="Copy the request id")).to_be_visible()


def test_a_lost_server_loses_nothing_that_was_typed(tabs):
    with serving() as server:
        page = tabs.open(link(server.url or "", text=json.dumps(REDUCE), inputs=NUMBERS), expected=[0])
        expect(page.get_by_text("valid from")).to_be_visible()
    page.get_by_role("button", name=re.compile("^Run")).click()
    expect(page.get_by_text("Your input is kept")).to_be_visible()
    expect(page.locator(".cm-content")).to_contain_text("REDUCE")


@pytest.mark.parametrize("path", ["", "/"])
def test_the_console_works_below_a_root_path(tabs, path):
    with serving(Settings(port=0, root_path="/tensors/dml")) as server:
        page = tabs.open(f"{server.url}/tensors/dml{path}")
        expect(page.locator("[data-operator=REDUCE]")).to_be_visible()
        page.get_by_role("link", name="Try").first.click()
        expect(page.get_by_text("valid from")).to_be_visible()
        assert "/tensors/dml/try" in page.url


@pytest.mark.thorough
def test_the_console_loads_over_tls(tabs, certificate: tuple[Path, Path]):
    chain, key = certificate
    with serving(Settings(port=0, tls_certificate=chain, tls_key=key)) as server:
        page = tabs.open(f"{server.url}/", ignore_https_errors=True)
        expect(page.locator("[data-operator=REDUCE]")).to_be_visible()
