"""Inputs of graphs with descs of their own, whose bytes nodes read with other descs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire import Graph
from opwire.errors import ContractViolation
from opwire.graph import as_named, as_numbered, check_graph, validate_graph
from opwire.level import FeatureLevel
from opwire_service.devices.base import Device
from opwire_service.devices.reference import ReferenceDevice
from tests.support.execution import execute
from tests.support.profiles import examples
from tests.unit.graph.test_checking import found
from tests.unit.kernels.test_chains import chains, declared_as_bytes, inputs_of

X = np.array([[1, -2, 3], [0, 2, -1]], np.float32)
DESC: dict[str, Any] = {"DataType": "FLOAT32", "Sizes": [2, 3]}
FLAT: dict[str, Any] = {"DataType": "FLOAT32", "Sizes": [6]}
TRANSPOSED: dict[str, Any] = {"DataType": "FLOAT32", "Sizes": [3, 2], "Strides": [1, 3]}
BITS: dict[str, Any] = {"DataType": "UINT32", "Sizes": [1, 6]}
BYTES: dict[str, Any] = {"DataType": "UINT8", "Sizes": [24]}


def node(operator: str, desc: dict[str, Any], source: str = "input:x") -> dict[str, Any]:
    return {"type": operator, "desc": {"InputTensor": desc}, "inputs": {"InputTensor": source}}


def graph(inputs: object, operator: str = "ELEMENT_WISE_ABS", **readers: dict[str, Any]) -> dict[str, Any]:
    """Returns a graph with an output for each reader of the input x, called like it."""
    nodes = {name: node(operator, desc) for name, desc in readers.items()}
    return {"nodes": nodes, "inputs": inputs, "outputs": {name: name for name in readers}}


def test_the_declared_desc_is_that_of_the_plan():
    plan = check_graph(graph({"x": DESC}, flat=FLAT, transposed=TRANSPOSED))
    assert plan.inputs["x"].to_json() == {**DESC, "TotalTensorSizeInBytes": 24}
    assert [step.plan.inputs["InputTensor"].sizes for step in plan.attributes.steps] == [(6,), (3, 2)]
    # Without a declaration the first of the readers of equally many bytes determines it.
    assert check_graph(graph(["x"], flat=FLAT, transposed=TRANSPOSED)).inputs["x"].sizes == (6,)
    assert check_graph(graph({"x": None}, flat=FLAT)).inputs["x"].sizes == (6,)


def test_an_object_of_inputs_sets_their_order():
    made = graph({"z": DESC, "x": None, "y": {"Desc": FLAT}}, a=DESC)
    for name in ("y", "z"):
        made["nodes"][name] = node("ELEMENT_WISE_ABS", DESC, f"input:{name}")
        made["outputs"][name] = name
    assert {name: desc.sizes for name, desc in check_graph(made).inputs.items()} == {
        "z": (2, 3),
        "x": (2, 3),
        "y": (6,),
    }


def test_a_declared_input_that_no_node_reads_is_not_taken():
    assert check_graph(graph({"x": DESC, "unread": FLAT}, a=DESC)).inputs.keys() == {"x"}


def test_every_reader_sees_the_bytes_with_its_own_desc(device: Device):
    made = graph({"x": DESC}, flat=FLAT, transposed=TRANSPOSED, whole=DESC)
    made["nodes"]["sums"] = node("REDUCE", TRANSPOSED)
    made["nodes"]["sums"]["desc"] |= {"Function": "SUM", "Axes": [0]}
    # Element-wise nodes that feed each other are fused; both operands are the input.
    square = {"ATensor": TRANSPOSED, "BTensor": {**TRANSPOSED, "Strides": [2, 1]}}
    made["nodes"]["products"] = {
        "type": "ELEMENT_WISE_MULTIPLY",
        "desc": square,
        "inputs": dict.fromkeys(square, "input:x"),
    }
    plain = {"DataType": "FLOAT32", "Sizes": [3, 2]}
    made["nodes"]["relu"] = node("ACTIVATION_RELU", plain, "products")
    made["nodes"]["bits"] = node("ELEMENT_WISE_BIT_NOT", BITS)
    made["outputs"] |= dict.fromkeys(("sums", "relu", "bits"))
    made["outputs"] = {name: name for name in made["outputs"]}
    results = execute(device, check_graph(made), {"x": X.tobytes()})
    assert results["flat"].tolist() == abs(X).reshape(6).tolist()
    assert results["transposed"].tolist() == abs(X).T.tolist()
    assert results["whole"].tolist() == abs(X).tolist()
    assert results["sums"].tolist() == [X.sum(axis=1).tolist()]
    assert results["relu"].tolist() == np.maximum(X.T * X.reshape(3, 2), 0).tolist()
    assert results["bits"].tolist() == (~X.view(np.uint32)).reshape(1, 6).tolist()


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_bytes_are_read_as_wider_elements_wherever_they_are(device: Device, offset):
    """An input of bytes may be at any address of a request's body."""
    plan = check_graph(graph({"x": BYTES}, y=DESC))
    memory = np.zeros(32, np.uint8)
    memory[offset : offset + 24] = X.reshape(-1).view(np.uint8)
    y = np.empty((2, 3), np.float32)
    device.run(plan, {"x": memory[offset : offset + 24]}, {"y": y}, lambda: False)
    assert y.tolist() == abs(X).tolist()


def test_gaps_of_a_declared_input_may_be_read(device: Device):
    """Columns with a gap after each, read as a whole."""
    plan = check_graph(graph({"x": {**DESC, "Sizes": [2, 2], "Strides": [4, 1]}}, y=FLAT | {"Sizes": [6]}))
    assert plan.inputs["x"].data_size_in_bytes == 24
    assert execute(device, plan, {"x": X.tobytes()})["y"].tolist() == abs(X).reshape(6).tolist()


def test_declaring_its_inputs_does_not_change_a_graph(cpu_device):
    """Neither where formulas are fused nor where they are not; the inputs are declared as bytes."""
    reference = ReferenceDevice()

    @examples(40)
    @given(chains(), st.integers(0, 99))
    def holds(made, seed):
        plan = check_graph(made)
        random = np.random.default_rng(seed)
        dtype = next(iter(plan.inputs.values())).data_type.dtype
        arrays = {name: random.standard_normal(desc.sizes).astype(dtype) for name, desc in plan.inputs.items()}
        if "y" in arrays:
            arrays["y"] = arrays["y"][0, 0]
        data = inputs_of(plan, arrays)
        declared = check_graph(declared_as_bytes(made))
        assert all(desc.rank == 1 for desc in declared.inputs.values())
        right = execute(reference, plan, data)
        for name, array in execute(cpu_device, declared, data).items():
            assert array.tobytes() == right[name].tobytes()

    holds()


@pytest.mark.parametrize(
    ("inputs", "readers", "expected"),
    [
        (5, {"a": DESC}, [("wrong_type", "/inputs")]),
        ("x", {"a": DESC}, [("wrong_type", "/inputs")]),
        ({"x": 5}, {"a": DESC}, [("wrong_type", "/inputs/x")]),
        ({"x": []}, {"a": DESC}, [("wrong_type", "/inputs/x")]),
        ({"x": {"DataType": "FLOAT32"}}, {"a": DESC}, [("missing_field", "/inputs/x")]),
        ({"x": {**DESC, "DataType": "FLOAT33"}}, {"a": DESC}, [("unknown_value", "/inputs/x/DataType")]),
        ({"x": {**DESC, "Sizes": [2, 0]}}, {"a": DESC}, [("out_of_range", "/inputs/x/Sizes/1")]),
        ({"x": {**DESC, "Size": 1}}, {"a": DESC}, [("unknown_field", "/inputs/x/Size")]),
        ({"a/b": {}, "x": DESC}, {"a": DESC}, [("missing_field", "/inputs/a~1b")] * 2),
        ({"": DESC}, {"a": DESC}, [("value_not_allowed", "/inputs/")]),
        ({"constant:x": DESC}, {"a": DESC}, [("value_not_allowed", "/inputs/constant:x")]),
        ({"x": FLAT | {"Sizes": [5]}}, {"a": DESC}, [("byte_count_mismatch", "/nodes/a/inputs/InputTensor")]),
        ({"x": FLAT | {"Sizes": [7]}}, {"a": DESC}, [("byte_count_mismatch", "/nodes/a/inputs/InputTensor")]),
        (
            {"x": DESC},
            {"a": FLAT, "b": FLAT | {"Sizes": [7]}},
            [("byte_count_mismatch", "/nodes/b/inputs/InputTensor")],
        ),
        # Three bytes take four, the last of which is no element.
        (
            {"x": BYTES | {"Sizes": [3]}},
            {"a": BYTES | {"Sizes": [4]}},
            [("byte_count_mismatch", "/nodes/a/inputs/InputTensor")],
        ),
        ({"x": BYTES | {"Sizes": [4]}}, {"a": BYTES | {"Sizes": [3]}}, []),
        (
            {"x": DESC | {"TotalTensorSizeInBytes": 32}},
            {"a": FLAT | {"Sizes": [8]}},
            [("byte_count_mismatch", "/nodes/a/inputs/InputTensor")],
        ),
    ],
)
def test_declarations_that_do_not_fit_are_refused(inputs, readers, expected):
    assert found(graph(inputs, "ELEMENT_WISE_IDENTITY", **readers)) == expected


def test_the_message_says_how_many_bytes_there_are():
    (few,) = validate_graph(graph({"x": FLAT | {"Sizes": [5]}}, a=DESC)).violations
    assert few.message == 'InputTensor has 24 bytes, and the input "x" 20; they must agree'
    (beyond,) = validate_graph(
        graph({"x": BYTES | {"Sizes": [3]}}, "ELEMENT_WISE_IDENTITY", a=BYTES | {"Sizes": [4]})
    ).violations
    assert beyond.message == 'InputTensor reads 4 bytes, and the elements of the input "x" end after 3'


def test_no_level_depends_on_declarations():
    """Only the operator is limited to four dimensions at the lowest level of graphs."""
    made = graph({"x": {**BYTES, "Strides": [1]}}, a={**DESC, "Sizes": [1, 1, 2, 3]})
    assert validate_graph(made).minimum_feature_level is FeatureLevel.V2_1


def test_only_the_named_form_keeps_declarations():
    made = graph({"w": None, "x": DESC}, flat=FLAT, transposed=TRANSPOSED)
    made["nodes"]["w"] = node("ELEMENT_WISE_ABS", DESC, "input:w")
    made["outputs"]["w"] = "w"
    named = as_named(made)
    assert list(named["inputs"]) == ["w", "x"]
    assert named["inputs"]["w"] is None
    assert named["inputs"]["x"] == {**DESC, "TotalTensorSizeInBytes": 24}
    assert check_graph(named).inputs == check_graph(made).inputs
    numbered = as_numbered(made)
    assert {edge["Name"] for edge in numbered["InputEdges"]} == {"w", "x"}
    assert {name: desc.sizes for name, desc in check_graph(numbered).inputs.items()} == {
        "Input0": (2, 3),
        "Input1": (6,),
    }


def types_of(made: Graph) -> list[str]:
    return [each.get("type", "constant").removeprefix("DML_OPERATOR_") for each in made.to_json()["nodes"].values()]


def test_built_graphs_declare_the_inputs_that_nodes_see_otherwise(device: Device):
    made = Graph()
    x, w = made.input("x", "FLOAT32", [2, 3]), made.input("w", "FLOAT32", [2, 3])
    first = made.element_wise_abs(x)
    made.output("plain", made.element_wise_add(first, w))
    assert made.to_json()["inputs"] == ["x", "w"]
    made.output("product", x.transpose() @ w)
    made.output("sums", made.sum(x.reshape(1, 6), 1))
    assert made.to_json()["inputs"] == {"x": {**DESC, "TotalTensorSizeInBytes": 24}, "w": None}
    assert "ELEMENT_WISE_IDENTITY" not in types_of(made)
    plan = check_graph(made.to_json())
    assert {name: desc.sizes for name, desc in plan.inputs.items()} == {"x": (2, 3), "w": (2, 3)}
    results = execute(device, plan, {"x": X.tobytes(), "w": (X + 1).tobytes()})
    assert results["plain"].tolist() == (abs(X) + X + 1).tolist()
    assert results["product"].tolist() == (X.T @ (X + 1)).tolist()
    assert results["sums"].tolist() == [[X.sum()]]


def test_a_view_of_an_input_becomes_an_output_by_a_node(device: Device):
    made = Graph()
    made.output("y", made.input("x", "FLOAT32", [2, 3]).transpose())
    assert types_of(made) == ["ELEMENT_WISE_IDENTITY"]
    assert execute(device, check_graph(made.to_json()), {"x": X.tobytes()})["y"].tolist() == X.T.tolist()


def test_operators_that_fail_declare_nothing():
    made = Graph()
    x = made.input("x", "FLOAT32", [2, 3])
    with pytest.raises(ContractViolation):
        x.transpose() + np.ones((3, 2), np.int32)
    made.element_wise_abs(x)
    assert made.to_json()["inputs"] == ["x"]


@pytest.mark.parametrize("weights", ["inside", "beside"])
def test_a_saved_graph_keeps_its_declarations(tmp_path, weights):
    made = Graph()
    x = made.input("x", "FLOAT32", [2, 3])
    made.output("y", x.transpose() + np.array([10, 20], np.float32))
    made.save(tmp_path / "net.json", weights=weights)
    loaded = Graph.load(tmp_path / "net.json")
    assert loaded.inputs["x"].sizes == (2, 3)
    assert loaded.to_json()["inputs"] == made.to_json()["inputs"]
    (constant,) = loaded.constants.values()
    plan = check_graph(loaded.to_json())
    data = {name: (X if name == "x" else constant).tobytes() for name in plan.inputs}
    assert execute(ReferenceDevice(), plan, data)["y"].tolist() == (X.T + np.array([10, 20])).tolist()
