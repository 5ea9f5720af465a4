"""The explorer: search and filters against counts from the facts, bands, comparison, links, operator pages."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.tabs import PHONE, link
from tests.directml.documented import OPERATORS
from tests.directml.tensor_support import COUNT, FACTS, LEVELS, introduced_by


def rows(page: Page) -> Any:
    return page.locator(".matrix tbody tr:not(.sub)")


def count(page: Page) -> Any:
    return page.get_by_role("status").first


@pytest.fixture
def explorer(tabs, console_url):
    page = tabs.open(f"{console_url}/")
    expect(rows(page)).to_have_count(COUNT)
    return page


def test_every_operator_has_a_row(explorer):
    assert set(explorer.locator("[data-operator]").evaluate_all("all => all.map(e => e.dataset.operator)")) == set(
        OPERATORS
    )
    expect(explorer.locator("thead th")).to_have_text(["operator", "state", *LEVELS])


def test_the_page_explains_itself(tabs, console_url, explorer):
    """The introduction has a legend and links that work; it is folded once per tab, and left out of deep links."""
    intro = explorer.locator(".intro")
    expect(intro).to_contain_text("A cell spans all levels with the same support")
    intro.get_by_role("link", name="Try an operator").click()
    expect(explorer.get_by_text("valid from")).to_be_visible()
    explorer.goto(f"{console_url}/")
    intro.locator("summary").click()
    explorer.wait_for_function("sessionStorage.getItem('opwire-intro') !== null")
    explorer.reload()
    expect(intro).not_to_have_attribute("open", "")
    deep = tabs.tab(f"{console_url}/#q=pool").page
    expect(deep.locator(".intro")).not_to_have_attribute("open", "")


def test_pictures_of_operators_are_drawn(tabs, console_url):
    page = tabs.open(f"{console_url}/operators/REDUCE")
    picture = page.get_by_role("img", name="The tensors of an example of REDUCE")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.naturalWidth") > 300
    expect(page.locator(".picture figcaption")).to_contain_text("Function SUM, Axes [0].")
    page.goto(f"{console_url}/operators/ELEMENT_WISE_ABS")
    expect(page.locator("#examples")).to_be_visible()
    expect(page.locator(".picture")).to_have_count(0)


def test_wrong_links_lead_to_a_page_that_helps(tabs, console_url):
    page = tabs.open(f"{console_url}/operators/REDUCES", expected=[404])
    expect(page.get_by_role("heading", level=1)).to_have_text("Nothing is served here")
    page.get_by_role("link", name="REDUCE", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("REDUCE")


def test_the_operator_box_shows_the_longest_name(tabs, console_url):
    longest = max(OPERATORS, key=len)
    page = tabs.open(link(console_url, operator=longest))
    box = page.get_by_role("combobox", name="Operator")
    expect(box).to_have_value(longest)
    assert box.evaluate("box => box.scrollWidth <= box.clientWidth")


def test_the_contract_is_loaded_once_and_alongside_the_scripts(tabs, console_url):
    for path in ("", "operators/REDUCE", "try"):
        tab = tabs.tab(f"{console_url}/{path}")
        expect(tab.page.locator(".matrix, #examples, .passes").first).to_be_visible()
        asked = [request.url.removeprefix(console_url) for request in tab.requests]
        assert [asked.count(each) for each in ("/v1/schema", "/v1/operators")] == [1, 1]
        assert asked.index("/v1/schema") < next(i for i, each in enumerate(asked) if "/app/views/" in each)
        tab.page.wait_for_timeout(4000)  # browsers warn about unused preloads after a few seconds


ROWS_AT_ONCE = """window.most = 0;
    new MutationObserver((records) => {
        const added = records.flatMap((record) => [...record.addedNodes]).filter((node) => node.nodeType === 1);
        const rows = added.map((node) => node.matches('tr') + node.querySelectorAll('tr').length);
        window.most = Math.max(window.most, rows.reduce((sum, each) => sum + each, 0));
    }).observe(document, { childList: true, subtree: true });"""


def test_the_table_is_drawn_in_pieces(tabs, console_url):
    """No task draws more than a screenful of rows, neither on load nor on a key press."""
    page = tabs.open(f"{console_url}/", before=ROWS_AT_ONCE)
    expect(rows(page)).to_have_count(COUNT)
    assert 0 < page.evaluate("window.most") <= 40
    search = page.get_by_role("searchbox")
    search.fill("gemm")
    expect(count(page)).not_to_have_text(f"{COUNT} of {COUNT}")
    page.evaluate("window.most = 0")
    search.fill("")
    expect(rows(page)).to_have_count(COUNT)
    assert 0 < page.evaluate("window.most") <= 40


def test_the_end_key_reaches_the_last_row_before_it_is_drawn(tabs, console_url):
    page = tabs.open(f"{console_url}/", before="window.setTimeout = () => 0;")
    expect(page.locator("[data-operator=ELEMENT_WISE_ABS]")).to_be_visible()
    assert rows(page).count() < COUNT
    page.locator(".matrix [tabindex='0']").focus()
    page.keyboard.press("Control+End")
    expect(rows(page)).to_have_count(COUNT)
    expect(rows(page).last.locator("td.band").last).to_be_focused()


def test_search_finds_names_functions_and_misspellings(explorer):
    search = explorer.get_by_role("searchbox")
    for given, found in (
        ("max_pooling", ["MAX_POOLING", "MAX_POOLING1", "MAX_POOLING2", "MAX_POOLING_GRAD"]),
        ("SCATTER", ["SCATTER_ELEMENTS"]),
    ):
        search.fill(given)
        for name in found:
            expect(explorer.locator(f"[data-operator={name}]")).to_be_visible()
    search.fill("recurrent")
    for name in ("RNN", "LSTM", "GRU"):
        expect(explorer.locator(f"[data-operator={name}]")).to_be_visible()
    search.fill("REDUSE")
    explorer.get_by_role("button", name="REDUCE", exact=True).click()
    expect(explorer.locator("[data-operator=REDUCE]")).to_be_visible()


def choose(page: Page, control: str, option: str) -> None:
    page.get_by_role("combobox", name=control, exact=True).select_option(option)


def test_the_level_filters_the_operators(explorer):
    for level in ("1_0", "3_1", "6_4"):
        choose(explorer, "Level", level)
        expect(count(explorer)).to_have_text(f"{introduced_by(level)} of {COUNT}")


def test_data_type_and_rank_filter_the_operators(explorer):
    """The rows are the operators that take the type for some input, at that level and rank."""
    for control, option in (("Accepts", "INT64"), ("of rank", "3"), ("Level", "4_1")):
        choose(explorer, control, option)
    wanted = {name for name, row in OPERATORS.items() if takes(row, "INT64", 3, "4_1")}
    assert 0 < len(wanted) < COUNT
    expect(count(explorer)).to_have_text(f"{len(wanted)} of {COUNT}")
    shown = explorer.locator("[data-operator]").evaluate_all("all => all.map(e => e.dataset.operator)")
    assert set(shown) == wanted


def takes(operator: dict[str, Any], data_type: str, rank: int, level: str) -> bool:
    latest: dict[str, dict[str, Any]] = {}
    for row in sorted(operator["support"], key=lambda row: LEVELS.index(row["from"])):
        if LEVELS.index(row["from"]) <= LEVELS.index(level):
            latest[json.dumps(row.get("when"))] = row["tensors"]
    return any(
        "input" in limits["kind"]
        and data_type in limits["data_types"]
        and limits["dimension_counts"][0] <= rank <= limits["dimension_counts"][1]
        for tensors in latest.values()
        for limits in tensors.values()
    )


def test_operators_changed_at_a_level_are_shown(explorer):
    choose(explorer, "Changed at", "5_0")
    expect(explorer.locator("[data-operator=REDUCE]")).to_be_visible()
    added = [name for name, (_, since) in FACTS["operators"].items() if since == "5_0"]
    for name in added:
        expect(explorer.locator(f"[data-operator={name}]")).to_be_visible()
    expect(explorer.locator("[data-operator=GEMM]")).to_have_count(0 if not changed_at("GEMM", "5_0") else 1)


def changed_at(name: str, level: str) -> bool:
    return any(row.get("from") == level for row in OPERATORS[name].get("support", ()))


def test_the_state_filters_the_operators(explorer):
    choose(explorer, "State", "executable")
    for name in FACTS["fields"]:
        expect(explorer.locator(f"[data-operator={name}]")).to_be_visible()


def test_a_band_opens_and_a_link_restores_the_view(explorer, tabs):
    explorer.get_by_role("searchbox").fill("ELEMENT_WISE_ADD")
    explorer.locator("[data-operator=ELEMENT_WISE_ADD] ~ td.band").filter(has_text="I64").click()
    detail = explorer.get_by_role("complementary")
    expect(detail).to_contain_text("new INT64 UINT64")
    expect(detail).to_contain_text("4_1")
    again = tabs.open(explorer.url)
    expect(again.get_by_role("searchbox")).to_have_value("ELEMENT_WISE_ADD")
    expect(again.get_by_role("complementary")).to_contain_text("4_1")
    href = detail.get_by_role("link", name=re.compile("Try at")).get_attribute("href")
    assert href is not None
    assert "/try#json=" in href


def test_operators_are_compared_side_by_side(explorer):
    explorer.get_by_role("searchbox").fill("ARGM")
    for name in ("ARGMAX", "ARGMIN"):
        explorer.get_by_label(f"Compare {name}").check()
    table = explorer.get_by_label("Compared", exact=True)
    expect(table).to_contain_text("ARGMIN")
    expect(table).to_contain_text("AxisDirection")
    explorer.reload()
    expect(table).to_contain_text("AxisDirection")


def test_reduce_expands_to_a_row_for_each_group_of_functions(explorer):
    explorer.get_by_role("searchbox").fill("REDUCE")
    explorer.get_by_label("Rows of REDUCE", exact=True).click()
    expect(explorer.locator("tr.sub")).to_have_count(5)
    expect(explorer.locator("tr.sub").first).to_contain_text("ARGMAX")


def test_the_explorer_works_by_keyboard(explorer):
    explorer.keyboard.press("/")
    explorer.keyboard.type("gemm")
    expect(count(explorer)).not_to_have_text(f"{COUNT} of {COUNT}")
    explorer.locator("[data-operator=GEMM]").focus()
    explorer.keyboard.press("ArrowRight")
    explorer.keyboard.press("Enter")
    expect(explorer.get_by_role("complementary")).to_contain_text("GEMM")
    explorer.keyboard.press("Escape")
    expect(explorer.get_by_role("complementary")).to_have_count(0)
    expect(explorer.locator("[data-operator=GEMM]")).to_be_focused()
    # The whole table is a single tab stop.
    assert explorer.locator(".matrix [tabindex='0']").count() == 1


def test_phones_get_a_list_instead_of_the_table(tabs, console_url):
    page = tabs.open(f"{console_url}/#level=2_1", PHONE, has_touch=True)
    expect(page.locator(".list li")).to_have_count(introduced_by("2_1"))
    page.locator(".list button.row").first.tap()
    expect(page.get_by_role("complementary")).to_be_visible()


def test_an_operator_page_shows_members_levels_and_examples(tabs, console_url):
    page = tabs.open(f"{console_url}/operators/DML_OPERATOR_REDUCE")
    expect(page.get_by_role("heading", level=1)).to_have_text("REDUCE")
    members = page.get_by_role("region", name="Members", exact=True)
    for field in FACTS["fields"]["REDUCE"].replace("?", "").split():
        expect(members).to_contain_text(field)
    expect(page.get_by_text("Accuracy: correctly rounded (the exact real result, rounded once")).to_contain_text(
        "within 1 ULP where Function is LOG_SUM or LOG_SUM_EXP"
    )
    page.get_by_role("button", name="MULTIPLY, SUM").click()
    page.get_by_role("button", name=re.compile("^1_0")).click()
    expect(page.locator(".levels tbody tr").first.locator("td.yes")).to_have_count(2)
    page.get_by_role("button", name=re.compile("^Compare this")).click()
    examples = page.locator("details.example")
    expect(page.get_by_text(f"{examples.count()} of {examples.count()} results equal")).to_be_visible()
    page.get_by_role("link", name="see it fail: duplicate").or_(
        page.get_by_role("link", name=re.compile("see it fail"))
    ).first.click()
    expect(page.locator(".violations li").first).to_be_visible()


@pytest.mark.thorough
def test_every_operator_has_a_page(tabs, console_url):
    page = tabs.open(f"{console_url}/operators/GEMM")
    for name in OPERATORS:
        page.goto(f"{console_url}/operators/{name}")
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        expect(page.locator("#examples")).to_be_visible()


def test_names_do_not_wrap_on_a_phone(tabs, console_url):
    page = tabs.open(f"{console_url}/operators/CONVOLUTION", PHONE, has_touch=True)
    names = page.locator(".operator .scroll th[scope=row]").filter(has_text="FilterTensor")
    expect(names.first).to_be_visible()
    assert names.count() >= 2
    heights = names.evaluate_all("""all => all.map((name) => {
        const range = document.createRange();
        range.selectNodeContents(name);
        return new Set([...range.getClientRects()].map((line) => line.bottom)).size;
    })""")
    assert set(heights) == {1}
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
