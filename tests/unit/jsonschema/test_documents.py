"""The JSON Schemas are valid, accept valid documents and reject malformed ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from opwire.check import validate
from opwire.describe import example_info, whole_schema
from opwire.dxdispatch import lowest_level, parse_model, read_text
from opwire.jsonschema import META, documents
from opwire.level import HIGHEST
from opwire.operators import OPERATORS
from opwire.schema import CATALOG
from tests.support.conformance import PLACES
from tests.support.paths import MODELS
from tests.support.rows import for_each

SAMPLES = sorted(
    path
    for place in PLACES
    for path in (place / "dxdispatch").glob("*.json")
    if path.name not in ("_schema.json", "expected.json")
)
EXAMPLES = [(operator, example) for operator in OPERATORS.values() for example in operator.examples]

DOCUMENTS = jsonschema_rs.validator_for(documents())
TENSOR = {"DataType": "FLOAT32", "Sizes": [2, 3]}
DESC = {"InputTensor": TENSOR, "OutputTensor": None, "Axes": [1], "AxisDirection": "INCREASING"}


@pytest.mark.parametrize("schema", [META, documents()], ids=["meta", "documents"])
def test_they_are_valid_json_schemas(schema: Any):
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema_rs.meta.validate(schema)


def test_the_directml_schema_matches_its_meta_schema():
    whole = json.loads(json.dumps(whole_schema()))
    validator = jsonschema_rs.validator_for(META)
    assert [error.message for error in validator.iter_errors(whole)] == []
    assert list(whole["operators"]) == list(CATALOG)
    whole["operators"]["GEMM"]["members"][0]["role"] = "in"
    assert not validator.is_valid(whole)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_dxdispatch_models_are_read_and_pass(path: Path):
    model = parse_model(path.read_bytes())
    found = model.validate(HIGHEST)
    assert list(found) == list(model.dispatchables)
    assert [error.message for error in DOCUMENTS.iter_errors(read_text(path.read_bytes()))] == []
    lowest = lowest_level(found.values())
    assert lowest is None or all(validation.valid for validation in model.validate(lowest).values())


@pytest.mark.parametrize("name", ["argmax_inline", "offsets", "pooling_nested", "reduce_lists", "files"])
def test_the_projects_models_pass(name: str):
    assert DOCUMENTS.is_valid(read_text((MODELS / f"{name}.json").read_bytes()))


@for_each(EXAMPLES)
def test_examples_pass_as_requests_and_as_models(operator: Any, example: Any):
    info = example_info(operator, example)
    assert validate(info["operator"], info["feature_level"]).valid
    request = {name: info[name] for name in ("feature_level", "operator", "inputs")}
    inline = {"type": operator.name, **info["operator"]["desc"]}
    model = {"resources": {}, "dispatchables": {"x": info["operator"]}, "commands": []}
    for document in (request, {"requests": [request]}, {"operator": info["operator"]}, info["operator"], model):
        assert [error.message for error in DOCUMENTS.iter_errors(json.loads(json.dumps(document)))] == []
    if "Type" not in info["operator"]["desc"]:
        assert DOCUMENTS.is_valid(json.loads(json.dumps({**model, "dispatchables": {"x": inline}})))


@pytest.mark.parametrize(
    "desc",
    [
        {**DESC, "Axis": 1},
        {**DESC, "Axes": 1},
        {**DESC, "Axes": [-1]},
        {**DESC, "AxisDirection": "UP"},
        {**DESC, "InputTensor": {"DataType": "FLOAT32"}},
        {**DESC, "InputTensor": {**TENSOR, "DataType": "BOOL"}},
        {"InputTensor": TENSOR},
        [],
    ],
)
def test_malformed_descs_fail(desc: Any):
    assert DOCUMENTS.is_valid({"operator": {"type": "ARGMAX", "desc": DESC}})
    assert not DOCUMENTS.is_valid({"operator": {"type": "ARGMAX", "desc": desc}})
    assert not DOCUMENTS.is_valid({"operator": {"type": "ARGMAX", "desc": desc}, "inputs": {}})
    model: dict[str, Any] = {"resources": {}, "commands": []}
    assert DOCUMENTS.is_valid({**model, "dispatchables": {"x": {"type": "ARGMAX", "Desc": DESC}}})
    assert not DOCUMENTS.is_valid({**model, "dispatchables": {"x": {"type": "ARGMAX", "Desc": desc}}})


@pytest.mark.parametrize(
    "document",
    [
        {"operator": {"type": "NOPE", "desc": {}}},
        {"operator": {"type": "ARGMAX", "desc": DESC}, "inputs": {"InputTensor": 3}},
        {"operator": {"type": "ARGMAX", "desc": DESC}, "inputs": {"InputTensor": [["AAAA"]]}},
        {"operator": {"type": "ARGMAX", "desc": DESC}, "inputs": {}, "priority": 10},
        {"requests": {}},
        {"resources": {}, "dispatchables": {}, "commands": [{"type": "jump"}]},
        {"resources": {"x": {}}, "dispatchables": {}, "commands": []},
        {"dispatchables": {}},
    ],
)
def test_malformed_documents_fail(document: Any):
    assert not DOCUMENTS.is_valid(document)


@pytest.mark.parametrize(
    ("inputs", "passes"),
    [
        (["x"], True),
        ({"x": TENSOR}, True),
        ({"x": {"Desc": TENSOR}, "w": None}, True),
        ({"x": {"Sizes": [2, 3]}}, False),
        ({"x": "FLOAT32"}, False),
        ("x", False),
    ],
)
def test_inputs_of_graphs_are_names_or_descs(inputs: Any, passes: bool):
    node = {"type": "ARGMAX", "desc": DESC, "inputs": {"InputTensor": "input:x"}}
    graph = {"nodes": {"a": node}, "inputs": inputs, "outputs": {"y": "a"}}
    assert DOCUMENTS.is_valid(graph) == DOCUMENTS.is_valid({"graph": graph, "inputs": {}}) == passes


def test_arrays_of_tensors_pass():
    operator = {"type": "JOIN", "desc": {"InputTensors": [TENSOR, TENSOR], "OutputTensor": TENSOR, "Axis": 0}}
    assert DOCUMENTS.is_valid({"operator": operator, "inputs": {"InputTensors": ["AAAA", {"data": [1]}]}})
