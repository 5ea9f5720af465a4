"""ONNX models in the console: opening them, sizes of open dimensions, levels of nodes, and the lowered graph."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest
from onnx import ModelProto
from playwright.sync_api import Page, expect

from opwire_service.settings import Limits, Settings
from tests.browser.tabs import NARROW, WIDE, link
from tests.browser.test_access import violations
from tests.onnx_models.building import info, model, node
from tests.support.http.serving import serving
from tests.support.paths import EXAMPLES

UPSCALE = EXAMPLES / "upscale.onnx"


def choose(page: Page, file: Path | dict[str, Any]) -> None:
    page.locator("input[accept='.onnx']").set_input_files(file)  # type: ignore[arg-type]


def file_of(proto: ModelProto, name: str = "made.onnx") -> dict[str, Any]:
    return {"name": name, "mimeType": "", "buffer": proto.SerializeToString()}


def open_upscale(tabs: Any, url: str, size: tuple[int, int] = WIDE, **options: Any) -> Page:
    page: Page = tabs.open(f"{url}/try", size, expected=[400], **options)
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Open ONNX").click()
    chooser.value.set_files(UPSCALE)
    page.get_by_label("batch").fill("2")
    page.get_by_role("button", name="Check").click()
    expect(page.locator("g.box").first).to_be_visible()
    return page


def row(page: Page, name: str) -> Any:
    return page.locator(".nodes tbody tr", has=page.get_by_role("rowheader", name=name, exact=True))


def cells(page: Page, name: str) -> list[str]:
    found: list[str] = row(page, name).locator("td").all_inner_texts()
    return [text.replace("\n", "") for text in found]


def test_the_nodes_of_a_model_have_levels_and_reasons(tabs, console_url):
    page = open_upscale(tabs, console_url)
    expect(page.locator(".model")).to_contain_text("DirectML runs 5 of 5 nodes from 2_1 on (DirectML 1.2.0)")
    assert cells(page, "relu") == ["Relu since 14", "ACTIVATION_RELU", "1_0", "", ""]
    resize = cells(page, "double")
    assert resize[:3] == ["Resize since 18", "RESAMPLE1", "2_1"]
    assert resize[3].startswith("RESAMPLE1 requires DML_FEATURE_LEVEL_2_1")
    assert resize[4] == "6_4: RESAMPLE3 exists from 6_4 on"
    expect(page.get_by_role("status")).to_contain_text("At 6_4, none of its nodes fails")
    # The size of the dimension is that of the tensors in the drawing, whose nodes have levels of their own.
    assert "F32 [2, 4, 16, 16]" in page.locator(".edge text").all_text_contents()
    expect(page.locator("g.box", has_text="double/resample1")).to_contain_text("from 2_1")


def test_nodes_that_fail_at_a_level_are_named_and_marked(tabs, console_url):
    page = open_upscale(tabs, console_url)
    page.get_by_role("radio", name="5_0, valid").click()
    expect(page.get_by_role("status")).to_contain_text("As ONNX Runtime emits them, 1 more node fails: double.")
    expect(page.locator("g.box.bad")).to_have_count(0)
    page.get_by_role("radio", name="2_0, not valid").click()
    expect(page.get_by_role("status")).to_contain_text("At 2_0, 1 of its nodes fails: double.")
    expect(page.get_by_role("status")).to_contain_text("1 more node fails: clip.")
    expect(row(page, "double")).to_have_class("fails")
    bad = page.locator("g.box.bad")
    expect(bad).to_have_count(1)
    bad.click()
    expect(page.get_by_label("Node double/resample1")).to_contain_text("RESAMPLE1 requires DML_FEATURE_LEVEL_2_1")
    page.get_by_label("Show").select_option("failing")
    assert page.locator(".nodes tbody th").all_inner_texts() == ["double", "clip"]


THOROUGH = [pytest.param(look, marks=pytest.mark.thorough) for look in ("dark",)]


@pytest.mark.parametrize("look", ["light", *THOROUGH])
def test_models_are_accessible_on_every_screen(tabs, console_url, look):
    page = open_upscale(tabs, console_url, **({} if look == "light" else {"color_scheme": look}))
    page.get_by_role("radio", name="2_0, not valid").click()
    expect(row(page, "double")).to_have_class("fails")
    assert violations(page) == []
    for width in (NARROW[0], 400, 800, 2200):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


DROP = """async ([selector, name, bytes]) => {
    const transfer = new DataTransfer();
    const data = Uint8Array.from(atob(bytes), (letter) => letter.charCodeAt(0));
    transfer.items.add(new File([data], name));
    const event = new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true });
    document.querySelector(selector).dispatchEvent(event);
    return event.defaultPrevented;
}"""


def test_a_dropped_model_is_opened_and_its_nodes_on_the_cpu_are_explained(tabs, console_url):
    nodes = [node("Relu", ["x"], ["r"], "rectify"), node("NonZero", ["r"], ["y"], "find")]
    proto = model(nodes, [info("x", [2, 3])], ["y"])
    page = tabs.open(link(console_url, text='{"type": "REDUCE", "desc": {"InputTensor": null}} // mine'))
    expect(page.locator(".violations li").first).to_be_visible()
    bytes_ = base64.b64encode(proto.SerializeToString()).decode()
    assert page.evaluate(DROP, ["main", "made.onnx", bytes_])
    expect(page.locator(".model")).to_contain_text("DirectML runs 1 of 2 nodes")
    assert cells(page, "find")[1:3] == ["CPU", ""]
    assert cells(page, "find")[3]
    expect(page.get_by_text("nodes stay on the CPU")).to_be_visible()
    page.get_by_label("Show").select_option("cpu")
    assert page.locator(".nodes tbody th").all_inner_texts() == ["find"]
    page.get_by_role("button", name="Back to the editor").click()
    expect(page.locator(".cm-content")).to_contain_text("// mine")


def test_a_model_dropped_on_an_input_does_not_become_its_values(tabs, console_url):
    page = tabs.open(link(console_url, operator="REDUCE"), expected=[400])
    expect(page.locator("fieldset.input")).to_be_visible()
    bytes_ = base64.b64encode(UPSCALE.read_bytes()).decode()
    assert page.evaluate(DROP, ["fieldset.input", "upscale.ONNX", bytes_])
    expect(page.get_by_role("heading", name="upscale.ONNX")).to_be_focused()


def test_the_dimensions_of_all_inputs_are_asked_for(tabs, console_url):
    inputs = [info("x", ["rows", "columns, all"]), info("z", [None, 3])]
    proto = model([node("Add", ["x", "z"], ["y"], "sum")], inputs, ["y"])
    page = tabs.open(f"{console_url}/try", expected=[400])
    choose(page, file_of(proto))
    page.get_by_label("rows").fill("4")
    page.get_by_label("columns, all").fill("3")
    page.get_by_role("button", name="Check").click()
    page.get_by_label("z:0").fill("4")
    expect(page.get_by_label("rows")).to_have_value("4")
    page.get_by_role("button", name="Check").click()
    expect(page.locator("g.box", has_text="ELEMENT_WISE_ADD")).to_be_visible()
    assert "F32 [4, 3]" in page.locator(".edge text").all_text_contents()
    page.get_by_label("z:0").fill("5")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("alert")).to_contain_text("sum")
    # Another model begins without these sizes.
    choose(page, UPSCALE)
    expect(page.get_by_label("batch")).to_have_value("1")
    expect(page.get_by_label("rows")).to_have_count(0)


def test_files_that_are_no_models_say_so(tabs, console_url):
    page = tabs.open(f"{console_url}/try", expected=[400])
    choose(page, {"name": "notes.onnx", "mimeType": "", "buffer": b"not a model"})
    expect(page.get_by_role("alert")).to_contain_text("The ONNX model cannot be used")
    page.get_by_role("button", name="Back to the editor").click()
    expect(page.locator(".cm-content")).to_be_visible()


def test_models_beyond_the_limit_are_not_sent(tabs):
    with serving(Settings(port=0, devices=("reference",), limits=Limits(body_bytes=1000))) as server:
        tab = tabs.tab(f"{server.url}/try")
        expect(tab.page.get_by_text(re.compile("server: ready"))).to_be_visible()
        choose(tab.page, UPSCALE)
        expect(tab.page.get_by_role("alert")).to_contain_text("1289 bytes given, 1000 allowed")
        assert not any("dim=" in each.url or each.url.endswith("validate?") for each in tab.requests)
