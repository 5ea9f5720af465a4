"""Graphs in the console: reading, drawing, marking violations, and showing the outputs of nodes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.tabs import PHONE, link
from tests.browser.test_tensors import call
from tests.browser.test_tensors import page as module_page
from tests.browser.test_try import numbers_of
from tests.unit.graph.test_checking import diamond, numbered

modules = module_page

X = {"data": [[[[1, 2, 3], [4, 5, 6]]]]}
NUMBERS = {"kind": "numbers", "text": "[[[[1, 2, 3], [4, 5, 6]]]]"}


def box(page: Page, name: str) -> Any:
    return page.locator("g.box", has=page.locator("title", has_text=re.compile(f"^{re.escape(name)} ")))


def shown(page: Page) -> list[str]:
    found: list[str] = page.locator(".output h3").all_inner_texts()
    return [title.split()[0] for title in found]


def open_graph(tabs: Any, url: str, graph: object, size: tuple[int, int] = (1280, 800), **state: Any) -> Page:
    page: Page = tabs.open(link(url, text=json.dumps(graph, indent=1), **state), size)
    expect(page.locator(".passes")).to_be_visible()
    return page


@pytest.mark.parametrize(
    ("graph", "x", "names"),
    [(diamond(), "x", ["both", "left", "right"]), (numbered(), "Input0", ["Node0", "Node1", "Node2"])],
)
def test_named_and_numbered_graphs_are_drawn_and_run(tabs, console_url, graph, x, names):
    page = open_graph(tabs, console_url, {"graph": graph, "inputs": {x: X}})
    both, left, right = (box(page, name) for name in names)
    for node in (both, left, right):
        expect(node).to_contain_text("from 1_0")
    expect(both).to_contain_text("ELEMENT_WISE_ADD")
    # Both sums stand side by side, above the node that adds them.
    places = [node.bounding_box() for node in (both, left, right)]
    assert all(place is not None for place in places)
    assert places[1]["y"] == places[2]["y"] < places[0]["y"]
    assert places[1]["x"] != places[2]["x"]
    labels = page.locator(".edge text").all_text_contents()
    assert sorted(labels) == ["F32 [1, 1, 2, 1]"] * 3 + ["F32 [1, 1, 2, 3]"] * 2
    expect(page.get_by_role("img", name=re.compile("Graph of 3 nodes, 0 constants, 1 inputs"))).to_be_visible()
    # The output of a node is shown on demand, computed from the inputs in the request.
    left.click()
    page.get_by_label("show OutputTensor").check()
    expect(page.locator(".output")).to_have_count(2)
    assert shown(page)[1] == f"{names[1]}.OutputTensor"
    assert numbers_of(page) == ["9", "21"]
    assert page.locator("table.numbers").nth(1).locator("tbody td").all_inner_texts() == ["6", "15"]
    page.get_by_label("show OutputTensor").uncheck()
    page.locator(".buttons > .main").click()
    expect(page.locator(".output")).to_have_count(1)


def test_declared_inputs_are_given_with_their_own_desc(tabs, console_url):
    """The edges have the shapes that the nodes read."""
    graph = {**diamond(), "inputs": {"x": {"DataType": "FLOAT32", "Sizes": [2, 3]}}}
    page = open_graph(tabs, console_url, {"graph": graph, "inputs": {"x": {"data": [[1, 2, 3], [4, 5, 6]]}}})
    expect(page.locator(".passes")).to_contain_text("2_1")
    assert page.locator(".edge text").all_text_contents().count("F32 [1, 1, 2, 3]") == 2
    page.get_by_text("As a list").click()
    rows = page.get_by_role("region", name="Nodes of the graph").locator("tbody tr")
    row = rows.filter(has=page.get_by_role("button", name="x", exact=True))
    expect(row).to_contain_text("input of the graph, F32 [2, 3]")
    page.locator(".buttons > .main").click()
    expect(page.locator(".output")).to_have_count(1)
    assert numbers_of(page) == ["9", "21"]
    graph["inputs"]["x"]["Sizes"] = [5]
    page = tabs.open(link(console_url, text=json.dumps(graph, indent=1)))
    expect(page.locator(".edge.bad text")).to_have_text(["F32 [1, 1, 2, 3]"] * 2)


def test_the_list_shows_the_same_as_the_drawing(tabs, console_url):
    page = open_graph(tabs, console_url, diamond(), inputs={"x": NUMBERS})
    page.get_by_text("As a list").click()
    rows = page.get_by_role("region", name="Nodes of the graph").locator("tbody tr")
    expect(rows).to_have_count(5)
    row = rows.filter(has=page.get_by_role("button", name="both", exact=True))
    for text in ("ELEMENT_WISE_ADD", "1_0", "ATensor ← left", "BTensor ← right", "OutputTensor"):
        expect(row).to_contain_text(text)
    row.get_by_role("button", name="both", exact=True).click()
    panel = page.get_by_role("complementary", name="Node both")
    panel.get_by_role("button", name="Go to text").click()
    expect(page.get_by_role("textbox", name="Operator as JSON")).to_be_focused()


def test_violations_are_marked_at_nodes_and_edges(tabs, console_url):
    graph = diamond()
    graph["nodes"]["left"]["desc"]["Axes"] = [9]
    page = open_graph(tabs, console_url, graph)
    expect(box(page, "left")).to_have_class(re.compile("bad"))
    expect(box(page, "left")).to_contain_text("no level ✗ 1")
    expect(box(page, "right")).not_to_have_class(re.compile("bad"))
    box(page, "left").click()
    panel = page.get_by_role("complementary", name="Node left")
    expect(panel).to_contain_text("axis 9")
    panel.get_by_role("button", name=re.compile(r"^L\d+")).click()
    assert page.evaluate("document.querySelector('.editor').shadowRoot.getSelection().toString()") == "9"
    graph = diamond()
    graph["nodes"]["both"]["inputs"]["ATensor"] = "input:x"
    page = open_graph(tabs, console_url, graph)
    # The first reader of x determines its shape; the others disagree.
    expect(page.locator(".edge.bad text")).to_have_text(["F32 [1, 1, 2, 3]"] * 2)


def test_a_cyclic_graph_is_drawn(tabs, console_url):
    graph = diamond()
    graph["nodes"]["left"]["inputs"]["InputTensor"] = "both"
    page = open_graph(tabs, console_url, graph)
    expect(page.locator(".violations li").first).to_contain_text("form a cycle")
    expect(page.locator("g.box")).to_have_count(5)


def dispatch(name: str, **bindings: str) -> dict[str, Any]:
    return {"type": "dispatch", "dispatchable": name, "bindings": bindings}


def test_a_model_is_drawn_as_the_graph_of_its_dispatches(tabs, console_url):
    matrix = {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 2]}
    owned = {**matrix, "Flags": "OWNED_BY_DML"}
    values = {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 4, "value": 3}}
    model = {
        "resources": dict.fromkeys(("A", "B", "between", "output"), values),
        "dispatchables": {
            "gemm": {
                "type": "GEMM",
                "desc": {
                    **{"ATensor": matrix, "BTensor": owned, "OutputTensor": matrix, "Alpha": 1, "Beta": 0},
                    **dict.fromkeys(("TransA", "TransB"), "NONE"),
                },
                "dmlCompileType": "DmlCompileGraph",
                "bindings": {"BTensor": "B"},
            },
            "relu": {"type": "ACTIVATION_RELU", "desc": {"InputTensor": matrix, "OutputTensor": matrix}},
        },
        "commands": [
            dispatch("gemm", ATensor="A", OutputTensor="between"),
            dispatch("relu", InputTensor="between", OutputTensor="output"),
            {"type": "print", "resource": "output"},
        ],
    }
    page = tabs.open(link(console_url, text=json.dumps(model, indent=1)))
    expect(page.locator(".passes")).to_be_visible()
    expect(box(page, "gemm")).to_contain_text("compiled as a graph")
    assert page.locator(".box .name").all_text_contents() == ["B", "A", "gemm", "relu", "output"]
    box(page, "gemm").click()
    page.get_by_label("show OutputTensor").check()
    expect(page.locator(".output")).to_have_count(2)
    assert shown(page) == ["between", "output"]
    assert numbers_of(page) == ["18"] * 4


def test_the_sample_graph_runs_on_a_phone(tabs, console_url):
    page = tabs.open(f"{console_url}/try", PHONE, has_touch=True)
    name = page.get_by_label("Operator", exact=True)
    expect(name).not_to_have_value("")
    name.fill("GRAPH")
    expect(page.locator(".passes")).to_contain_text("6_2")
    page.locator(".buttons > .main").tap()
    expect(page.locator(".output")).to_have_count(2)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]


def test_the_drawing_stays_while_the_text_is_not_valid_json(tabs, console_url):
    page = open_graph(tabs, console_url, diamond())
    page.locator(".cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.type(" {")
    expect(page.get_by_text("not valid JSON yet")).to_be_visible()
    expect(page.locator("g.box")).to_have_count(5)
    expect(page.get_by_label("Values of x")).to_be_visible()


def layout_input(count: int) -> dict[str, Any]:
    """Boxes in a row, each with edges to the next three."""
    boxes = [{"id": f"n{i}", "kind": "operator", "name": f"n{i}", "place": ""} for i in range(count)]
    edges = [
        {"from": f"n{i}", "slot": "", "to": f"n{k}", "tensor": "", "place": ""}
        for i in range(count)
        for k in range(i + 1, min(count, i + 4))
    ]
    return {"boxes": boxes, "edges": edges}


def test_boxes_do_not_overlap_and_edges_lead_down(modules):
    given = layout_input(60)
    found = call(
        modules,
        "graph/layout.js",
        "(({ boxes, lines, width, height }) => ({ boxes: [...boxes], lines, width, height }))"
        "(m.layout(given.boxes, given.edges))",
        given,
    )
    places = {name: place for name, place in found["boxes"] if not name.startswith("point")}
    assert len(places) == 60
    for name, place in places.items():
        assert 0 <= place["x"] <= found["width"] - place["width"]
        assert 0 <= place["y"] <= found["height"] - place["height"]
        for other, there in places.items():
            apart = abs(place["x"] - there["x"]) >= place["width"] or abs(place["y"] - there["y"]) >= place["height"]
            assert name == other or apart
    for edge, line in zip(given["edges"], found["lines"], strict=True):
        assert [point["y"] for point in line] == sorted(point["y"] for point in line)
        assert line[0]["y"] == places[edge["from"]]["y"] + places[edge["from"]]["height"]
        assert line[-1]["y"] == places[edge["to"]]["y"]


def test_watched_outputs_are_spliced_into_the_text(modules):
    """Counts go up, numbers keep their digits, and outputs that already exist are not added again."""
    graph = numbered()
    graph |= {"OutputEdgeCount": 1, "OutputCount": 1}
    graph["Nodes"][1]["Desc"]["Operator"]["desc"]["Axes"] = [2**63 - 1]
    found = modules.evaluate(
        """async ([place, text]) => {
            const at = (path) => import(place + path);
            const [{ scan }, { readGraph, outputSlots }, { watching }] = await Promise.all(
                [at("json/scan.js"), at("graph/read.js"), at("graph/watch.js")]);
            const tensor = (name, role) => ({ name, role, kind: "tensor" });
            const contract = { operators: [{ name: "REDUCE", members: [
                tensor("InputTensor", "input"), tensor("OutputTensor", "output")] }] };
            const drawing = readGraph(scan(text).node, contract);
            const { text: made, names } = watching(
                text, drawing, ["Node1.OutputTensor", "Node9.X", "Node2.NoSuch"], (box) => outputSlots(contract, box));
            return [made, [...names]];
        }""",
        [modules_url(modules), json.dumps(graph)],
    )
    made = json.loads(found[0])
    assert found[1] == [["Output1", "Node1.OutputTensor"]]
    assert made["OutputEdges"][1:] == [{"FromNodeIndex": 1, "FromNodeOutputIndex": 0, "GraphOutputIndex": 1}]
    assert (made["OutputCount"], made["OutputEdgeCount"]) == (2, 2)
    assert made["Nodes"] == graph["Nodes"]


def modules_url(page: Page) -> str:
    found: str = page.evaluate("document.querySelector('script[type=module]').src.replace(/pages[/].*/, '')")
    return found
