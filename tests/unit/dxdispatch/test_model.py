"""DxDispatch models: what is read, what is refused, and where violations point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire import FeatureLevel, OpwireError, ProblemCode, RequestError
from opwire.dxdispatch import (
    Command,
    Dispatch,
    Dispatchable,
    ForeignDispatchable,
    GraphFile,
    OperatorDispatchable,
    Print,
    WriteFile,
    parse_model,
    read_model,
    read_operator,
    read_text,
)
from tests.strategies.json_values import JSON
from tests.support.http.pointers import resolves
from tests.support.paths import MODELS

DESC = {"Function": "SUM", "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 2]}, "Axes": [3]}
OPERATOR = {"type": "REDUCE", "desc": DESC}


def violations_of(value: object) -> list[tuple[str, str]]:
    with pytest.raises(RequestError) as caught:
        read_model(value)
    assert caught.value.code is ProblemCode.INVALID_REQUEST
    return [(violation.code.value, violation.pointer) for violation in caught.value.violations]


def dispatchable_of(**members: object) -> Dispatchable:
    model = read_model({"resources": {}, "dispatchables": {"op": members}, "commands": []})
    return model.dispatchables["op"]


@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        ({"type": "REDUCE", "desc": {**DESC, "Axes": [4]}}, "/dispatchables/op/desc/Axes/0"),
        ({"type": "REDUCE", "Desc": {**DESC, "Axes": [4]}}, "/dispatchables/op/Desc/Axes/0"),
        ({"type": "REDUCE", **DESC, "Axes": [4]}, "/dispatchables/op/Axes/0"),
        ({"Type": "REDUCE", **DESC, "Axes": [4]}, "/dispatchables/op/Axes/0"),
        ({"Type": "REDUCED", "desc": DESC}, "/dispatchables/op/Type"),
        ({"desc": DESC}, "/dispatchables/op"),
        ({"type": "REDUCE", "desc": [1]}, "/dispatchables/op/desc"),
        ({"type": "REDUCE", **DESC, "Axis": [3]}, "/dispatchables/op/Axis"),
    ],
)
def test_violations_point_into_the_model(members, pointer):
    dispatchable = dispatchable_of(**members)
    found = dispatchable.validate(FeatureLevel.V6_4)
    assert [violation.pointer for violation in found.violations] == [pointer]
    assert resolves({"dispatchables": {"op": members}}, pointer)
    with pytest.raises(OpwireError) as caught:
        dispatchable.check(FeatureLevel.V6_4)
    assert caught.value.violations == found.violations


@pytest.mark.parametrize(
    "members",
    [
        OPERATOR,
        {**OPERATOR, "type": "DML_OPERATOR_REDUCE", "note": "ignored, as DxDispatch does"},
        {"type": "REDUCE", "Desc": DESC, "dmlCompileType": "DmlCompileOp"},
        {"type": "REDUCE", **DESC, "executionFlags": ["DISABLE_META_COMMANDS"], "bindings": {}},
    ],
)
def test_operators_are_accepted_in_every_form(members):
    plan = dispatchable_of(**members).check(FeatureLevel.V1_0)
    assert plan.operator.name == "REDUCE"
    assert plan.outputs["OutputTensor"].sizes == (1, 1, 1, 1)
    alone = read_operator({**members, "bindings": {"InputTensor": "resource of a model that is not here"}})
    assert isinstance(alone, OperatorDispatchable)
    assert alone.check(FeatureLevel.V1_0).attributes == plan.attributes


def test_dispatchables_compiled_as_graphs_have_the_level_of_graphs():
    dispatchable = dispatchable_of(**OPERATOR, dmlCompileType="DmlCompileGraph")
    found = dispatchable.validate(FeatureLevel.V2_0)
    assert [(violation.code.value, violation.pointer) for violation in found.violations] == [
        ("operator_not_in_level", "/dispatchables/op/dmlCompileType")
    ]
    assert found.minimum_feature_level is found.violations[0].available_from is FeatureLevel.V2_1
    with pytest.raises(OpwireError) as caught:
        dispatchable.check(FeatureLevel.V2_0)
    assert caught.value.violations == found.violations
    assert dispatchable.validate(FeatureLevel.V2_1).valid
    assert dispatchable.check(FeatureLevel.V2_1).operator.name == "REDUCE"
    wrong = dispatchable_of(type="REDUCE", desc={**DESC, "Function": "MEDIAN"}, dmlCompileType="DmlCompileGraph")
    assert len(wrong.validate(FeatureLevel.V2_0).violations) == 2
    assert wrong.validate(FeatureLevel.V2_0).minimum_feature_level is None


def test_graphs_in_files_are_checked_once_read():
    dispatchable = dispatchable_of(type="DmlSerializedGraph", sourcePath="x.bin")
    assert isinstance(dispatchable, GraphFile)
    (violation,) = dispatchable.validate(FeatureLevel.V6_4).violations
    assert violation.pointer.endswith("/sourcePath")
    assert '"x.bin" was not read' in violation.message
    with pytest.raises(RequestError, match="not a serialized graph"):
        dispatchable.read(b"\0" * 8, lambda name: b"")


@pytest.mark.parametrize(("kind", "named"), [("hlsl", "HLSL"), ("Onnx", "ONNX")])
def test_foreign_dispatchables_are_refused_by_name(kind, named):
    dispatchable = dispatchable_of(type=kind, sourcePath="x")
    assert isinstance(dispatchable, ForeignDispatchable)
    (violation,) = dispatchable.validate(FeatureLevel.V6_4).violations
    assert violation.code.value == "operator_not_executable"
    assert violation.pointer == "/dispatchables/op/type"
    assert named in violation.message
    with pytest.raises(OpwireError, match=named):
        dispatchable.check(FeatureLevel.V6_4)


@pytest.mark.parametrize(
    ("members", "at"),
    [
        ({"executionFlags": "FAST"}, "/executionFlags"),
        ({"executionFlags": ["NONE", "FAST"]}, "/executionFlags/1"),
        ({"dmlCompileType": "graph"}, "/dmlCompileType"),
        ({"bindings": {"InputTensor": "x"}}, "/bindings/InputTensor"),
    ],
)
def test_unknown_options_are_refused(members, at):
    refused = {"resources": {}, "dispatchables": {"op": {**OPERATOR, **members}}, "commands": []}
    assert violations_of(refused) == [("unknown_value", "/dispatchables/op" + at)]


# --- commands


def with_command(command: object) -> dict[str, Any]:
    buffer = {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2]}
    return {"resources": {"in": buffer, "out": buffer}, "dispatchables": {"op": OPERATOR}, "commands": [command]}


def command_of(**members: object) -> Command:
    (command,) = read_model(with_command(members)).commands
    return command


@pytest.mark.parametrize(
    ("bound", "resource", "offset", "size"),
    [
        ("in", "in", 0, None),
        (["in"], "in", 0, None),
        ({"name": "in"}, "in", 0, None),
        ([{"name": "in", "elementOffset": 4, "elementSizeInBytes": 8}], "in", 4, 8),
        ({"name": "in", "elementOffset": 2, "elementCount": 1, "format": "R32_FLOAT", "shape": [1]}, "in", 2, None),
    ],
)
def test_bindings_are_read_in_every_form(bound, resource, offset, size):
    command = command_of(type="dispatch", dispatchable="op", bindings={"InputTensor": bound, "OutputTensor": "out"})
    assert isinstance(command, Dispatch)
    found = command.bindings["InputTensor"][0]
    assert (found.resource, found.element_offset, found.element_size) == (resource, offset, size)


def test_print_and_write_file_commands_are_read():
    assert command_of(type="print", resource="in") == Print("in", False, "/commands/0")
    assert command_of(type="PRINT", resource="in", verbose=True) == Print("in", True, "/commands/0")
    written = command_of(type="writefile", resource="out", targetPath="a/b.npy", dimensions=[1, 2])
    assert written == WriteFile("out", "a/b.npy", (1, 2), "/commands/0")


@pytest.mark.parametrize(
    ("command", "code", "at"),
    [
        ("dispatch", "wrong_type", ""),
        ({}, "missing_field", ""),
        ({"type": "jump"}, "unknown_value", "/type"),
        ({"type": "dispatch", "dispatchable": "op"}, "missing_field", ""),
        ({"type": "dispatch", "dispatchable": "other", "bindings": {}}, "unknown_value", "/dispatchable"),
        ({"type": "dispatch", "dispatchable": "op", "bindings": ["in"]}, "wrong_type", "/bindings"),
        ({"type": "dispatch", "dispatchable": "op", "bindings": {"a/b": "inn"}}, "unknown_value", "/bindings/a~1b"),
        ({"type": "dispatch", "dispatchable": "op", "bindings": {"a": {}}}, "missing_field", "/bindings/a"),
        ({"type": "dispatch", "dispatchable": "op", "bindings": {"a": 1}}, "wrong_type", "/bindings/a"),
        ({"type": "dispatch", "dispatchable": "op", "bindings": {"a": []}}, "count_mismatch", "/bindings/a"),
        (
            {"type": "dispatch", "dispatchable": "op", "bindings": {"a": [{"name": "in", "elementOffset": -1}]}},
            "out_of_range",
            "/bindings/a/0/elementOffset",
        ),
        ({"type": "print", "resource": 5}, "wrong_type", "/resource"),
        ({"type": "print", "resource": "In"}, "unknown_value", "/resource"),
        ({"type": "print", "resource": "in", "verbose": "yes"}, "wrong_type", "/verbose"),
        ({"type": "writeFile", "resource": "in"}, "missing_field", ""),
        (
            {"type": "writeFile", "resource": "in", "targetPath": "x", "dimensions": [0]},
            "out_of_range",
            "/dimensions/0",
        ),
        (
            {"type": "writeFile", "resource": "in", "targetPath": "x", "dimensions": [1] * 9},
            "out_of_range",
            "/dimensions",
        ),
    ],
)
def test_malformed_commands_are_refused(command, code, at):
    assert violations_of(with_command(command)) == [(code, "/commands/0" + at)]


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(RequestError, match='did you mean "out"'):
        read_model(with_command({"type": "print", "resource": "ou"}))


# --- whole models


def test_all_violations_of_a_model_are_reported():
    refused = {
        "resources": {"x": {"initialValues": "later"}, "y": 3},
        "dispatchables": {"op": 4},
        "commands": [
            {"type": "print", "resource": "x"},
            {"type": "dispatch", "dispatchable": "op", "bindings": {"a": "y"}},
            5,
        ],
    }
    # References to something malformed are not violations of their own.
    assert sorted(violations_of(refused)) == [
        ("wrong_type", "/commands/2"),
        ("wrong_type", "/dispatchables/op"),
        ("wrong_type", "/resources/x/initialValues"),
        ("wrong_type", "/resources/y"),
    ]


def test_an_unknown_operator_shows_even_if_resources_are_malformed():
    whole = {
        "resources": {"x": {"initialValues": 5}},
        "dispatchables": {"a": {"type": "RELUX", "desc": {}}, "b": {"type": "GEMM", "desc": {}}, "c": 5},
        "commands": [],
    }
    assert violations_of(whole) == [
        ("wrong_type", "/resources/x/initialValues"),
        ("wrong_type", "/dispatchables/c"),
        ("unknown_operator", "/dispatchables/a/type"),
    ]


@pytest.mark.parametrize("missing", ["resources", "dispatchables", "commands"])
def test_missing_parts_are_reported(missing):
    parts: dict[str, object] = {"resources": {}, "dispatchables": {}, "commands": []}
    assert violations_of({name: part for name, part in parts.items() if name != missing}) == [("missing_field", "")]
    assert violations_of({**parts, missing: 1}) == [("wrong_type", f"/{missing}")]
    assert violations_of([parts]) == [("wrong_type", "")]


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.json")), ids=lambda path: path.stem)
def test_model_files_are_read(path):
    model = parse_model(path.read_bytes())
    assert model.resources
    assert model.dispatchables
    assert any(isinstance(command, Dispatch) for command in model.commands)


def mutated(value: Any, draw: Callable[[st.SearchStrategy[Any]], Any]) -> Any:
    """Returns a copy of a value with one nested place replaced."""
    if isinstance(value, dict | list) and value and draw(st.integers(0, 4)):
        place = draw(st.sampled_from(list(value) if isinstance(value, dict) else list(range(len(value)))))
        copy = value.copy()
        copy[place] = mutated(value[place], draw)
        return copy
    return draw(JSON)


@given(st.sampled_from(sorted(MODELS.glob("*.json"))), st.data())
def test_mutated_models_are_read_or_refused_at_existing_places(path, data):
    value = mutated(read_text(path.read_bytes()), data.draw)
    pointers = violation_pointers(value)
    assert all(resolves(value, pointer) for pointer in pointers)


def violation_pointers(value: object) -> list[str]:
    """Returns the places that a model is refused at; empty if it is accepted."""
    try:
        model = read_model(value)
        for dispatchable in model.dispatchables.values():
            dispatchable.check(FeatureLevel.V6_4)
    except OpwireError as error:
        return [violation.pointer for violation in error.violations]
    return []
