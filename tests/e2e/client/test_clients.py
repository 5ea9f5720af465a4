"""The clients against a real server: every example by method and by ``execute``, and all other calls."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import opwire
from opwire import Client, FeatureLevel, errors, prepare
from opwire.client.signatures import argument_name
from opwire.operator import BadExample, Code
from opwire.tensor_names import grouped
from opwire.wire import Encoding
from opwire_service.kernels.executable import EXECUTABLE
from scripts.client_methods import handwritten
from tests.directml.tensor_support import COUNT
from tests.oracles import oracle
from tests.strategies.operators import cases
from tests.support.examples import ROWS, VARIED, Row, assert_right, by_tensor, check_all, in_batches, tensors
from tests.support.profiles import examples

BAD_ROWS = [(operator.name, bad) for operator in EXECUTABLE.values() for bad in operator.bad_examples]
encodings = pytest.mark.parametrize("encoding", [encoding.value for encoding in Encoding])
X = np.array([[1, 5, 2], [7, 3, 7]], np.float32)


def test_all_examples_match_in_one_batch(make_client, server_url):
    client = make_client(server_url)
    results: dict[str, Any] = {}
    for rows in in_batches():
        calls = [prepare.execute(row.request, tensors(row), feature_level=row.example.level) for row in rows]
        results |= zip(map(str, rows), client.execute_many(calls), strict=True)
    check_all(ROWS, lambda row: assert_right(results[str(row)], row.example.outputs))


def rows_in(encoding: str, config: pytest.Config) -> list[Row]:
    """All rows in the client's default encoding; in the others those that cover all kinds of tensors."""
    every = encoding == Encoding.BINARY or config.getoption("--thorough")
    return [row for row in ROWS if every or str(row) in VARIED]


@encodings
def test_examples_match_by_execute(make_client, server_url, request, encoding):
    client = make_client(server_url, encoding=encoding)

    def holds(row: Row) -> None:
        given = [tensors(row), row.example.inputs]
        if len(row.example.inputs) == 1:
            given.append(next(iter(row.example.inputs.values())))
        for inputs in given:
            result = client.execute(row.request, inputs, feature_level=row.example.level)
            assert_right(result, row.example.outputs)
            assert result.feature_level is row.example.level
            assert isinstance(result, opwire.PoolingResult) is ("OutputIndicesTensor" in row.example.outputs)

    check_all(rows_in(encoding, request.config), holds)


def by_method(client: Any, row: Row) -> Any:
    """Runs an example by the method of its operator."""
    name, desc, inputs = row.operator.name, row.example.desc, tensors(row)
    if name.lower() not in handwritten():
        counts = {member.name for member in (*row.operator.members.counts, *row.operator.members.tensor_counts)}
        given: dict[str, Any] = {argument_name(member.name): None for member in row.operator.members.inputs}
        given |= {argument_name(key): inputs.get(key, value) for key, value in desc.items() if key not in counts}
        return getattr(client, name.lower())(**given)
    (x,) = inputs.values()
    output = desc.get("OutputTensor", {})
    if name.startswith("ARG"):
        output_type = output.get("DataType", "UINT32")
        method = getattr(client, name.lower())
        return method(x, desc["Axes"], direction=desc["AxisDirection"], output_type=output_type)
    if name == "REDUCE":
        return client.reduce(x, desc["Function"], desc["Axes"], output_type=output.get("DataType"))
    return client.max_pooling(
        x,
        desc["WindowSize"],
        strides=desc["Strides"],
        start_padding=desc["StartPadding"],
        end_padding=desc["EndPadding"],
        ceil=row.example.name == "ceiling_size",
        operator=name,
    )


@encodings
def test_examples_match_by_method(make_client, server_url, request, encoding):
    client = make_client(server_url, encoding=encoding)
    check_all(rows_in(encoding, request.config), lambda row: assert_right(by_method(client, row), row.example.outputs))


def test_reductions_have_methods(make_client, server_url):
    client = make_client(server_url)
    x = np.array([[3, -4]], np.float32)
    right = {"sum": -1, "average": -0.5, "l1": 7, "l2": 5, "max": 3, "min": -4, "multiply": -12, "sum_square": 25}
    assert {name: getattr(client, name)(x, 1).output.item() for name in right} == right
    assert client.log_sum(np.abs(x), 1).output.item() == pytest.approx(np.log(7), rel=2e-7)
    assert client.log_sum_exp(x, 1).output.item() == pytest.approx(3 + np.log1p(np.exp(-7)), rel=2e-7)


@encodings
def test_random_operators_match_plain_python(make_client, server_url, encoding):
    client = make_client(server_url, encoding=encoding)

    @examples(20)
    @given(case=cases())
    def holds(case):
        plan = opwire.check(case.operator, case.level)
        right = oracle.expected(plan, case.inputs)
        for inputs in (case.inputs, case.buffers):
            result = client.execute(case.operator, grouped(inputs), feature_level=case.level)
            oracle.assert_answers(plan, result.tensors, right)

    holds()


def test_bad_examples_are_refused_with_their_reason(make_client, server_url):
    client = make_client(server_url)

    def holds(row: tuple[str, BadExample]) -> None:
        name, bad = row
        operator = {"type": name, "desc": bad.desc}
        with pytest.raises(opwire.ContractViolation) as refused:
            client.execute(operator, {}, feature_level=bad.level)
        assert (bad.code, f"/operator/desc{bad.pointer}") in [(at.code, at.pointer) for at in refused.value.violations]
        assert refused.value.status == 422
        assert refused.value.request_id
        with pytest.raises(opwire.ContractViolation) as offline:
            opwire.check(operator, bad.level, pointer="/operator")
        assert refused.value.violations == offline.value.violations

    check_all(BAD_ROWS, holds)


POOLINGS = [
    ({"window": 0}, Code.NOT_COMPUTABLE, "WindowSize/0"),
    ({"window": 2, "dilations": -1}, Code.OUT_OF_RANGE, "Dilations/0"),
    ({"window": 2, "start_padding": [0]}, Code.COUNT_MISMATCH, "StartPadding"),
    ({"window": (2, 2, 2)}, Code.COUNT_MISMATCH, "Strides"),
    ({"window": 2, "index_type": "INT8"}, Code.DATA_TYPE_NOT_IN_LEVEL, "OutputIndicesTensor/DataType"),
    ({"window": 2, "operator": "MAX_POOLING"}, Code.UNKNOWN_FIELD, "OutputIndicesTensor"),
]


@pytest.mark.parametrize(("arguments", "code", "place"), POOLINGS, ids=[str(row[0]) for row in POOLINGS])
def test_a_bad_pooling_is_refused_with_exactly_its_fault(make_client, server_url, arguments, code, place):
    x = np.zeros((1, 1, 4, 4), np.float32)
    with pytest.raises(opwire.ContractViolation) as refused:
        make_client(server_url).max_pooling(x, indices=True, **arguments)
    found = [(violation.code, violation.pointer) for violation in refused.value.violations]
    assert (code, f"/operator/desc/{place}") in found
    assert {kind for kind, _ in found} == {code}


REFUSALS = [
    (np.zeros((2, 2), np.float64), 0, Code.DATA_TYPE_NOT_IN_LEVEL),
    (np.zeros((2, 2), np.float32), 2, Code.AXIS_OUT_OF_RANGE),
    (np.zeros((2, 0), np.float32), 0, Code.OUT_OF_RANGE),
    (np.zeros((), np.float32), (), Code.OUT_OF_RANGE),
    (np.zeros((1,) * 9, np.float32), 0, Code.OUT_OF_RANGE),
]


@pytest.mark.parametrize(("x", "axes", "code"), REFUSALS, ids=[row[2].value for row in REFUSALS])
def test_tensors_that_directml_rejects_are_refused_by_the_server(make_client, server_url, x, axes, code):
    with pytest.raises(opwire.ContractViolation) as refused:
        make_client(server_url).sum(x, axes)
    assert code in [violation.code for violation in refused.value.violations]


def test_a_level_refuses_later_operators(make_client, server_url):
    client = make_client(server_url, feature_level="2_1")
    with pytest.raises(opwire.ContractViolation) as refused:
        client.argmax(X, 1)
    (violation,) = refused.value.violations
    assert (violation.code, violation.available_from) == (Code.OPERATOR_NOT_IN_LEVEL, FeatureLevel.V3_0)
    assert client.argmax(X, 1, feature_level="3_0").output.tolist() == [[1], [0]]
    assert client.with_options(feature_level=None).argmax(X, 1).feature_level is FeatureLevel.V6_4
    with pytest.raises(opwire.ContractViolation) as refused:
        client.argmax(X, 1, feature_level="7_0")
    assert [(at.code, at.pointer) for at in refused.value.violations] == [
        (Code.UNKNOWN_FEATURE_LEVEL, "/feature_level")
    ]


@encodings
def test_execute_many_returns_an_outcome_per_call(make_client, server_url, encoding):
    client = make_client(server_url, encoding=encoding)
    image = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    outcomes = client.execute_many(
        [
            prepare.sum(X, 1),
            prepare.argmax(X, 5),
            prepare.max_pooling(image, 2, strides=2, indices=True),
            prepare.argmax(X, 1, feature_level="2_0"),
            prepare.execute({"type": "REDUCE", "desc": {"Function": "MIN", "Axes": [0]}}, X),
            prepare.argmin(X, 0, output_type="INT64"),
        ]
    )
    total, no_axis, pooled, too_early, no_tensor, least = outcomes
    assert total.output.tolist() == [[8], [17]]
    assert (pooled.output.tolist(), pooled.indices.tolist()) == ([[[[5, 7], [13, 15]]]], [[[[5, 7], [13, 15]]]])
    assert (least.output.dtype, least.output.tolist()) == (np.int64, [[0, 1, 0]])
    for i, refused, code in (
        (1, no_axis, Code.AXIS_OUT_OF_RANGE),
        (3, too_early, Code.OPERATOR_NOT_IN_LEVEL),
        (4, no_tensor, Code.MISSING_FIELD),
    ):
        assert isinstance(refused, opwire.ContractViolation)
        (violation,) = refused.violations
        assert violation.code is code
        assert violation.pointer.startswith(f"/requests/{i}/operator")
    assert client.execute_many([]) == []


def test_server_and_library_validate_alike(make_client, server_url):
    client = make_client(server_url)

    def holds(row: tuple[str, BadExample]) -> None:
        name, bad = row
        operator = {"type": name, "desc": bad.desc}
        found = client.validate(operator, bad.level)
        assert found.valid is (bad.code is Code.NOT_COMPUTABLE)
        assert found == opwire.validate(operator, bad.level, pointer="/operator")

    check_all(BAD_ROWS, holds)


def test_server_and_library_derive_the_same_outputs(make_client, server_url):
    client = make_client(server_url)

    def holds(row: Row) -> None:
        found = client.validate(row.request)
        assert found.valid
        assert found == opwire.validate(row.request)
        outputs = by_tensor(row.operator, row.example.outputs)
        sizes = {name: np.shape(value) for name, value in outputs.items()}
        assert {name: desc.sizes for name, desc in found.outputs.items()} == sizes

    check_all(ROWS, holds)


def test_a_server_describes_itself(make_client, server_url):
    client = make_client(server_url)
    client.wait_ready(timeout=5)
    assert client.ready() is True
    server = client.server()
    assert (server["name"], server["ready"], server["default_device"]) == ("opwire", True, "cpu")
    assert server["feature_levels"] == [str(level) for level in FeatureLevel]
    assert "reference" in [device["name"] for device in server["devices"]]
    assert set(server["encodings"]) == {encoding.value for encoding in Encoding}
    assert server["limits"]["body_bytes"] > 0


def test_a_server_describes_its_operators(make_client, server_url):
    client = make_client(server_url)
    listed = client.operators()
    assert len(listed) == COUNT
    assert {row["type"] for row in listed if row["executable"]} == {f"DML_OPERATOR_{name}" for name in EXECUTABLE}
    for name in ("ARGMAX", "DML_OPERATOR_ARGMAX"):
        found = client.operator(name)
        assert (found["type"], found["value"], len(found["fields"])) == ("DML_OPERATOR_ARGMAX", 138, 5)
    levels = client.feature_levels()
    assert [row["name"] for row in levels] == [str(level) for level in FeatureLevel]
    assert sum(len(row["introduces"]) for row in levels) == COUNT
    for name in ("NONSENSE", "A/B", "Ä"):
        with pytest.raises(errors.NotFoundError) as refused:
            client.operator(name)
        assert refused.value.code in (errors.ProblemCode.UNKNOWN_OPERATOR, errors.ProblemCode.NOT_FOUND)


def test_an_unknown_device_is_refused(make_client, server_url):
    with pytest.raises(errors.RequestError) as refused:
        make_client(server_url, device="abacus").sum(X, 0)
    assert [violation.pointer for violation in refused.value.violations] == ["/device"]


def test_results_are_read_only(make_client, server_url):
    result = make_client(server_url).sum(X, 0)
    with pytest.raises(ValueError, match="read-only"):
        result.output[...] = 0
    assert result.output.flags.aligned
    assert result.timing["total"] >= result.timing["run"] >= 0


def test_large_tensors_come_back_whole(make_client, server_url):
    client = make_client(server_url)
    x = np.random.default_rng(0).integers(0, 2**31, (200, 1000), dtype=np.int32)
    assert np.array_equal(client.max(x, ()).output, x)


def test_threads_can_share_a_client(server_url):
    with Client(server_url) as client:

        def work(seed: int) -> bool:
            x = np.random.default_rng(seed).integers(-99, 99, (8, 16), dtype=np.int32)
            mine = client.with_options(
                encoding=list(Encoding)[seed % 3], feature_level=list(FeatureLevel)[-1 - seed % 3]
            )
            results = [mine.sum(x, 1) for _ in range(10)]
            return all(
                np.array_equal(result.output, x.sum(1, keepdims=True))
                and result.feature_level is list(FeatureLevel)[-1 - seed % 3]
                for result in results
            )

        with ThreadPoolExecutor(32) as threads:
            assert all(threads.map(work, range(64)))
