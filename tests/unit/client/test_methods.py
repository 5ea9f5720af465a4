"""The generated methods: one per declared operator, whose calls have the expected descs."""

from __future__ import annotations

import ast
import inspect
import json
import pydoc
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opwire import AsyncClient, Call, Client, ContractViolation, DataType, Graph, check, check_graph, prepare
from opwire.client import typed
from opwire.client.docstrings import tensor_text
from opwire.client.operands import operator_call
from opwire.client.short_names import SHORT_NAMES
from opwire.client.signatures import argument_name
from opwire.client.typed import DeclaredMethods
from opwire.enums import ReduceFunction
from opwire.operators import OPERATORS
from opwire.schema import CATALOG, operator_document, schema_of
from scripts.client_methods import client_methods, handwritten
from tests.directml.documented import OPERATORS as DIRECTML
from tests.support.array_operators import counted
from tests.support.rows import for_each

X = np.zeros((1, 2, 4, 4), np.float32)
TENSOR = {"DataType": "FLOAT32", "Sizes": [1, 2, 4, 4]}


@for_each(OPERATORS)
def test_each_declared_operator_has_a_method(name: str):
    for kind in (Client, AsyncClient, type(prepare)):
        assert callable(getattr(kind, name.lower()))


GENERATED = [name for name in OPERATORS if name.lower() not in handwritten()]


@for_each(GENERATED)
def test_arguments_match_the_members(name: str):
    parameters = list(inspect.signature(getattr(DeclaredMethods, name.lower())).parameters.values())[1:-1]
    members = schema_of(name).members
    counts = {member.name for member in (*members.counts, *members.tensor_counts)}
    positional = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    keywords = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
    assert positional == [argument_name(member.name) for member in members.inputs]
    assert keywords == {argument_name(member.name) for member in members.every if member.name not in counts} - {
        *positional
    }
    assert len({*positional, *keywords}) == len(parameters)
    for each in parameters:
        assert each.name.isidentifier()


@pytest.mark.parametrize(
    ("name", "defaults"),
    [
        ("gemm", {"trans_a": "NONE", "trans_b": "NONE", "alpha": 1, "beta": 1, "fused_activation": None}),
        ("activation_elu", {"alpha": 1}),
        ("activation_hard_sigmoid", {"alpha": 0.2, "beta": 0.5}),
        ("max_pooling1", {"strides": 1, "start_padding": 0, "end_padding": 0}),
        ("convolution", {"mode": "CROSS_CORRELATION", "direction": "FORWARD", "group_count": 1, "output_padding": 0}),
    ],
)
def test_defaults_are_those_of_directmlx(name: str, defaults: dict[str, Any]):
    parameters = inspect.signature(getattr(Client, name)).parameters
    assert {each: parameters[each].default for each in defaults} == defaults


@pytest.mark.parametrize(
    ("member", "argument"),
    [
        ("InputTensor", "input_tensor"),
        ("ATensor", "a_tensor"),
        ("OutputROIGradientTensor", "output_roi_gradient_tensor"),
        ("TransA", "trans_a"),
        ("ROITensor", "roi_tensor"),
    ],
)
def test_argument_names_are_snake_case(member: str, argument: str):
    assert argument_name(member) == argument


def test_calls_derive_descs_from_arrays():
    call = prepare.max_pooling1(X, window_size=[2, 3], feature_level="5_0")
    assert call.operator["type"] == "DML_OPERATOR_MAX_POOLING1"
    assert call.operator["desc"] == {
        "InputTensor": TENSOR,
        "WindowSize": [2, 3],
        "Strides": [1, 1],
        "StartPadding": [0, 0],
        "EndPadding": [0, 0],
    }
    assert call.options["feature_level"] == "5_0"
    assert list(call.inputs) == ["InputTensor"]
    plan = check(call.operator)
    assert plan.outputs["OutputTensor"].sizes == (1, 2, 3, 2)


def test_convolution_has_default_attributes():
    call = prepare.convolution(X, np.zeros((3, 2, 1, 1), np.float32), strides=[2, 1])
    plan = check(call.operator)
    assert plan.outputs["OutputTensor"].sizes == (1, 3, 2, 4)
    assert "BiasTensor" not in call.operator["desc"]
    fused = prepare.convolution(
        X, np.zeros((3, 2, 1, 1), np.float32), fused_activation={"Type": "ACTIVATION_RELU"}, group_count=1
    )
    assert check(fused.operator).attributes.FusedActivation.name == "ACTIVATION_RELU"


def test_a_single_axis_is_a_list_of_one():
    for axes in (1, [1], np.int64(1), np.array(1)):
        call = prepare.activation_softmax1(X, axes=axes)  # type: ignore[arg-type] # it takes lists
        assert call.operator["desc"]["Axes"] == [1]
        assert check(call.operator).outputs["OutputTensor"].sizes == X.shape


def test_structs_and_output_descs_can_be_given():
    output = {"DataType": "FLOAT32", "Sizes": [1, 2, 4, 4]}
    call = prepare.element_wise_sqrt(X, scale_bias={"Scale": 2, "Bias": 1}, output_tensor=output)
    assert call.operator["desc"] == {
        "InputTensor": TENSOR,
        "OutputTensor": output,
        "ScaleBias": {"Scale": 2, "Bias": 1},
    }


def test_arrays_of_tensors_are_given_as_lists():
    call = operator_call("JOIN", [counted(2, 3)], {"OutputTensor": None, "Axis": 0})
    assert [tensor["Sizes"] for tensor in call.operator["desc"]["InputTensors"]] == [[2], [3]]
    assert list(call.inputs) == ["InputTensors[0]", "InputTensors[1]"]
    for given in (X, 3, {"a": X}, b"ab"):
        with pytest.raises(TypeError, match="it takes a list of tensors"):
            operator_call("JOIN", [given], {"Axis": 0})
    with pytest.raises(TypeError, match=r"input_tensors\[1\] is of type list, not an array"):
        operator_call("JOIN", [[X, [1]]], {"Axis": 0})


def test_any_optional_input_can_be_omitted():
    call = operator_call("GEMM", [X, X, None], {"Alpha": 1})
    assert list(call.inputs) == ["ATensor", "BTensor"]
    with pytest.raises(TypeError, match="b_tensor is of type NoneType"):
        operator_call("GEMM", [X, None, None], {})


def test_unknown_keywords_are_refused():
    wrong: Any = {"alfa": 1}
    with pytest.raises(TypeError, match=r"activation_elu\(\) has no argument 'alfa'; did you mean alpha\?") as error:
        prepare.activation_elu(X, **wrong)
    assert "input_tensor, alpha, output_tensor" in str(error.value)
    assert "feature_level" in str(error.value)


@for_each(GENERATED)
def test_each_generated_method_describes_its_arguments_and_outputs(name: str):
    method = getattr(DeclaredMethods, name.lower())
    text = inspect.getdoc(method) or ""
    arguments = re.findall(r"^    (\w+): ", text.partition("Args:\n")[2].partition("\nReturns:")[0], re.MULTILINE)
    assert sorted(arguments) == sorted([*inspect.signature(method).parameters][1:])
    outputs = [
        field["name"] for field in DIRECTML[name]["fields"] if field.get("role") in ("output", "optional output")
    ]
    assert re.findall(r"^    (\w+): ", text.partition("Returns:\n")[2], re.MULTILINE) == outputs
    assert text.count(f">>> client.{name.lower()}(") == 1
    assert f"ns-directml-{DIRECTML[name]['struct'].lower()}" in text
    assert max(map(len, text.splitlines())) <= 130


def test_tensors_are_described_with_types_ranks_sizes_and_levels():
    text = " ".join((inspect.getdoc(Client.element_wise_add) or "").split())
    said = "a tensor of FLOAT32 or FLOAT16, from 2_1 on INT32 or UINT32, from 4_1 on INT64 or UINT64, from 5_1 on "
    said += "INT16, UINT16, INT8 or UINT8, of rank 4 to 5, from 3_0 on 1 to 8."
    assert text.count(f"a_tensor: {said}") == 1
    assert [
        text.count(f"{name}: a tensor of the data types and ranks of a_tensor.")
        for name in ("b_tensor", "OutputTensor")
    ] == [1, 1]
    text = " ".join((inspect.getdoc(Client.gemm) or "").split())
    assert (
        "c_tensor: optional, a tensor of FLOAT32 or FLOAT16, of rank 4, from 4_0 on 2 to 4, sizes [BatchCount] x "
        "[ChannelCount] x M x N." in text
    )
    assert "trans_a: a DML_MATRIX_TRANSFORM: NONE or TRANSPOSE." in text


HANDWRITTEN = {"ARGMAX": ["argmax"], "ARGMIN": ["argmin"], "MAX_POOLING": ["max_pooling"]}
HANDWRITTEN["REDUCE"] = ["reduce", *(name.lower() for name in ReduceFunction.__members__ if "ARG" not in name)]
BY_HAND = [(name, method) for name, methods in HANDWRITTEN.items() for method in methods]


def test_every_method_is_generated_or_written_by_hand():
    assert {*OPERATORS} - {*HANDWRITTEN} == {*GENERATED}


@pytest.mark.parametrize(("name", "method"), BY_HAND)
def test_each_method_that_is_written_by_hand_is_described_like_the_others(name: str, method: str):
    text = inspect.getdoc(getattr(Client, method)) or ""
    arguments = re.findall(r"^    (\w+): ", text.partition("Args:\n")[2].partition("\nReturns:")[0], re.MULTILINE)
    assert arguments == [*inspect.signature(getattr(Client, method)).parameters][1:]
    assert "OutputTensor: " in text.partition("\nReturns:")[2]
    assert text.count(f">>> client.{method}(") == 1
    assert f"Since feature level {CATALOG[name].introduced.short}:" in text
    assert f"ns-directml-{DIRECTML[name]['struct'].lower()}" in text
    newest = "MAX_POOLING2" if name == "MAX_POOLING" else name
    members = {row["name"]: row for row in operator_document(newest)["members"]}
    plain = " ".join(text.split())
    if method != "reduce":  # its types depend on the function
        assert f"x: {tensor_text(newest, members['InputTensor'], Function=method.upper())}" in plain
    if "OutputIndicesTensor" in members:
        assert f"OutputIndicesTensor: {tensor_text(newest, members['OutputIndicesTensor'])}" in plain


STUB = ast.parse(Path(typed.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
"""What type checkers and editors read."""


def test_the_stub_declares_the_methods_with_their_documentation():
    (declared,) = [each for each in STUB.body if isinstance(each, ast.ClassDef)]
    methods = [each for each in declared.body if isinstance(each, ast.FunctionDef)][1:]
    assert [each.name for each in methods] == [name.lower() for name in GENERATED]
    for each in methods:
        method = getattr(DeclaredMethods, each.name)
        arguments = [given.arg for given in (*each.args.args, *each.args.kwonlyargs)]
        assert arguments == [*inspect.signature(method).parameters][:-1]
        assert ast.get_docstring(each) == inspect.getdoc(method)
    named = {each.targets[0].id: each.value.id for each in declared.body if isinstance(each, ast.Assign)}  # type: ignore[attr-defined]
    assert named == {short: name.lower() for short, name in SHORT_NAMES.items() if short not in handwritten()}


def test_the_stub_is_up_to_date():
    assert Path(typed.__file__).with_suffix(".pyi").read_text(encoding="utf-8") == client_methods()


@for_each((client, short, name) for client in (prepare, Graph()) for short, name in SHORT_NAMES.items())
def test_a_short_name_is_the_method_unless_there_is_another_of_that_name(client: Any, short: str, name: str):
    assert short in dir(client)
    if short not in handwritten():
        assert getattr(client, short) == getattr(client, name.lower())


def test_common_short_names():
    image = np.zeros((1, 1, 4, 4), np.float32)
    for call, name in [
        (prepare.relu(X), "ACTIVATION_RELU"),
        (prepare.add(X, X), "ELEMENT_WISE_ADD"),
        (prepare.conv(image, image), "CONVOLUTION"),
        (prepare.matmul(X, X), "GEMM"),
        (prepare.where(X.astype(np.uint8), X, X), "ELEMENT_WISE_IF"),
        (prepare.tanh(X), "ELEMENT_WISE_TANH"),
        (prepare.max_pool(image, 2), "MAX_POOLING"),
        (prepare.max(X, 1), "REDUCE"),
        (prepare.maximum(X, X), "ELEMENT_WISE_MAX"),
    ]:
        assert call.operator["type"] == f"DML_OPERATOR_{name}"


def test_wrong_arguments_are_explained():
    wrong: Any = prepare.gemm
    with pytest.raises(TypeError, match=r"^gemm\(\) misses b_tensor\. It takes a_tensor, b_tensor, c_tensor, "):
        wrong(X)
    with pytest.raises(TypeError, match=r"^gemm\(\) takes its inputs by position: a_tensor, b_tensor, c_tensor; 4 "):
        wrong(X, X, None, 1)
    with pytest.raises(TypeError, match=r"^gemm\(\) is given a_tensor by position and as a keyword$"):
        wrong(X, X, a_tensor=X)


def test_help_shows_signature_and_documentation():
    text = pydoc.plain(pydoc.render_doc(Client.gemm))
    assert "gemm(self, a_tensor: 'Operand', b_tensor: 'Operand', c_tensor: 'Operand | None' = None, *, " in text
    assert "Multiplies batches of matrices" in text
    assert "activation_relu(self, " in pydoc.plain(pydoc.render_doc(Client))


METHODS = [name for name, method in inspect.getmembers(prepare, inspect.ismethod) if not name.startswith("_")]
METHODS = [name for name in METHODS if getattr(prepare, name).__name__ == name]


@for_each((name, client) for name in METHODS for client in (prepare, Graph()))
def test_each_method_documents_its_arguments(name: str, client: Any):
    method = getattr(client, name)
    parameters = inspect.signature(method).parameters
    needed = [each.name for each in parameters.values() if each.default is each.empty and each.name != "options"]
    taken = ", ".join([*parameters][:-1])
    told = rf"^{name}\(\) has no argument 'zzz'\. It takes {taken}, and the options feature_"
    for given in (needed, []):
        with pytest.raises(TypeError, match=told):
            method(**dict.fromkeys(given, X), zzz=1)


@pytest.mark.parametrize(("given", "meant"), [("transA", "trans_a"), ("TransB", "trans_b"), ("ATensor", "a_tensor")])
def test_a_keyword_spelled_as_in_directml_gets_the_one_it_means(given: str, meant: str):
    wrong: Any = {given: "NONE"}
    with pytest.raises(TypeError, match=rf"no argument '{given}'; did you mean {meant}\?"):
        prepare.gemm(X, X, **wrong)


MATRIX = np.zeros((2, 3), np.float32)


def test_types_of_numpy_are_data_types():
    for given in (np.float16, np.dtype("float16"), np.ones(1, np.float16).dtype, DataType.FLOAT16, "FLOAT16"):
        assert (
            prepare.reduce(MATRIX, "SUM", 1, output_type=given).operator["desc"]["OutputTensor"]["DataType"]
            == "FLOAT16"
        )
        desc = prepare.cast(MATRIX, output_tensor={"DataType": given, "Sizes": [2, 3]}).operator["desc"]
        assert desc["OutputTensor"]["DataType"] == "FLOAT16"
        filled = prepare.fill_value_constant(
            output_tensor={"DataType": given, "Sizes": [1]}, value_data_type=given, value=1
        )
        assert filled.operator["desc"]["ValueDataType"] == "FLOAT16"
        assert Graph().input("x", given, [2]).data_type is DataType.FLOAT16
    with pytest.raises(TypeError, match="complex64"):
        prepare.reduce(MATRIX, "SUM", 1, output_type=np.complex64)


@pytest.mark.parametrize("given", [np.float32, np.dtype("float32"), DataType.FLOAT32])
def test_descs_take_types_of_numpy(make_client: Any, server_url: str, given: Any):
    operator = {"type": "ACTIVATION_RELU", "desc": {"InputTensor": {"DataType": given, "Sizes": [2, 3]}}}
    node = {**operator, "inputs": {"InputTensor": "input:x"}}
    graph = {"nodes": {"relu": node}, "outputs": {"y": "relu"}}
    assert check(operator).inputs["InputTensor"].data_type is DataType.FLOAT32
    client = make_client(server_url)
    x = np.array([[1, -1, 2], [-2, 3, -3]], np.float32)
    assert client.validate(operator).valid
    for target, inputs in ((operator, x), (graph, {"x": x})):
        assert client.execute(target, inputs).output.tolist() == [[1, 0, 2], [0, 3, 0]]
    assert client.register_graph("named_types", graph)["inputs"]["x"]["DataType"] == "FLOAT32"
    client.delete_graph("named_types")


def test_a_type_of_numpy_that_directml_lacks_is_refused():
    with pytest.raises(ContractViolation, match=r"complex64.* given; allowed: FLOAT32, "):
        check({"type": "ACTIVATION_RELU", "desc": {"InputTensor": {"DataType": np.complex64, "Sizes": [2]}}})


@pytest.mark.parametrize(
    "given", ["RELU", "relu", "ACTIVATION_RELU", "DML_OPERATOR_ACTIVATION_RELU", {"Type": "ACTIVATION_RELU"}]
)
def test_a_fused_activation_without_parameters_is_a_name(given: Any):
    graph = Graph()
    y = graph.gemm(graph.input("x", np.float32, [2, 3]), np.ones((3, 2), np.float32), fused_activation=given)
    (step,) = check_graph(graph.to_json()).attributes.steps
    assert (step.plan.attributes.FusedActivation.name, y.sizes) == ("ACTIVATION_RELU", (2, 2))


def test_a_fused_activation_that_does_not_exist_is_refused_by_its_name():
    with pytest.raises(ContractViolation, match='"RELUX" is not a DirectML operator type'):
        Graph().gemm(MATRIX, MATRIX.T.copy(), fused_activation="RELUX")


def test_a_misspelt_required_keyword_gets_a_suggestion():
    wrong: Any = {"windows_size": [2, 2]}
    with pytest.raises(TypeError, match=r"max_pooling1\(\) has no argument 'windows_size'; did you mean window_size\?"):
        prepare.max_pooling1(X, **wrong)


def test_methods_work_with_a_real_server(make_client: Any, server_url: str):
    client = make_client(server_url)
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    indices = {"DataType": "UINT32", "Sizes": [1, 1, 2, 2]}
    result = client.max_pooling1(x, window_size=[2, 2], strides=2, output_indices_tensor=indices)
    assert result.output.tolist() == [[[[5, 7], [13, 15]]]]
    assert result.outputs["OutputIndicesTensor"].tolist() == [[[[5, 7], [13, 15]]]]
    assert json.dumps(prepare.max_pooling2(x, window_size=(2, 2)).operator["desc"])
    assert isinstance(prepare.element_wise_add(x, x), Call)
