"""Tests of reading, preparing and running ONNX models; the operators have tests of their own."""

import time
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import opwire
from opwire.level import FeatureLevel
from opwire.onnx import ModelError, load
from tests.onnx_models.building import graph, info, model, node

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def run(proto: Any, x: Any = X, **options: Any) -> Any:
    return load(proto, like={"x": x}).run({"x": x}, **options)


def test_model_in_one_graph_runs_as_in_numpy():
    w = np.arange(12, dtype=np.float32).reshape(4, 3)
    loaded = load(
        model(
            [node("Gemm", ["x", "w"], ["y"], transB=1), node("Relu", ["y"], ["z"])],
            [info("x", [2, 3])],
            ["z"],
            {"w": w},
        )
    )
    np.testing.assert_array_equal(loaded.run({"x": X})["z"], np.maximum(X @ w.T, 0))
    assert [[use.type for use in each.uses] for each in loaded.nodes] == [["GEMM"], ["ACTIVATION_RELU"]]
    with opwire.local() as client:
        np.testing.assert_array_equal(client.execute(loaded.graph, {"x": X}).output, np.maximum(X @ w.T, 0))


def test_a_model_runs_repeatedly_with_the_options_of_each_client():
    nodes = [node("Mul", ["x", "w"], ["y"]), node("Sub", ["y", "w"], ["z"])]
    loaded = load(model(nodes, [info("x", [2, 3])], ["z"], {"w": X + 1}))
    with opwire.local() as client:
        for i, other in enumerate((client, client.with_options(strict=True), client, opwire.local("reference"))):
            np.testing.assert_array_equal(loaded.run({"x": X + i}, runner=other)["z"], (X + i) * (X + 1) - (X + 1))
        for _ in range(2):
            with pytest.raises(opwire.ContractViolation, match="graphs require DML_FEATURE_LEVEL_2_1"):
                loaded.run({"x": X}, runner=client.with_options(feature_level="1_0"))


def test_graphs_of_a_model_are_prepared_once_for_all_its_runs():
    nodes = [node("Relu", [f"x{i}" if i else "x"], [f"x{i + 1}"]) for i in range(300)]
    loaded = load(model(nodes, [info("x", [2, 3])], ["x300"]))

    def least_seconds(**options: Any) -> float:
        times = []
        for i in range(5):
            began = time.process_time()
            found = loaded.run({"x": X + i}, **options)
            times.append(time.process_time() - began)
            np.testing.assert_array_equal(found["x300"], np.maximum(X + i, 0))
        return min(times)

    with opwire.local() as client:
        assert least_seconds() < 5 * least_seconds(runner=client)  # to prepare it takes 20 times as long


class Abandoned(Exception):
    """Nobody waits for a model any more."""


def test_work_on_a_model_can_be_abandoned_between_nodes():
    nodes = [node("Relu", [f"x{i}" if i else "x"], [f"x{i + 1}"]) for i in range(10)]
    proto, left = model(nodes, [info("x", [2, 3])], ["x10"]), [0]

    def poll() -> None:
        left[0] -= 1
        if not left[0]:
            raise Abandoned

    left[0] = 5
    with pytest.raises(Abandoned):
        load(proto, poll=poll)
    loaded = load(proto, poll=poll)
    for use in (lambda: loaded.graph, lambda: loaded.report().to_json()):
        left[0] = 5
        with pytest.raises(Abandoned):
            use()
        left[0] = 0
        use()


def test_level_is_that_of_the_operators_with_owned_weights():
    loaded = load(model([node("Relu", ["x"], ["y"])], [info("x", [1, 1, 2, 3])], ["y"]))
    assert [each.level for each in loaded.nodes] == [FeatureLevel.V1_0]
    assert loaded.level == FeatureLevel.V2_1  # of graphs
    deep = load(model([node("Relu", ["x"], ["y"])], [info("x", [1] * 6)], ["y"]))
    assert deep.level == FeatureLevel.V3_0
    report = deep.report("2_1").to_json()
    assert report["failing"] == [deep.nodes[0].name]
    assert not report["valid"]
    assert "rank 6" in deep.report().why(deep.nodes[0])


def test_shape_arithmetic_is_folded():
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["first"]),
        node("Concat", ["first", "rest"], ["sizes"], axis=0),
        node("Reshape", ["x", "sizes"], ["y"]),
        node("Neg", ["y"], ["z"]),
    ]
    proto = model(nodes, [info("x", ["n", 3])], ["z"], {"zero": np.array([0]), "rest": np.array([-1, 1])})
    loaded = load(proto, dimensions={"n": 2})
    assert [each.operator for each in loaded.nodes] == ["Reshape", "Neg"]
    np.testing.assert_array_equal(loaded.run({"x": X})["z"], -X.reshape(2, 3, 1))


def test_functions_are_replaced_by_their_bodies():
    body = [node("Mul", ["a", "a"], ["square"]), node("Add", ["square", "b"], ["c"])]
    function = helper.make_function("custom", "SquareAdd", ["a", "b"], ["c"], body, [helper.make_opsetid("", 17)])
    proto = helper.make_model(
        graph(
            [
                node("SquareAdd", ["x", "x"], ["y"], "first", domain="custom"),
                node("SquareAdd", ["y", "x"], ["z"], "second", domain="custom"),
            ],
            [info("x", [2, 3])],
            ["z"],
        ),
        functions=[function],
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("custom", 1)],
    )
    y = X * X + X
    np.testing.assert_array_equal(run(proto)["z"], y * y + X)
    assert load(proto).nodes[0].name == "first/Mul_0"


@pytest.mark.parametrize("condition", [True, False])
def test_branch_of_a_constant_condition_is_taken(condition):
    then = graph([node("Neg", ["x"], ["t"])], [], ["t"])
    otherwise = graph([node("Add", ["x", "one"], ["e"])], [], ["e"], {"one": np.float32(1)})
    nodes = [node("If", ["condition"], ["y"], then_branch=then, else_branch=otherwise), node("Relu", ["y"], ["z"])]
    proto = model(nodes, [info("x", [2, 3])], ["z"], {"condition": np.array(condition)})
    np.testing.assert_array_equal(run(proto)["z"], np.maximum(-X if condition else X + 1, 0))
    assert "If" not in [each.operator for each in load(proto).nodes]


def test_nodes_that_directml_lacks_run_on_the_cpu_between_graphs():
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("NonZero", ["a"], ["where"], "nonzero"),
        node("Neg", ["a"], ["b"]),
        node("Det", ["square"], ["d"], "det"),
        node("Add", ["b", "d"], ["c"]),
    ]
    proto = model(nodes, [info("x", [2, 3])], ["c", "where"], {"square": np.array([[2, 0], [0, 3]], np.float32)})
    loaded = load(proto)
    assert {each.name for each in loaded.nodes if not each.is_lowered} == {"nonzero", "det"}
    found = loaded.run({"x": X})
    np.testing.assert_array_equal(found["c"], 6 - np.maximum(X, 0))
    np.testing.assert_array_equal(found["where"], np.nonzero(np.maximum(X, 0)))
    with pytest.raises(ModelError, match=r"node nonzero \(NonZero\) has no DirectML operators"):
        _ = loaded.graph


def test_every_tensor_can_be_returned():
    nodes = [node("Relu", ["x"], ["a"]), node("Flatten", ["a"], ["b"], axis=0), node("Neg", ["b"], ["c"])]
    found = run(model(nodes, [info("x", [2, 3])], ["c"]), all=True)
    assert {name: array.shape for name, array in found.items()} == {"a": (2, 3), "b": (1, 6), "c": (1, 6)}
    np.testing.assert_array_equal(found["b"], np.maximum(X, 0).reshape(1, 6))


def test_outputs_may_be_inputs_or_constants():
    found = run(
        model([node("Identity", ["x"], ["y"])], [info("x", [2, 3])], ["y", "c"], {"c": np.array([1, 2], np.float32)})
    )
    np.testing.assert_array_equal(found["y"], X)
    np.testing.assert_array_equal(found["c"], [1, 2])


def test_external_data_is_read_beside_the_model(tmp_path):
    w = np.arange(3, dtype=np.float32)
    proto = model([node("Add", ["x", "w"], ["y"])], [info("x", [2, 3])], ["y"], {"w": w})
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    path = tmp_path / "m.onnx"
    np.testing.assert_array_equal(load(path).run({"x": X})["y"], X + w)
    with pytest.raises(ModelError, match="which only a model in a file has"):
        load(path.read_bytes())
    (tmp_path / "w.bin").unlink()
    with pytest.raises((ModelError, OSError), match="w"):
        load(path)


def test_external_data_outside_the_folder_is_refused(tmp_path):
    (tmp_path / "secret").write_bytes(bytes(12))
    (tmp_path / "inner").mkdir()
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="../secret")
    proto = model([node("Add", ["x", "w"], ["y"])], [info("x", [2, 3])], ["y"])
    proto.graph.initializer.append(tensor)
    onnx.save(proto, tmp_path / "inner" / "m.onnx")
    with pytest.raises(ModelError, match='external data of the tensor "w"'):
        load(tmp_path / "inner" / "m.onnx")


RELU = [node("Relu", ["x"], ["y"], "relu")]


def _with_raw(dims: Any, data: Any) -> Any:
    proto = model([node("Add", ["x", "w"], ["y"])], [info("x", [2, 3])], ["y"])
    proto.graph.initializer.append(TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, raw_data=data))
    return proto


BAD = {
    "empty": (b"", "is not an ONNX model"),
    "text": (b"not a model at all", "is not an ONNX model"),
    "truncated": (model(RELU, [info("x", [2, 3])], ["y"], {"w": X}).SerializeToString()[:-9], "is not an ONNX model"),
    "unknown operator": (
        model([node("Reluu", ["x"], ["y"], "r")], [info("x", [2, 3])], ["y"]),
        r"node r \(Reluu\) is unknown",
    ),
    "unknown domain": (
        model([node("Relu", ["x"], ["y"], "r", domain="acme")], [info("x", [2, 3])], ["y"]),
        "node r is of domain acme, which the model does not import",
    ),
    "missing tensor": (model(RELU, [], ["y"]), r'node relu \(Relu\) reads "x", which is not a tensor'),
    "cycle": (
        model([node("Add", ["x", "b"], ["a"], "one"), node("Neg", ["a"], ["b"], "two")], [info("x", [1])], ["a"]),
        "node one is part of a cycle",
    ),
    "two writers": (model([*RELU, *RELU], [info("x", [2, 3])], ["y"]), 'writes "y", which is already a tensor'),
    "missing output": (model(RELU, [info("x", [2, 3])], ["z"]), 'the output "z" is not a tensor of the model'),
    "unknown dimension": (model(RELU, [info("x", ["n", None, 3])], ["y"]), r"float\[n, \?, 3\].*: n=SIZE, x:1=SIZE"),
    "bytes of a tensor": (_with_raw([3], bytes(8)), '"w" has 8 bytes; sizes .* of float take 12'),
    "elements": (_with_raw([1 << 31, 1 << 31], bytes(8)), '"w" has 8 bytes'),
    "negative size": (_with_raw([-1], bytes(8)), r'"w" has the sizes \[-1\]'),
    "type of operands": (
        model([node("Add", ["x", "i"], ["y"], "add")], [info("x", [2, 3])], ["y"], {"i": np.array([1])}),
        r"node add \(Add\) cannot take",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_unusable_models_are_refused(name):
    source, message = BAD[name]
    with pytest.raises(ModelError, match=message):
        load(source)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, r"the input x \(float\[2, 3\]\) is missing"),
        ({"x": X, "z": X}, 'the model has no input "z"; it takes x'),
        ({"x": X[:1]}, r"float32\[1, 3\] given for the input x \(float\[2, 3\]\)"),
        ({"x": X.astype(np.float64)}, r"float64\[2, 3\] given for the input x \(float\[2, 3\]\)"),
    ],
)
def test_inputs_must_be_those_of_the_model(inputs, message):
    loaded = load(model(RELU, [info("x", [2, 3])], ["y"]))
    with pytest.raises(ModelError, match=message):
        loaded.run(inputs)


def test_dimension_that_the_model_lacks_is_refused():
    with pytest.raises(ModelError, match='the model has no dimension "m"; its inputs have the dimensions n'):
        load(model(RELU, [info("x", ["n", 3])], ["y"]), dimensions={"m": 1, "n": 2})


def test_export_runs_in_dxdispatch_form(tmp_path):
    w = np.arange(12, dtype=np.float32).reshape(4, 3)
    nodes = [
        node("Gemm", ["x", "w"], ["a"], transB=1),
        node("Flatten", ["a"], ["b"], axis=0),
        node("Neg", ["b"], ["y"]),
    ]
    loaded = load(model(nodes, [info("x", [2, 3])], ["y"], {"w": w}))
    path = loaded.export(tmp_path / "out", {"x": X})
    from opwire.dxdispatch import read_model, read_text
    from opwire_service.devices import load as load_device
    from opwire_service.offline.run import Show, execute, prepare

    steps = prepare(read_model(read_text(path.read_bytes())), FeatureLevel.V6_4, path.parent, path.parent)
    shown = [step.values.copy() for step, _ in execute(steps, load_device("reference")) if isinstance(step, Show)]
    np.testing.assert_array_equal(shown[0], -(X @ w.T).reshape(-1))


def test_constants_are_computed_lazily_where_they_are_attributes():
    nodes = [node("Mul", ["one", "two"], ["scale"]), node("Mul", ["x", "scale"], ["y"])]
    loaded = load(model(nodes, [info("x", [2, 3])], ["y"], {"one": np.float32(1.5), "two": np.float32(2)}))
    np.testing.assert_array_equal(loaded.run({"x": X})["y"], X * 3)


def test_what_has_no_elements_is_constant():
    nodes = [node("Split", ["x", "parts"], ["a", "b"], axis=1), node("Concat", ["b", "a", "b"], ["y"], axis=1)]
    loaded = load(model(nodes, [info("x", [2, 3])], ["y", "b"], {"parts": np.array([3, 0])}))
    assert all(each.is_lowered for each in loaded.nodes)
    outputs = loaded.run({"x": X})
    np.testing.assert_array_equal(outputs["y"], X)
    assert outputs["b"].shape == (2, 0)


def test_the_type_of_a_constant_may_be_that_of_another_tensor():
    nodes = [node("CastLike", ["value", "x"], ["filler"]), node("Pad", ["x", "pads", "filler"], ["y"])]
    constants = {"value": np.array(1.5, np.float64), "pads": np.array([0, 1, 0, 0])}
    loaded = load(model(nodes, [info("x", [2, 3])], ["y"], constants))
    assert all(each.is_lowered for each in loaded.nodes)
    np.testing.assert_array_equal(loaded.run({"x": X})["y"], np.pad(X, [(0, 0), (1, 0)], constant_values=1.5))


def test_constants_that_the_inference_refuses_are_computed():
    nodes = [node("Range", ["start", "limit", "delta"], ["counted"]), node("Gather", ["x", "counted"], ["y"])]
    constants = {"start": np.array(0), "limit": np.array([2]), "delta": np.array(1)}
    loaded = load(model(nodes, [info("x", [2, 3])], ["y"], constants))
    np.testing.assert_array_equal(loaded.run({"x": X})["y"], X)


@pytest.mark.parametrize(("axis", "new_axis"), [(1, 0), (-1, 0), (0, 1), (-1, 1)])
def test_a_sequence_with_known_members_is_joined(axis, new_axis):
    nodes = [
        node("Neg", ["x"], ["n"]),
        node("SequenceConstruct", ["x", "n", "x"], ["s"]),
        node("ConcatFromSequence", ["s"], ["y"], axis=axis, new_axis=new_axis),
    ]
    loaded = load(model(nodes, [info("x", [2, 3])], ["y"]))
    join = np.stack if new_axis else np.concatenate
    np.testing.assert_array_equal(loaded.run({"x": X})["y"], join([X, -X, X], axis))
    assert all(each.is_lowered for each in loaded.nodes)
