"""Graphs: faults are reported where they are, and valid graphs become plans."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire.errors import ContractViolation
from opwire.graph import MOST_NODES, Place, as_named, as_numbered, check_graph, validate_graph
from opwire.graph.form import MOST_VIOLATIONS
from opwire.level import FeatureLevel
from tests.support.profiles import examples

X: dict[str, Any] = {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 3]}
COLUMN: dict[str, Any] = {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 1]}


def total(source: str, tensor: dict[str, Any] = X, function: str = "SUM") -> dict[str, Any]:
    """Returns a node that sums rows."""
    desc = {"Function": function, "InputTensor": tensor, "Axes": [3]}
    return {"type": "REDUCE", "desc": desc, "inputs": {"InputTensor": source}}


def added(a: str, b: str, tensor: dict[str, Any] = X) -> dict[str, Any]:
    desc = {"ATensor": tensor, "BTensor": tensor}
    return {"type": "ELEMENT_WISE_ADD", "desc": desc, "inputs": {"ATensor": a, "BTensor": b}}


def diamond() -> dict[str, Any]:
    """Returns a graph that adds two sums of the same rows."""
    nodes = {
        "both": added("left", "right", COLUMN),
        "left": total("input:x"),
        "right": total("input:x", function="MAX"),
    }
    return {"nodes": nodes, "outputs": {"y": "both"}}


def numbered() -> dict[str, Any]:
    """Returns the same graph as DML_GRAPH_DESC."""
    descs = [{"type": node["type"], "desc": node["desc"]} for node in diamond()["nodes"].values()]
    return {
        "NodeCount": 3,
        "Nodes": [{"Type": "DML_GRAPH_NODE_TYPE_OPERATOR", "Desc": {"Operator": desc}} for desc in descs],
        "InputCount": 1,
        "InputEdges": [{"GraphInputIndex": 0, "ToNodeIndex": i, "ToNodeInputIndex": 0} for i in (1, 2)],
        "IntermediateEdges": [
            {"FromNodeIndex": i, "FromNodeOutputIndex": 0, "ToNodeIndex": 0, "ToNodeInputIndex": i - 1} for i in (1, 2)
        ],
        "OutputEdges": [{"FromNodeIndex": 0, "FromNodeOutputIndex": 0, "GraphOutputIndex": 0}],
    }


def found(graph: object, level: str = "6_4") -> list[tuple[str, str]]:
    return [(violation.code.value, violation.pointer) for violation in validate_graph(graph, level).violations]


@pytest.mark.parametrize(("graph", "x", "y"), [(diamond(), "x", "y"), (numbered(), "Input0", "Output0")])
def test_named_and_numbered_graphs_give_the_same_plan(graph, x, y):
    plan = check_graph(graph)
    assert {name: desc.sizes for name, desc in plan.inputs.items()} == {x: (1, 1, 2, 3)}
    assert {name: desc.sizes for name, desc in plan.outputs.items()} == {y: (1, 1, 2, 1)}
    kinds = [step.plan.operator.name for step in plan.attributes.steps]
    assert kinds == ["REDUCE", "REDUCE", "ELEMENT_WISE_ADD"]
    last = plan.attributes.steps[-1]
    assert [place.place for place in last.inputs.values()] == [Place.BETWEEN, Place.BETWEEN]
    assert plan.attributes.between == (8, 8)
    assert plan.work == sum(step.plan.work for step in plan.attributes.steps)


@pytest.mark.parametrize("graph", [diamond(), numbered()])
def test_each_node_is_described_separately(graph):
    nodes = validate_graph(graph, "2_0").nodes
    assert [node.minimum_feature_level for node in nodes] == [FeatureLevel.V1_0] * 3
    assert [desc.sizes for node in nodes for desc in node.outputs.values()] == [(1, 1, 2, 1)] * 3
    assert [[desc.sizes for desc in node.inputs.values()] for node in nodes] == [
        [(1, 1, 2, 1), (1, 1, 2, 1)],
        *[[(1, 1, 2, 3)]] * 2,
    ]


def test_an_invalid_node_does_not_affect_the_others():
    graph = diamond()
    graph["nodes"]["left"]["desc"]["Axes"] = [9]
    graph["nodes"]["w"] = {"constant": ""}
    both, left, right, w = validate_graph(graph).nodes
    assert (left.name, left.pointer, left.minimum_feature_level) == ("left", "/nodes/left", None)
    assert both.outputs
    assert right.outputs
    assert (w.minimum_feature_level, w.inputs, w.outputs) == (FeatureLevel.V6_2, {}, {})


def test_the_level_of_a_graph_depends_on_its_nodes_and_constants():
    assert validate_graph(diamond()).minimum_feature_level is FeatureLevel.V2_1
    assert ("operator_not_in_level", "") in found(diamond(), "2_0")
    graph = diamond()
    graph["nodes"]["w"] = {"constant": ""}
    graph["nodes"]["both"]["inputs"]["BTensor"] = "w"
    del graph["nodes"]["right"]
    assert validate_graph(graph).minimum_feature_level is FeatureLevel.V6_2
    assert ("operator_not_in_level", "/nodes/w") in found(graph, "6_1")
    validated = validate_graph(graph)
    assert validated.needs == {
        "graph": FeatureLevel.V2_1,
        "constants": FeatureLevel.V6_2,
        "operators": max(node.minimum_feature_level or FeatureLevel.V6_4 for node in validated.nodes if node.inputs),
    }
    assert validated.to_json()["minimum_feature_level_of"] == {part: str(at) for part, at in validated.needs.items()}
    assert validate_graph(diamond()).needs.keys() == {"graph", "operators"}
    graph["nodes"]["left"]["desc"]["Axes"] = [9]
    assert validate_graph(graph).needs["operators"] is None
    graph["nodes"]["left"]["desc"]["Axes"] = [3]
    assert check_graph(graph).inputs.keys() == {"x", "constant:w"}


def changed(**nodes: Any) -> dict[str, Any]:
    graph = diamond()
    graph["nodes"] |= nodes
    return graph


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (5, [("wrong_type", "")]),
        ({}, [("missing_field", ""), ("missing_field", "")]),
        ({**diamond(), "edges": []}, [("unknown_field", "/edges")]),
        ({"nodes": {}, "outputs": {"y": "z"}}, [("out_of_range", "/nodes"), ("unknown_value", "/outputs/y")]),
        (changed(left=7), [("wrong_type", "/nodes/left")]),
        (changed(left={"type": "REDUCES", "desc": {}}), [("unknown_operator", "/nodes/left/type")]),
        (
            changed(left=total("input:x", {**X, "Sizes": [0]})),
            [("out_of_range", "/nodes/left/desc/InputTensor/Sizes/0")],
        ),
        (changed(left=total("nowhere")), [("unknown_value", "/nodes/left/inputs/InputTensor")]),
        (changed(left=total("right.Sum")), [("unknown_tensor", "/nodes/left/inputs/InputTensor")]),
        (changed(both=added("left", "left", COLUMN)), [("unused_node", "/nodes/right")]),
        (changed(more=total("input:x")), [("unused_node", "/nodes/more")]),
        (changed(w={"constant": ""}), [("unused_node", "/nodes/w")]),
        (
            changed(w={"constant": "", "type": "GEMM"}),
            [("unknown_field", "/nodes/w/type"), ("unused_node", "/nodes/w")],
        ),
        (changed(right=total("nowhere", function="MAX")), [("unknown_value", "/nodes/right/inputs/InputTensor")]),
        (
            changed(more=total("nowhere")),
            [("unknown_value", "/nodes/more/inputs/InputTensor"), ("unused_node", "/nodes/more")],
        ),
        (
            changed(left={**total("input:x"), "inputs": 5}),
            [("wrong_type", "/nodes/left/inputs"), ("missing_tensor", "/nodes/left")],
        ),
        (changed(left=total("input:x") | {"inputs": {}}), [("missing_tensor", "/nodes/left")]),
        (
            changed(left=total("input:x") | {"inputs": {"InputTensor": "input:x", "Input": "input:x"}}),
            [("unknown_tensor", "/nodes/left/inputs/Input")],
        ),
        (changed(left=total("right", COLUMN), right=total("left", COLUMN)), [("graph_cycle", "/nodes/right")]),
        (
            changed(both=added("left", "right", X)),
            [
                ("byte_count_mismatch", "/nodes/both/inputs/ATensor"),
                ("byte_count_mismatch", "/nodes/both/inputs/BTensor"),
            ],
        ),
        (
            changed(both=added("left", "right", {**COLUMN, "Flags": "OWNED_BY_DML"})),
            [("flags_invalid", "/nodes/both/inputs/ATensor"), ("flags_invalid", "/nodes/both/inputs/BTensor")],
        ),
        (
            changed(left=total("input:x", {**X, "Flags": "OWNED_BY_DML"})),
            [("flags_invalid", "/nodes/right/inputs/InputTensor")],
        ),
        ({**diamond(), "outputs": {"y": "both", "z": "input:x"}}, [("edge_conflict", "/outputs/z")]),
        ({**diamond(), "inputs": ["x", "x"]}, [("edge_conflict", "/inputs/1")]),
        ({**diamond(), "inputs": ["constant:x"]}, [("value_not_allowed", "/inputs/0")]),
        (
            changed(**{"input:x": total("input:x")}),
            [("value_not_allowed", "/nodes/input:x"), ("unused_node", "/nodes/input:x")],
        ),
        ({**diamond(), "outputs": {"": "both"}}, [("value_not_allowed", "/outputs")]),
        (
            {"nodes": {f"n{i}": {"constant": ""} for i in range(MOST_NODES + 1)}, "outputs": {"y": "n0"}},
            [("out_of_range", "/nodes"), ("unknown_value", "/outputs/y")],
        ),
    ],
)
def test_violations_point_to_their_place(graph, expected):
    assert found(graph) == expected
    with pytest.raises(ContractViolation):
        check_graph(graph)


def test_a_tensor_between_nodes_has_no_more_bytes_than_a_tensor_may_have():
    largest = {**COLUMN, "TotalTensorSizeInBytes": 2**34 - 4}
    larger = {**COLUMN, "TotalTensorSizeInBytes": 2**34}
    for tensor, expected in ((largest, []), (larger, ["total_size_invalid", "total_size_invalid"])):
        left = total("input:x")
        left["desc"]["OutputTensor"] = tensor
        both = {**added("left", "right"), "desc": {"ATensor": tensor, "BTensor": COLUMN}}
        assert [code for code, _ in found(changed(left=left, both=both))][:2] == expected


def test_violations_of_all_nodes_are_reported():
    graph = changed(left=total("input:x", {**X, "Sizes": [0]}), right=total("input:x", function="MEDIAN"))
    assert [pointer for _, pointer in found(graph)] == [
        "/nodes/left/desc/InputTensor/Sizes/0",
        "/nodes/right/desc/Function",
    ]


def invalid_graph() -> dict[str, Any]:
    """Returns a graph with a violation of each kind, mostly at separate nodes and edges."""
    swish = {"type": "ACTIVATION_SWISH", "desc": {"InputTensor": X, "SigmoidInputScale": 1}}
    nodes = {
        "median": total("first", function="MEDIAN"),
        "first": total("nowhere"),
        "round": total("about", X),
        "about": total("round", X),
        "fed": total("input:x") | {"inputs": {}},
        "short": total("late", COLUMN),
        "late": {**swish, "inputs": {"InputTensor": "input:x"}},
        "vain": total("input:x"),
        "w": {"constant": ""},
    }
    outputs = {"a": "median", "b": "fed.OutputTensor", "c": "short", "d": "about", "e": "late.Output", "f": "input:x"}
    return {"nodes": nodes, "outputs": outputs}


def test_violations_of_edges_and_nodes_are_reported_together():
    expected = {
        ("operator_not_in_level", "/nodes/w"),
        ("operator_not_in_level", "/nodes/late/type"),
        ("unknown_value", "/nodes/median/desc/Function"),
        ("unknown_value", "/nodes/first/inputs/InputTensor"),
        ("unknown_tensor", "/outputs/e"),
        ("edge_conflict", "/outputs/f"),
        ("missing_tensor", "/nodes/fed"),
        ("unused_node", "/nodes/vain"),
        ("unused_node", "/nodes/w"),
        ("byte_count_mismatch", "/nodes/median/inputs/InputTensor"),
        ("byte_count_mismatch", "/nodes/short/inputs/InputTensor"),
        ("byte_count_mismatch", "/nodes/round/inputs/InputTensor"),
        ("byte_count_mismatch", "/nodes/about/inputs/InputTensor"),
        ("graph_cycle", "/nodes/about"),
    }
    assert set(found(invalid_graph(), "5_0")) == expected
    assert len(found(invalid_graph(), "5_0")) == len(expected)
    nodes = {node.name: node for node in validate_graph(invalid_graph()).nodes}
    # The tensors of a node with invalid attributes are known nevertheless.
    assert nodes["median"].minimum_feature_level is None
    assert nodes["median"].inputs["InputTensor"].sizes == (1, 1, 2, 3)
    assert nodes["median"].outputs == {}


@pytest.mark.parametrize(
    ("nodes", "source"),
    [
        ({"a": total("input:x")}, "b"),
        ({"a": total("input:x")}, "a.Nothing"),
        ({f"n{i}": total("nowhere", function="MEDIAN") for i in range(MOST_NODES)}, "n0"),
    ],
)
def test_the_number_of_reported_violations_is_bounded(nodes, source):
    graph = {"nodes": nodes, "outputs": {f"y{i}": source for i in range(10_000)}}
    validation = validate_graph(graph)
    assert len(validation.violations) == MOST_VIOLATIONS
    assert validation.minimum_feature_level is None


def test_surplus_edges_are_refused_once():
    nodes = {f"n{i}": {**total("input:x"), "inputs": {"InputTensor": ["input:x"] * 20_000}} for i in range(5)}
    assert found({"nodes": nodes, "outputs": {"y": "n0"}}) == [("out_of_range", "")]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda g: g.update(NodeCount=2), [("count_mismatch", "/NodeCount")]),
        (lambda g: g.update(InputCount=0), [("out_of_range", "/InputCount")]),
        (lambda g: g["OutputEdges"].clear(), [("out_of_range", "/OutputEdges")]),
        (
            lambda g: g["OutputEdges"][0].update(FromNodeIndex=9),
            [("out_of_range", "/OutputEdges/0/FromNodeIndex"), ("unused_node", "/Nodes/0/Desc/Operator")],
        ),
        (lambda g: g["OutputEdges"][0].update(FromNodeOutputIndex=1), [("unknown_tensor", "/OutputEdges/0")]),
        (lambda g: g["OutputEdges"].append(g["OutputEdges"][0]), [("edge_conflict", "/OutputEdges/1")]),
        (lambda g: g["InputEdges"].append(g["InputEdges"][0]), [("edge_conflict", "/InputEdges/2")]),
        (
            lambda g: g["InputEdges"][0].pop("ToNodeIndex"),
            [("missing_field", "/InputEdges/0"), ("missing_tensor", "/Nodes/1/Desc/Operator")],
        ),
        (lambda g: g["Nodes"][0].update(Type="INVALID"), [("unknown_value", "/Nodes/0/Type")]),
        (lambda g: g["Nodes"][0]["Desc"].pop("Operator"), [("missing_field", "/Nodes/0/Desc")]),
        (lambda g: g["Nodes"][0].pop("Desc"), [("wrong_type", "/Nodes/0")]),
        (lambda g: g["Nodes"].__setitem__(0, 3), [("wrong_type", "/Nodes/0")]),
        (lambda g: g["OutputEdges"][0].update(GraphOutputIndex=2), [("missing_tensor", ""), ("missing_tensor", "")]),
    ],
)
def test_invalid_edge_lists_are_refused(change, expected):
    graph = copy.deepcopy(numbered())
    change(graph)
    assert found(graph) == expected


def test_an_omitted_tensor_keeps_its_slot_number():
    gemm = {
        "ATensor": X,
        "BTensor": {**X, "Sizes": [1, 1, 3, 2]},
        "TransA": "NONE",
        "TransB": "NONE",
        "Alpha": 1,
        "Beta": 1,
    }
    graph = {
        "Nodes": [{"Type": "OPERATOR", "Desc": {"Operator": {"type": "GEMM", "desc": gemm}}}],
        "InputEdges": [{"GraphInputIndex": i, "ToNodeIndex": 0, "ToNodeInputIndex": i} for i in range(3)],
        "OutputEdges": [{"FromNodeIndex": 0, "FromNodeOutputIndex": 0, "GraphOutputIndex": 0}],
    }
    assert found(graph) == [("unknown_tensor", "/InputEdges/2")]


def test_nodes_can_reinterpret_bytes():
    integers = {"DataType": "INT32", "Sizes": [1, 1, 1, 2]}
    graph = {"nodes": {"a": total("input:x"), "b": added("a", "a", integers)}, "outputs": {"y": "b", "z": "a"}}
    plan = check_graph(graph)
    assert plan.outputs["z"].data_type.name == "FLOAT32"
    # Another node reads the output differently, so it is copied where both layouts are certain.
    assert plan.attributes.copies.keys() == {"z"}


def test_each_node_of_a_graph_is_checked_once():
    nodes = {"n0": total("input:x")}
    nodes |= {f"n{i}": total(f"n{i - 1}", COLUMN) for i in range(1, 1000)}
    plan = check_graph({"nodes": nodes, "outputs": {"y": "n999"}})
    assert len(plan.attributes.steps) == 1000
    assert [step.name for step in plan.attributes.steps] == list(nodes)


def without_names(edges: list[dict[str, Any]]) -> list[dict[str, Any]]:
    edges = [{key: value for key, value in edge.items() if key != "Name"} for edge in edges]
    return sorted(edges, key=lambda edge: sorted(edge.items()))


def test_a_named_graph_converts_to_dml_graph_desc():
    found = as_numbered(diamond())
    assert (found["InputCount"], found["OutputCount"]) == (1, 1)
    for kind in ("InputEdges", "IntermediateEdges", "OutputEdges"):
        assert without_names(found[kind]) == without_names(numbered()[kind])
    descs = [node["Desc"] for node in found["Nodes"]]
    assert [desc["Name"] for desc in descs] == ["both", "left", "right"]
    assert [desc["Operator"] for desc in descs] == [node["Desc"]["Operator"] for node in numbered()["Nodes"]]


def test_dml_graph_desc_converts_to_a_named_graph():
    named = as_named(numbered())
    assert named["outputs"] == {"Output0": "0.OutputTensor"}
    assert named["nodes"]["0"]["inputs"] == {"ATensor": "1.OutputTensor", "BTensor": "2.OutputTensor"}
    assert named["nodes"]["1"]["inputs"] == {"InputTensor": "input:Input0"}
    assert named["inputs"] == ["Input0"]


def test_constants_arrays_and_absent_tensors_convert_in_both_directions():
    joined = {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 9]}
    desc = {"InputTensors": [X, X, X], "OutputTensor": joined, "Axis": 3}
    product = {"ATensor": {**X, "Sizes": [1, 1, 2, 2]}, "BTensor": X, "TransA": "NONE", "TransB": "NONE"}
    nodes = {
        "w": {"constant": {"data": [1, 2, 3, 4]}},
        "gemm": {
            "type": "GEMM",
            "desc": {**product, "Alpha": 1, "Beta": 0},
            "inputs": {"ATensor": "w", "BTensor": "input:x"},
        },
        "join": {"type": "JOIN", "desc": desc, "inputs": {"InputTensors": ["input:x", "gemm", "input:x"]}},
    }
    graph = {"nodes": nodes, "inputs": ["unused", "x"], "outputs": {"y": "join.OutputTensor"}}
    numbers = as_numbered(graph)
    assert numbers["InputCount"] == 2
    assert {edge["GraphInputIndex"] for edge in numbers["InputEdges"]} == {1}
    between = [
        (edge["FromNodeIndex"], edge["ToNodeIndex"], edge["ToNodeInputIndex"]) for edge in numbers["IntermediateEdges"]
    ]
    assert sorted(between) == [(0, 1, 0), (1, 2, 1)]
    again = as_named(numbers)
    assert again["nodes"]["w"] == nodes["w"]
    assert again["nodes"]["join"]["inputs"] == {"InputTensors": ["input:Input1", "gemm.OutputTensor", "input:Input1"]}
    assert as_named(as_numbered(again)) == again
    with pytest.raises(ContractViolation):
        as_numbered({**graph, "outputs": {"y": "nothing"}})


HOSTILE = ["a", "a.OutputTensor", "a.OutputTensor.OutputTensor", "a_OutputTensor", "b", "input:x", "input_x"]
HOSTILE += [*(f"a#{i}" for i in range(4)), "input:Input0", "x" * 256, "x" * 250 + "#00003"]


@given(st.lists(st.none() | st.sampled_from(HOSTILE), min_size=2, max_size=8), st.randoms(use_true_random=False))
@examples(100)
def test_any_names_of_nodes_survive_the_conversion(names, draw):
    """The edges are those of the graph as drawn, whatever its nodes are called."""
    relu = {"type": "ACTIVATION_RELU", "desc": {"InputTensor": X, "OutputTensor": X}}
    descs = [{"Operator": relu} if name is None else {"Operator": relu, "Name": name} for name in names]
    sources = [draw.randrange(i) for i in range(1, len(names))]
    ends = sorted(set(range(len(names))) - set(sources))
    graph: dict[str, Any] = {
        "Nodes": [{"Desc": desc} for desc in descs],
        "InputEdges": [{"GraphInputIndex": 0, "ToNodeIndex": 0, "ToNodeInputIndex": 0}],
        "IntermediateEdges": [
            {"FromNodeIndex": source, "FromNodeOutputIndex": 0, "ToNodeIndex": i + 1, "ToNodeInputIndex": 0}
            for i, source in enumerate(sources)
        ],
        "OutputEdges": [
            {"FromNodeIndex": end, "FromNodeOutputIndex": 0, "GraphOutputIndex": i} for i, end in enumerate(ends)
        ],
    }
    again = as_numbered(as_named(graph))
    for kind in ("InputEdges", "IntermediateEdges", "OutputEdges"):
        assert without_names(again[kind]) == without_names(graph[kind])
