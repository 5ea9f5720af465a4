"""Tests of where ONNX Runtime's DirectML provider runs nodes, and what it emits."""

import json
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from typer.testing import CliRunner

from opwire.level import FeatureLevel
from opwire.onnx import load, provider
from opwire.onnx.functions import expanded, schema_function
from opwire.onnx.nodes import make_node
from opwire.onnx.provider import placement
from opwire.onnx.provider_conditions import CONDITIONS, QUERIES
from opwire.onnx.values import Value, constant_value
from opwire.schema import CATALOG
from opwire_service.cli.app import app
from tests.onnx_models.building import info, model, node
from tests.onnx_models.node_cases import node_cases, with_constants

W = np.zeros((2, 3, 3, 3), np.float32)
IMAGE = info("x", [1, 3, 8, 8])


def placements(nodes: Any, inputs: Any, constants: Any = None, **options: Any) -> Any:
    loaded = load(model(nodes, inputs, [nodes[-1].output[0]], constants, **options))
    return {each.operator: each.provider for each in loaded.nodes}


def placed(
    operator: Any,
    inputs: Any,
    constants: Any = None,
    *,
    opset: Any = 21,
    output: Any = TensorProto.FLOAT,
    **attributes: Any,
) -> Any:
    names = [*(each.name for each in inputs), *(constants or {})]
    values = {each.name: Value(each.name, each.type) for each in (*inputs, info("y", None, output))}
    values |= {name: constant_value(name, array) for name, array in (constants or {}).items()}
    return placement(make_node(node(operator, names, ["y"], **attributes), {"": opset}, 0), values, body_of)


def body_of(given):
    function = schema_function(given, [None] * len(given.inputs), given.since)
    assert function is not None
    return [make_node(each, {"": given.since}, i) for i, each in enumerate(expanded(given, function))]


@pytest.mark.parametrize(("opset", "reason"), [(21, ""), (22, "the provider has Conv 1 and 11, not 22")])
def test_version_is_exact(opset, reason):
    found = placed("Conv", [IMAGE], {"w": W}, opset=opset)
    assert (found.is_taken, found.reason) == (not reason, reason)
    assert [each.type for each in found.emits] == ["CONVOLUTION"] * found.is_taken


def test_types_are_those_of_the_row():
    found = placed("Conv", [info("x", [1, 3, 8, 8], TensorProto.DOUBLE)], {"w": W}, opset=11)
    assert found.reason == "the provider takes float, float16 as input 0, not double"
    found = placed("Identity", [info("x", [2], TensorProto.BFLOAT16)], opset=16, output=TensorProto.BFLOAT16)
    assert not found.is_taken
    assert "bfloat16" in found.reason


def test_what_no_row_and_no_body_has_is_left():
    assert placed("Det", [info("x", [2, 2])]).reason == "the provider has no Det"


@pytest.mark.parametrize(
    ("operator", "attributes", "reason"),
    [
        ("MaxPool", {"kernel_shape": [2, 2], "storage_order": 1}, "its storage_order is 1"),
        ("MaxPool", {"kernel_shape": [2, 2]}, ""),
    ],
)
def test_conditions_of_rows(operator, attributes, reason):
    assert placed(operator, [IMAGE], **attributes).reason == reason


def test_resize_emits_an_operator_of_the_highest_level():
    scales = {"scales": np.array([1, 1, 2, 2], np.float32)}
    nodes = [node("Resize", ["x", "", "scales"], ["y"], mode="nearest")]
    found = placements(nodes, [IMAGE], scales, opset=13)["Resize"]
    assert [(each.type, each.level) for each in found.emits] == [("RESAMPLE3", FeatureLevel.V6_4)]
    assert found.why == "RESAMPLE3 exists from 6_4 on"
    nodes = [node("Resize", ["x", "", "scales"], ["y"], mode="cubic")]
    cubic = placements(nodes, [IMAGE], scales, opset=13)["Resize"]
    assert (cubic.is_taken, cubic.reason, cubic.level) == (False, "its mode is cubic", None)


def test_operators_depend_on_the_node():
    pooled = {"kernel_shape": [2, 2]}
    assert [each.type for each in placed("AveragePool", [IMAGE], **pooled).emits] == ["AVERAGE_POOLING"]
    dilated = placed("AveragePool", [IMAGE], dilations=[2, 2], **pooled)
    assert [(each.type, each.level) for each in dilated.emits] == [("AVERAGE_POOLING1", FeatureLevel.V6_2)]
    equation = {"equation": "ij,jk->ik"}
    square = info("a", [2, 2]), info("b", [2, 2])
    assert [each.type for each in placed("Einsum", square, **equation).emits] == ["GEMM"]
    assert placed("Einsum", [info("a", [2, 2])], equation="ij->i").level == FeatureLevel.V3_0  # a REDUCE
    outer = placed("Einsum", square, equation="ij,kl->ijkl")
    assert [each.type for each in outer.emits] == ["ELEMENT_WISE_MULTIPLY"]
    assert "letters" in placed("Einsum", square, equation="...j,jk->...k").reason


@pytest.mark.parametrize(
    ("rank", "element_type", "level"),
    [(2, TensorProto.FLOAT, "3_0"), (4, TensorProto.FLOAT, "1_0"), (2, TensorProto.INT64, "5_0")],
)
def test_level_is_that_of_the_tensors_as_they_are_passed(rank, element_type, level):
    """A REDUCE keeps the rank of ONNX."""
    found = placed("ReduceSum", [info("x", [2] * rank, element_type)], opset=12)
    assert found.level == FeatureLevel.parse(level)


def test_level_is_also_that_of_the_output():
    found = placed("Greater", [info("x", [2, 3]), info("b", [3])], output=TensorProto.BOOL)
    assert found.why == "ELEMENT_WISE_LOGICAL_GREATER_THAN takes UINT8 of rank 4 as OutputTensor from 2_0 on"


def test_bodies_of_functions_are_placed():
    found = placed("HardSwish", [info("x", [2, 3])], opset=21)
    assert found.is_taken
    assert {each.type for each in found.emits} == {"ACTIVATION_HARD_SIGMOID", "ELEMENT_WISE_MULTIPLY"}
    newer = placed("HardSwish", [info("x", [2, 3])], opset=22)
    reason = "of its function body HardSigmoid is left: the provider has HardSigmoid 6, not 22"
    assert newer.reason == f"the provider has no HardSwish; {reason}"


def test_parts_of_a_node_go_where_it_goes():
    """Without DirectML operators, opwire takes the body of an operator; ONNX Runtime has a kernel for it on the CPU."""
    sizes = [1, 2, 3, 4]
    inputs = [info(name, sizes) for name in ("q", "k", "v")]
    proto = model([node("Attention", ["q", "k", "v"], ["y"])], inputs, ["y"], opset=23)
    nodes = load(proto).nodes
    assert len(nodes) > 1
    assert {each.provider.reason for each in nodes} == {"the provider has no Attention"}


def test_arithmetic_on_shapes_prefers_the_cpu():
    nodes = [
        node("NonZero", ["x"], ["n"]),
        node("Shape", ["n"], ["s"]),
        node("Gather", ["s", "one"], ["g"]),
        node("Unsqueeze", ["g", "zero"], ["u"]),
        node("ConstantOfShape", ["u"], ["y"]),
    ]
    found = placements(nodes, [info("x", [2, 3])], {"one": np.array(1), "zero": np.array([0])}, opset=19)
    preferred = "ONNX Runtime prefers the CPU for arithmetic on shapes"
    assert {name for name, each in found.items() if each.reason == preferred} == {"Gather", "Unsqueeze"}
    assert found["ConstantOfShape"].is_taken  # it reads its input on the CPU anyway
    assert found["Shape"].reason == "the provider computes it on the CPU"


def test_operators_outside_the_table():
    grid = info("grid", [1, 2, 2, 2])
    assert placed("GridSample", [IMAGE, grid], opset=16).reason == "the provider computes it by a shader of its own"


def test_data_is_complete():
    document = provider._document()
    assert len({(row["domain"], row["operator"], since) for row in document["rows"] for since in row["since"]}) == 402
    named = {row["query"] for row in document["rows"] if "query" in row}
    assert named == QUERIES.keys()
    variants = [each for group in document["lowerings"].values() for each in group]
    assert {each["when"] for each in variants if "when" in each} == CONDITIONS.keys()
    emitted = {t for each in (*document["rows"], *variants) for t in each.get("emits", ())}
    assert emitted <= CATALOG.keys()
    assert all(set(types.split()) for types in document["type_sets"].values())


def test_level_command_shows_where_onnx_runtime_differs(tmp_path):
    pads = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    nodes = [node("Pad", ["x", "pads"], ["y"], "pad"), node("Conv", ["y", "w"], ["z"], "conv")]
    path = tmp_path / "m.onnx"
    path.write_bytes(model(nodes, [IMAGE], ["z"], {"w": W, "pads": pads}, opset=22).SerializeToString())
    at_4_1 = CliRunner().invoke(app, ["level", str(path), "--level", "4_1", "--json"])
    found = json.loads(at_4_1.output)
    assert found["provider"]["failing"] == ["pad"]
    assert found["provider"]["on_cpu"] == ["conv"]
    assert found["nodes"][0]["provider"]["directml"] == [
        {"type": "PADDING1", "minimum_feature_level": "DML_FEATURE_LEVEL_5_0"}
    ]
    assert at_4_1.exit_code == 1
    shown = CliRunner().invoke(app, ["level", str(path), "--level", "5_0"])
    assert f"ONNX Runtime {provider.VERSION} emits operators that need DML_FEATURE_LEVEL_5_0" in shown.output
    assert "and leaves 1 of these nodes to the CPU" in shown.output
    assert shown.exit_code == 0


@pytest.mark.thorough
def test_no_node_needs_a_higher_level_than_what_onnx_runtime_emits():
    checked = 0
    for case in (each for each in node_cases().values() if each.is_static):
        proto = with_constants(case)
        left = {each.name for each in proto.graph.input}
        given = zip(case.model.graph.input, case.inputs, strict=False)
        for each in load(proto, like={one.name: array for one, array in given if one.name in left}).nodes:
            level, own = each.provider.level, each.level
            checked += level is not None and own is not None
            assert level is None or own is None or own <= level, (
                f"{case.name}: {each.operator} needs {own}, not {level}"
            )
    assert checked > 1000
