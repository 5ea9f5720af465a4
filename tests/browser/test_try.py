"""The Try page: runs, marked violations, typing, links, and copied snippets, which are executed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from opwire.dxdispatch import parse_model
from opwire.operators import OPERATORS
from opwire_service.kernels.executable import EXECUTABLE
from tests.browser.tabs import link

REDUCE: dict[str, Any] = {
    "type": "REDUCE",
    "desc": {"Function": "SUM", "InputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]}, "Axes": [1]},
}
NUMBERS = {"InputTensor": {"kind": "numbers", "text": "[[1, 5, 2], [9, 0, 3]]"}}


def editor(page: Page) -> Any:
    return page.get_by_role("textbox", name="Operator as JSON")


def run(page: Page) -> None:
    page.get_by_role("button", name=re.compile("^Run( |$)")).click()
    expect(page.locator(".output").first).to_be_visible()


def numbers_of(page: Page) -> list[str]:
    expect(page.locator("table.numbers").first).to_be_visible()
    found: list[str] = page.locator("table.numbers").first.locator("tbody td").all_inner_texts()
    return found


def fragment_of(page: Page) -> Any:
    """Returns the state in the address, decompressed with zlib."""
    page.wait_for_url(re.compile("#z="))
    packed = page.url.partition("#z=")[2]
    data = urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
    return json.loads(zlib.decompress(data, wbits=-15))


def test_an_example_runs_and_equals_the_published_output(tabs, console_url):
    page = tabs.open(f"{console_url}/try")
    expect(page.get_by_text("valid from")).to_be_visible()
    page.keyboard.press("Control+Enter")
    expect(page.locator(".output")).to_be_visible()
    page.get_by_role("button", name="compare").click()
    expect(page.get_by_text("✓ all equal")).to_be_visible()
    page.get_by_role("button", name="Run on every device").click()
    expect(page.get_by_role("row", name=re.compile("^reference"))).to_contain_text("✓ equal")


@pytest.mark.parametrize("name", ["JOIN", "SPLIT"])
def test_examples_with_arrays_of_tensors(tabs, console_url, name):
    page = tabs.open(f"{console_url}/operators/{name}")
    page.get_by_role("button", name=re.compile("^Compare this")).click()
    expect(page.get_by_text("1 of 1 results equal")).to_be_visible()
    page.locator("details.example summary").click()
    page.locator("details.example").get_by_role("link", name="Try").click()
    expect(page.get_by_text("valid from")).to_be_visible()
    run(page)
    for button in page.get_by_role("button", name="compare").all():
        button.click()
    count = len(OPERATORS[name].examples[0].outputs.get("OutputTensors", [0]))
    expect(page.get_by_text("✓ all equal")).to_have_count(count)


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_every_example_of_every_executable_operator_matches(tabs, console_url):
    page = tabs.open(f"{console_url}/operators/REDUCE")
    for name, operator in EXECUTABLE.items():
        page.goto(f"{console_url}/operators/{name}")
        page.get_by_role("button", name=re.compile("^Compare this")).click()
        count = len(operator.examples)
        expect(page.get_by_text(f"{count} of {count} results equal")).to_be_visible()


def positions(text: str) -> dict[str, tuple[int, int]]:
    """Returns the span of each value of a JSON text by pointer: the oracle for the marks."""
    found: dict[str, tuple[int, int]] = {}
    decoder = json.JSONDecoder()

    def skip(i: int) -> int:
        while i < len(text) and text[i] in " \n\r\t,:":
            i += 1
        return i

    def walk(i: int, pointer: str) -> int:
        i = skip(i)
        if text[i] not in "{[":
            _, end = decoder.raw_decode(text, i)
            found[pointer] = (i, end)
            return end
        start, close, k = i, "}" if text[i] == "{" else "]", 0
        i = skip(i + 1)
        while text[i] != close:
            name = str(k)
            if close == "}":
                name, i = decoder.raw_decode(text, i)
            i = skip(walk(i, f"{pointer}/{name}"))
            k += 1
        found[pointer] = (start, i + 1)
        return i + 1

    walk(0, "")
    return found


BAD = [(name, bad) for name, operator in OPERATORS.items() for bad in operator.bad_examples]
FEW = [row for row in BAD if row[0] in ("REDUCE", "MAX_POOLING2")]


def check_marks(page: Page, url: str, name: str, bad: Any) -> None:
    """Checks that a bad example's code is listed, on the line where the parser finds its pointer."""
    level = str(bad.level).removeprefix("DML_FEATURE_LEVEL_")
    text = json.dumps({"type": name, "desc": bad.desc}, indent=2)
    page.goto("about:blank")
    page.goto(link(url, level=level, text=text))
    item = page.locator(".violations li", has_text=f"[{bad.code.value}]").first
    expect(item).to_be_visible()
    places = positions(text)
    where = f"/desc{bad.pointer}"
    if where in places and text[places[where][0]] not in "{[":
        start, _ = places[where]
        listed = page.locator(".violations li", has=page.get_by_text(where, exact=True)).first
        expect(listed.locator(".go")).to_contain_text(f"L{text.count(chr(10), 0, start) + 1}")


def test_violations_are_marked_where_they_are(tabs, console_url):
    page = tabs.open(link(console_url, text=json.dumps(REDUCE)))
    for name, bad in FEW[:4]:
        check_marks(page, console_url, name, bad)


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_every_bad_example_is_marked(tabs, console_url):
    page = tabs.open(link(console_url, text=json.dumps(REDUCE)))
    for name, bad in BAD:
        check_marks(page, console_url, name, bad)


def test_violations_can_be_visited_and_change_with_the_level(tabs, console_url):
    desc = {**REDUCE["desc"], "Axes": [1, 2]}
    page = tabs.open(link(console_url, level="2_1", text=json.dumps({"type": "REDUCE", "desc": desc}, indent=2)))
    expect(page.get_by_text("2 violations; first on line")).to_be_visible()
    expect(page.locator(".cm-lintRange-error").first).to_be_visible()
    page.get_by_role("button", name="/desc/Axes/1").click()
    assert page.evaluate("document.querySelector('.editor').shadowRoot.getSelection().toString()") == "2"
    page.keyboard.press("F8")
    expect(editor(page)).to_be_focused()
    assert "2" in page.evaluate("document.querySelector('.editor').shadowRoot.getSelection().toString()")
    page.get_by_role("button", name="Set level 3_0").click()
    expect(page.get_by_text("1 violation; first on line")).to_be_visible()
    page.get_by_role("radio", name="1_0, not valid").click()
    expect(page.get_by_text("2 violations")).to_be_visible()


def test_typing_completes_members_and_rarely_validates(tabs, console_url):
    tab = tabs.tab(link(console_url, level="2_1", text='{ "type": "REDUCE", "desc": {\n  \n} }'))
    page = tab.page
    expect(page.get_by_text(re.compile("violations?; first"))).to_be_visible()
    page.locator(".cm-line").nth(1).click()
    page.keyboard.press("End")
    page.keyboard.press("Control+Space")
    options = page.locator(".cm-tooltip-autocomplete li")
    expect(options).to_have_count(5)
    names = options.locator(".cm-completionLabel").all_inner_texts()
    assert set(names) == {"Function", "InputTensor", "OutputTensor", "AxisCount", "Axes"}
    page.keyboard.type('"InputT')
    expect(options).to_have_count(1)
    page.wait_for_timeout(200)  # the editor ignores choices made right after typing
    page.keyboard.press("Enter")
    expect(page.locator(".cm-line").nth(1)).to_contain_text('"InputTensor": { "DataType": "FLOAT32"')
    # The page parses the text itself, with comments and trailing commas.
    page.keyboard.press("Control+A")
    page.keyboard.type('{"type": "REDUCE" // why\n, "desc": {]')
    expect(page.get_by_text("not valid JSON yet")).to_be_visible()
    before = len(tab.requests)
    page.keyboard.type("x" * 100, delay=1)
    page.wait_for_timeout(300)
    assert len(tab.requests) - before <= 2


def test_completion_lists_types_of_the_level_first(tabs, console_url):
    desc = {"Function": "ARGMAX", "InputTensor": {"DataType": "F", "Sizes": [1, 1, 1, 3]}, "Axes": [3]}
    text = json.dumps({"type": "REDUCE", "desc": desc})
    page = tabs.open(link(console_url, level="2_1", text=text))
    page.get_by_role("button", name="/desc/InputTensor/DataType").click()
    page.keyboard.press("Delete")
    page.keyboard.type('"')
    page.keyboard.press("Control+Space")
    options = page.locator(".cm-tooltip-autocomplete li")
    expect(options.first).to_be_visible()
    shown = options.all_inner_texts()
    later = [each for each in shown if "from" in each]
    assert later
    assert all(each.endswith("from 4_1") for each in later)
    assert shown[-len(later) :] == later
    assert len(shown) == 10


def test_large_integers_arrive_as_they_are_written(tabs, console_url):
    """2**63 - 1 does not fit a double; the request still has all of its digits."""
    desc = {"OutputTensor": {"DataType": "INT64", "Sizes": [2]}, "ValueDataType": "INT64", "ValueDelta": 0}
    text = json.dumps({"type": "FILL_VALUE_SEQUENCE", "desc": {**desc, "ValueStart": 2**63 - 1}})
    text = text.removesuffix("}}") + ", } /* a comment */ }"
    tab = tabs.tab(link(console_url, text=text))
    expect(tab.page.get_by_text("valid from")).to_be_visible()
    sent = [request.post_data or "" for request in tab.requests if request.url.endswith("/v1/validate")]
    assert str(2**63 - 1) in sent[-1]
    assert json.loads(sent[-1])["operator"]["desc"]["ValueStart"] == 2**63 - 1


def test_a_link_restores_the_state_but_does_not_run(tabs, console_url):
    page = tabs.open(
        link(console_url, text=json.dumps(REDUCE, indent=2), inputs=NUMBERS, level="5_0", device="reference")
    )
    run(page)
    assert numbers_of(page) == ["8", "12"]
    state = fragment_of(page)
    assert json.loads(state["text"]) == REDUCE
    assert (state["v"], state["level"], state["device"], state["inputs"]) == (1, "5_0", "reference", NUMBERS)
    assert len(page.url) < 600
    again = tabs.tab(page.url)
    expect(again.page.get_by_label("Numbers of InputTensor", exact=True).first).to_have_value("[[1, 5, 2], [9, 0, 3]]")
    expect(again.page.get_by_text("valid from")).to_be_visible()
    # Opening a link validates the request but does not run it.
    assert not [request for request in again.requests if request.url.endswith("/v1/execute")]


def test_back_and_forward_switch_operators(tabs, console_url):
    page = tabs.open(f"{console_url}/try")
    name = page.get_by_label("Operator", exact=True)
    expect(name).not_to_have_value("")
    first = name.input_value()
    page.wait_for_url(re.compile("#z="))
    name.fill("GEMM")
    expect(page.locator(".cm-content")).to_contain_text("GEMM")
    page.wait_for_timeout(100)
    page.go_back()
    expect(name).to_have_value(first)
    page.go_forward()
    expect(name).to_have_value("GEMM")


HOSTILE = '"><img src=x onerror=alert(1)>'


@pytest.mark.parametrize(
    ("fragment", "said"),
    [
        ("#z=AAAA", "cannot be read"),
        ("#json=%7B", "cannot be read"),
        ("#json=[1]", "contains no state"),
        ('#json={"v":9}', "version 9"),
        ("bomb", "more than 1 MiB"),
    ],
)
def test_damaged_links_are_reported(tabs, console_url, fragment, said):
    if fragment == "bomb":
        squeezed = zlib.compressobj(9, zlib.DEFLATED, -15)
        data = squeezed.compress(b" " * (64 * 2**20)) + squeezed.flush()
        fragment = "#z=" + urlsafe_b64encode(data).decode().rstrip("=")
    page = tabs.open(f"{console_url}/try{fragment}")
    expect(page.get_by_role("alert").first).to_contain_text(said)
    expect(editor(page)).to_be_visible()


def test_a_hostile_link_injects_nothing(tabs, console_url):
    state = {
        "text": json.dumps(
            {"type": HOSTILE, "desc": {HOSTILE: HOSTILE, "InputTensor": {"DataType": HOSTILE, "Sizes": [HOSTILE]}}}
        ),
        **dict.fromkeys(("level", "device", "operator", "example"), HOSTILE),
        "inputs": {HOSTILE: {"kind": "numbers", "text": HOSTILE}, "InputTensor": {"kind": HOSTILE}},
    }
    page = tabs.open(link(console_url, **state))
    expect(page.locator(".violations li").first).to_be_visible()
    assert page.locator("img:not(.brand img)").count() == 0


def test_copied_snippets_compute_the_same(tabs, console_url, tmp_path):
    """The snippets are executed, and none of them contains the key."""
    page = tabs.open(link(console_url, text=json.dumps(REDUCE), inputs=NUMBERS))
    expect(page.get_by_text("valid from")).to_be_visible()
    page.get_by_role("button", name="Copy as …").click()
    shown = page.locator("dialog.copy pre")
    expect(shown).to_contain_text("curl")
    subprocess.run(["sh", "-c", "curl() { :; }; " + shown.inner_text()], capture_output=True, check=True)
    body = re.search(r"--data-binary '(.*)'", shown.inner_text(), re.DOTALL)
    assert body is not None
    answer = httpx.post(f"{console_url}/v1/execute", content=body[1], headers={"Content-Type": "application/json"})
    assert answer.json()["outputs"]["OutputTensor"]["data"] == [[8], [12]]
    page.get_by_role("button", name="Python", exact=True).click()
    expect(shown).to_contain_text("from opwire import Client")
    script = tmp_path / "copied.py"
    script.write_text(shown.inner_text(), encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, check=True, text=True)
    assert done.stdout.split() == ["OutputTensor", "[[", "8.]", "[12.]]"]
    page.get_by_role("button", name="DxDispatch model").click()
    expect(shown).to_contain_text("dispatchables")
    model = json.loads(shown.inner_text())
    parse_model(shown.inner_text())
    answer = httpx.post(f"{console_url}/v1/execute", json={"model": model, "output_format": "numbers"})
    assert answer.json()["outputs"]["OutputTensor"]["data"] == [8, 12]


def test_a_model_is_checked_and_run(tabs, console_url):
    model: dict[str, Any] = {
        "resources": {
            "in": {"initialValuesDataType": "FLOAT32", "initialValues": [1, 5, 2, 9, 0, 3]},
            "out": {"initialValuesDataType": "FLOAT32", "initialValues": {"value": 0, "valueCount": 2}},
        },
        "dispatchables": {"sum": REDUCE, "bad": {"type": "REDUCE", "desc": {**REDUCE["desc"], "Axes": [7]}}},
        "commands": [
            {"type": "dispatch", "dispatchable": "sum", "bindings": {"InputTensor": "in", "OutputTensor": "out"}},
            {"type": "print", "resource": "out"},
        ],
    }
    page = tabs.open(link(console_url, text=json.dumps(model, indent=1)))
    expect(page.get_by_role("button", name="/dispatchables/bad/desc/Axes/0")).to_be_visible()
    del model["dispatchables"]["bad"]
    page = tabs.open(link(console_url, text=json.dumps(model, indent=1)))
    expect(page.get_by_text("valid from")).to_be_visible()
    run(page)
    assert numbers_of(page) == ["8", "12"]


def test_warnings_are_listed_beside_a_valid_desc(tabs, console_url):
    tensor = {"DataType": "FLOAT32", "Sizes": [2]}
    desc = {"Axis": 0, "InputTensor": tensor, "OutputTensors": [tensor], "OutputTensors[0]": tensor}
    page = tabs.open(link(console_url, text=json.dumps({"type": "SPLIT", "desc": desc}, indent=1)))
    expect(page.get_by_text("valid from")).to_be_visible()
    expect(page.get_by_text("1 warning")).to_be_visible()
    expect(page.locator("#warnings li")).to_contain_text("OutputTensors[0] is ignored")
