"""The client without a server: its results are right, and its errors are those of a server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from functools import partial
from typing import Any

import numpy as np
import pytest

import opwire
from opwire import Client, Graph, LocalClient, prepare
from opwire.client.options import EffectiveOptions
from opwire.wire import request_of
from opwire_service.offline.engine import OfflineEngine, shared
from opwire_service.offline.session import OfflineSession
from tests.support.examples import ROWS, VARIED, assert_right, check_all, tensors

X = np.array([[1, 5, 2], [7, 3, 7]], np.float32)


@pytest.fixture(scope="module")
def local() -> Iterator[LocalClient]:
    with opwire.local() as client:
        yield client


def test_all_examples_are_right(local):
    calls = [prepare.execute(row.request, tensors(row), feature_level=row.example.level) for row in ROWS]
    results = dict(zip(map(str, ROWS), local.execute_many(calls), strict=True))
    check_all(ROWS, lambda row: assert_right(results[str(row)], row.example.outputs))


def test_the_reference_gives_the_same(local):
    rows = [row for row in ROWS if str(row) in VARIED]
    reference = local.with_options(device="reference")

    def check(row: Any) -> None:
        result = reference.execute(row.request, tensors(row), feature_level=row.example.level)
        assert result.device == "reference"
        assert_right(result, row.example.outputs)

    check_all(rows, check)


def test_methods_return_results(local):
    result = local.argmax(X, axes=1)
    assert result.output.tolist() == [[1], [0]]
    assert (result.device, result.request_id, result.feature_level) == ("cpu", "", opwire.FeatureLevel.V6_4)
    assert 0 <= result.timing["run"] <= result.timing["total"]
    assert "request" not in repr(result)
    pooled = local.max_pooling(X.reshape(1, 1, 2, 3), 2, indices=True)
    assert (pooled.output.tolist(), pooled.indices.tolist()) == ([[[[7, 7]]]], [[[[3, 5]]]])


@pytest.mark.parametrize("form", [np.asfortranarray, lambda x: x.astype(">f4"), lambda x: x[::-1][::-1]])
def test_any_memory_layout_is_taken(local, form):
    assert local.argmax(form(X), axes=1).output.tolist() == [[1], [0]]


def test_outputs_are_the_callers_own(local):
    first, second = (local.element_wise_identity(X).output for _ in range(2))
    first[...] = 0
    assert second.tolist() == X.tolist()
    assert local.element_wise_identity(X).output.tolist() == X.tolist()


def test_graphs_run(local):
    graph = Graph()
    x = graph.input("x", "FLOAT32", [1, 1, 2, 3])
    graph.output("y", graph.activation_relu(graph.gemm(x, np.array([[[[1, -1], [1, 0], [0, 1]]]], np.float32))))
    result = local.execute(graph, {"x": X.reshape(1, 1, 2, 3)})
    assert result.outputs["y"].tolist() == [[[[6, 1], [10, 0]]]]


REFUSED: dict[str, Callable[[Any], object]] = {
    "an axis": lambda client: client.argmax(X, axes=[2]),
    "a level": lambda client: client.argmax(X, axes=1, feature_level="9_9"),
    "a level before the rank": lambda client: client.argmax(X, axes=1, feature_level="2_1"),
    "strict": lambda client: client.gather(X, np.zeros((1, 1), np.uint32), axis=5, index_dimensions=1, strict=True),
    "a priority": lambda client: client.argmax(X, axes=1, priority=10),
    "an operator": lambda client: client.execute({"type": "NONSENSE", "desc": {}}, {}),
    "a type": lambda client: client.execute({"type": 5}, {}),
    "missing inputs": lambda client: client.execute(ROWS[0].request, {}),
    "unknown inputs": lambda client: client.execute(ROWS[0].request, {**tensors(ROWS[0]), "Other": X}),
    "a member": lambda client: client.execute({**ROWS[0].request, "more": {1: 2}}, tensors(ROWS[0])),
    "bytes": lambda client: client.execute({"type": "ARGMAX", "desc": {}}, {"InputTensor": b"123"}),
    "a node": lambda client: client.execute({"nodes": {"a": {"type": "X"}}, "outputs": {}}, {}),
    "a graph": lambda client: client.execute({"nodes": 5, "outputs": {}}, {"x": X}),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_errors_are_those_of_a_server(local, server_url, call):
    with Client(server_url) as client, pytest.raises(opwire.OpwireError) as expected:
        call(client)
    with pytest.raises(opwire.OpwireError) as caught:
        call(local)
    assert type(caught.value) is type(expected.value)
    assert str(caught.value) == str(expected.value)
    assert caught.value.violations == expected.value.violations


def test_a_batch_has_an_outcome_for_each_call(local):
    right, wrong = local.execute_many([prepare.argmax(X, axes=1), prepare.argmax(X, axes=2)])
    assert right.output.tolist() == [[1], [0]]
    assert isinstance(wrong, opwire.ContractViolation)


def small_graph() -> Graph:
    """Returns a graph that adds a constant and keeps the positive numbers."""
    graph = Graph()
    added = graph.element_wise_add(graph.input("x", "FLOAT32", [2, 3]), np.full((2, 3), -4, np.float32))
    graph.output("y", graph.activation_relu(added))
    return graph


def test_registered_graphs_run_by_name(server_url):
    graph = small_graph()
    with opwire.local() as client:
        info = client.register_graph("small", graph)
        with Client(server_url) as other:
            assert info == other.register_graph("small", graph)
            assert client.registered_graphs() == [info]
            assert client.registered_graph("small") == other.registered_graph("small")
            other.delete_graph("small")
        for _ in range(2):
            assert client.execute("small", {"x": X}).outputs["y"].tolist() == [[0, 1, 0], [3, 0, 3]]
        assert client.with_options(device="reference").execute("small", {"x": X}).device == "reference"
        with pytest.raises(opwire.ContractViolation) as caught:
            client.execute("small", {"x": X}, feature_level="1_0")
        assert {violation.pointer for violation in caught.value.violations} == {"/graph"}
        assert opwire.local().registered_graphs() == []
        client.delete_graph("small")
        for call in (client.registered_graph, client.delete_graph, lambda name: client.execute(name, {"x": X})):
            with pytest.raises(opwire.NotFoundError, match='no graph "small" is registered with this client'):
                call("small")


SQUARE = np.ones((64, 64), np.float32)


def product_with(weights: Any) -> Graph:
    """A graph of two steps, the first of which reads nothing but a constant."""
    graph = Graph()
    twice = graph.element_wise_add(weights, weights)
    graph.gemm(graph.input("x", "FLOAT32", SQUARE.shape), twice)
    return graph


def product(value: int) -> list[list[float]]:
    found: list[list[float]] = (128 * value * SQUARE).tolist()
    return found


@pytest.mark.parametrize("read_only", [False, True])
def test_constants_of_registered_graphs_do_not_change(read_only):
    weights = 2 * SQUARE
    with opwire.local() as client:
        client.register_graph("product", product_with(np.broadcast_to(weights, SQUARE.shape) if read_only else weights))
        for _ in range(3):
            weights[...] = 0
            assert client.execute("product", {"x": SQUARE}).output.tolist() == product(2)


@pytest.mark.parametrize("read_only", [False, True])
def test_constants_of_other_graphs_are_read_in_each_call(read_only):
    weights = 0 * SQUARE
    graph = product_with(np.broadcast_to(weights, SQUARE.shape) if read_only else weights)
    with opwire.local() as client:
        for value in range(4):
            weights[...] = value
            assert client.execute(graph, {"x": SQUARE}).output.tolist() == product(value)


def found(validation: opwire.Validation) -> tuple[object, ...]:
    return validation.violations, validation.warnings, validation.minimum_feature_level, validation.outputs


VALIDATED: dict[str, Callable[[Any], opwire.Validation]] = {
    "an operator": lambda client: client.validate(ROWS[0].request, "1_0"),
    "a valid one": lambda client: client.validate(ROWS[0].request),
    "a graph": lambda client: client.validate(small_graph()),
    "a graph as JSON": lambda client: client.validate(small_graph().to_json(), "1_0"),
    "no operator": lambda client: client.validate({"type": 5}),
    "options": lambda client: client.with_options(feature_level="1_0", strict=True).validate(ROWS[0].request),
}


@pytest.mark.parametrize("call", VALIDATED.values(), ids=VALIDATED)
def test_validation_is_that_of_a_server(local, server_url, call):
    with Client(server_url) as client:
        assert found(call(local)) == found(call(client))


def test_documents_run(local, tmp_path):
    sizes = {"DataType": "FLOAT32", "Sizes": [2, 3]}
    operator = {"type": "ARGMAX", "desc": {"InputTensor": sizes, "Axes": [1], "AxisDirection": "INCREASING"}}
    request = {"operator": operator, "inputs": {"InputTensor": {"data": X.tolist()}}, "device": "reference"}
    result = local.run(request)
    assert (result.output.tolist(), result.device) == ([[1], [0]], "reference")
    for path in (tmp_path / "request.json", str(tmp_path / "request.json")):
        (tmp_path / "request.json").write_text(json.dumps(request))
        result = local.run(path, device="cpu")
        assert (result.output.tolist(), result.device) == ([[1], [0]], "cpu")
    with pytest.raises(opwire.ContractViolation, match="ARGMAX requires DML_FEATURE_LEVEL_3_0"):
        local.with_options(feature_level="2_1").run(request)
    with pytest.raises(opwire.ContractViolation, match="InputTensor is required and missing"):
        local.run(operator)
    with pytest.raises(opwire.RequestError, match="a DxDispatch model, which has no result"):
        local.run({"resources": {}, "dispatchables": {}, "commands": []})
    with pytest.raises(FileNotFoundError):
        local.run(tmp_path / "missing.json")


def test_a_registered_graph_is_validated_by_its_name(server_url):
    with opwire.local() as client, Client(server_url) as other:
        for each in (client, other):
            each.register_graph("validated", small_graph())
        for level in (None, "1_0"):
            assert found(client.validate("validated", level)) == found(other.validate("validated", level))
        other.delete_graph("validated")


def test_unknown_devices_are_refused():
    with pytest.raises(
        opwire.RequestError, match='"nonsense" given; the devices are auto, reference, cpu, cuda'
    ) as caught:
        opwire.local("nonsense")
    assert [violation.pointer for violation in caught.value.violations] == ["/device"]
    with opwire.local() as client, pytest.raises(opwire.RequestError, match='"nonsense" given'):
        client.argmax(X, axes=1, device="nonsense")


def test_threads_share_a_client(local):
    rng = np.random.default_rng(1)
    given = [rng.standard_normal((1, 1, 1 + i % 7, 16), np.float32) for i in range(200)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda x: local.argmax(x, axes=3).output, given))
    for x, output in zip(given, found, strict=True):
        assert output[..., 0].tolist() == x.argmax(3).tolist()


def test_a_closed_client_is_refused():
    with opwire.local() as client:
        other = client.with_options(device="reference")
        other.close()
        assert client.argmax(X, axes=1).output.tolist() == [[1], [0]]
    for closed in (client, other):
        with pytest.raises(RuntimeError, match="the client is closed"):
            closed.argmax(X, axes=1)
    assert opwire.local().argmax(X, axes=1).output.tolist() == [[1], [0]]


def test_the_time_of_a_call_is_limited(local):
    x = np.ones((1, 1, 512, 512), np.float32)
    with pytest.raises(opwire.DeadlineExceededError) as caught:
        local.gemm(x, x, device="reference", timeout=0.001)
    assert caught.value.stage == "run"


def test_closing_waits_for_running_calls():
    client = opwire.local("reference")
    x = np.ones((1, 1, 64, 64), np.float32)
    with ThreadPoolExecutor(4) as threads:
        running = [threads.submit(client.gemm, x, x) for _ in range(8)]
        wait(running, return_when=FIRST_COMPLETED)
        client.close()
        ended = [each.done() for each in running]
    errors = [each.exception() for each in running]
    assert any(error is None for error in errors)
    for error, was_done in zip(errors, ended, strict=True):
        assert was_done or isinstance(error, RuntimeError)


def limited(memory_bytes: int) -> LocalClient:
    """Returns a client whose engine has little memory, and devices of its own."""
    return LocalClient(OfflineSession(OfflineEngine(memory_bytes)), EffectiveOptions(timeout=None, device="reference"))


def test_memory_is_bounded_before_it_is_allocated():
    client = limited(8 << 20)
    desc = {"DataType": "UINT64", "Sizes": [1 << 16, 1 << 15], "Strides": [0, 0]}
    huge = {"type": "ELEMENT_WISE_IDENTITY", "desc": {"InputTensor": desc}}
    with pytest.raises(
        opwire.LimitExceededError, match="bytes for the outputs and for computing them; this machine has 8388608"
    ) as caught:
        client.execute(huge, {"InputTensor": np.zeros(1, np.uint64)})
    assert (caught.value.limit, caught.value.code) == (8 << 20, opwire.ProblemCode.TENSOR_TOO_LARGE)
    assert client.argmax(X, axes=1).output.tolist() == [[1], [0]]


FORKED = """
import os, threading
import numpy as np, opwire
x = np.arange(2**20, dtype=np.float32).reshape(1, 1, 1024, 1024)
client = opwire.local()
assert client.sum(x, axes=[3]).output.shape == (1, 1, 1024, 1)
child = os.fork()
right = client.sum(x, axes=[2, 3]).output.item() == float(np.float32(x.sum(dtype=np.float64)))
if child == 0:
    os._exit(0 if right else 1)
assert right and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_client_works_in_a_forked_process():
    subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED], timeout=100, check=True)


WITHOUT_PAUSE = """
from statistics import median
from time import perf_counter, sleep
import numpy as np
import opwire

client, a = opwire.local(), np.eye(4, dtype=np.float32)

def seconds():
    started = perf_counter()
    client.gemm(a, a)
    return perf_counter() - started

for _ in range(20):
    seconds()
early = median(seconds() for _ in range(100))
sleep(2)
for _ in range(20):
    seconds()
print(early / median(seconds() for _ in range(100)))
"""


@pytest.mark.usefixtures("cpu_device")
def test_calls_without_a_pause_between_them_soon_use_compiled_kernels():
    found = subprocess.run(
        [sys.executable, "-c", WITHOUT_PAUSE], capture_output=True, text=True, timeout=100, check=True
    )
    assert float(found.stdout) < 2


WITHOUT_EXTRA = """
import sys
sys.modules["numba"] = None
import opwire
opwire.local()
"""


def test_without_the_service_it_is_said_what_to_install():
    done = subprocess.run([sys.executable, "-c", WITHOUT_EXTRA], capture_output=True, text=True, timeout=100)
    last = done.stderr.splitlines()[-1]
    assert (
        last == "ImportError: running operators in this process needs the package numba: pip install 'opwire[service]'"
    )


def least_microseconds(call: Callable[[], object]) -> float:
    """Returns the least time of a call, which other work on the machine does not add to."""

    def once() -> int:
        began = time.perf_counter_ns()
        call()
        return time.perf_counter_ns() - began

    return min(once() for _ in range(500)) / 1000


@pytest.mark.serial
@pytest.mark.parametrize("name", ["argmax", "element_wise_add", "gemm"])
def test_a_call_takes_little_longer_than_its_kernel(name):
    x = np.ones((1, 1, 4, 4), np.float32)
    inputs, others = ((x,), {"axes": [3]}) if name == "argmax" else ((x, x), {})
    method = partial(getattr(opwire.local(), name), *inputs, **others)
    device = shared().device("cpu")
    plan = shared().prepare(request_of(getattr(prepare, name)(*inputs, **others))).plan
    method()
    while not device.runs_inline(plan):  # its kernels are being compiled
        time.sleep(0.05)
    given = dict.fromkeys(plan.inputs, x)
    outputs = {tensor: desc.allocate()[1] for tensor, desc in plan.outputs.items()}
    kernel = partial(device.run, plan, given, outputs, lambda: False)
    rounds = [(least_microseconds(method), least_microseconds(kernel)) for _ in range(8)]
    whole, own = map(min, zip(*rounds, strict=True))
    assert whole < 100 + own
