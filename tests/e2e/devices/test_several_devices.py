"""Several devices behind one address, with fake GPUs: placement, admission, reporting and failure."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.gpu.counting_gpu import BREAKS, COUNT, MEMORY, WAITS
from tests.support.http import bodies, problems
from tests.support.http.processes import process, until
from tests.support.http.sockets import connect
from tests.support.paths import ROOT

pytestmark = pytest.mark.timeout(300)

SERVER = "tests.support.gpu.server"
MIB = 2**20


def served(*arguments: str, env: Mapping[str, str] | None = None) -> Any:
    return process(*arguments, env=env, module=SERVER)


def operator(size: int) -> dict[str, Any]:
    source = {"DataType": "FLOAT32", "Sizes": [size]}
    return {"type": "REDUCE", "desc": {"Function": "SUM", "InputTensor": source, "Axes": [0]}}


def a_sum(size: int, first: float, **options: Any) -> tuple[dict[str, str], bytes]:
    """Returns headers and body of a binary request for the sum of ``first`` and ones."""
    data = np.ones(size, np.float32)
    data[0] = first
    request = {"operator": operator(size), "inputs": {"InputTensor": {"binary_data_size": data.nbytes}}, **options}
    head = json.dumps({"output_format": "numbers", **request}).encode()
    body = head + data.tobytes()
    headers = {"content-type": bodies.BINARY, "inference-header-content-length": str(len(head))}
    return {**headers, "content-length": str(len(body))}, body


def execute(http: httpx.Client, size: int, first: float = 1.0, **options: Any) -> httpx.Response:
    headers, body = a_sum(size, first, **options)
    return http.post("/v1/execute", content=body, headers=headers)


def reduce_repeated(http: httpx.Client, size: int) -> str:
    """Returns the device that reduces one element, repeated: much work for few bytes."""
    source = {"DataType": "FLOAT32", "Sizes": [size], "Strides": [0]}
    desc = {"type": "REDUCE", "desc": {"Function": "MAX", "InputTensor": source, "Axes": [0]}}
    return str(
        http.post("/v1/execute", json={"operator": desc, "inputs": {"InputTensor": "AAAAAA=="}}).json()["device"]
    )


def execute_alone(url: str, size: int, first: float = 1.0, **options: Any) -> int:
    """Returns the status of a request on its own connection; 0 if it could not connect or broke."""
    try:
        with httpx.Client(base_url=url, timeout=30) as client:
            return execute(client, size, first, **options).status_code
    except httpx.TransportError:
        return 0


def samples(http: httpx.Client) -> dict[str, float]:
    return {
        f"{sample.name} {sample.labels['device']}": sample.value
        for family in text_string_to_metric_families(http.get("/metrics").text)
        for sample in family.samples
        if "device" in sample.labels
    }


def read_problem(response: httpx.Response, status: int, sent: object = None) -> Mapping[str, Any]:
    return problems.read_problem(status, response.headers, response.content, sent)


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    """A server with the CPU, the reference, and three GPUs with 8 MiB each."""
    devices = ("--device", "auto", "--device", "reference", "--device", "cuda:1")
    env = {COUNT: "3", MEMORY: str(8 * MIB)}
    with served(*devices, env=env) as found, httpx.Client(base_url=found.url, timeout=30) as client:
        yield client


def test_auto_selects_all_cards_and_the_cpu(http):
    info = http.get("/v1/server").json()
    assert [device["name"] for device in info["devices"]] == ["cuda", "cuda:1", "cuda:2", "cpu", "reference"]
    assert info["default_device"] == "auto"


def test_small_work_stays_on_the_cpu_and_large_work_goes_to_the_cards(http):
    execute(http, 2**18, device="cpu")  # loads its kernels
    assert {execute(http, 3).json()["device"] for _ in range(20)} == {"cpu"}
    assert reduce_repeated(http, 2**24) == "cuda"  # a CPU is expected to take milliseconds


def test_runs_on_a_card_are_counted(http):
    before = samples(http)["opwire_device_kernels cuda:1"]
    for _ in range(3):
        execute(http, 2**18, device="cuda:1")
    assert samples(http)["opwire_device_kernels cuda:1"] == before + 3  # the fake reports its runs as kernels


@pytest.mark.parametrize("name", ["cuda", "cuda:1", "cuda:2", "cpu", "reference"])
def test_a_request_runs_on_the_device_it_names(http, name):
    for size in (3, 2**16):
        answer = execute(http, size, device=name).json()
        assert answer["device"] == name
        assert answer["outputs"]["OutputTensor"]["data"] == [size]


@pytest.mark.parametrize("damage", ["", "*", "=", "\x00"])
def test_long_base64_is_decoded_by_the_card(http, damage):
    data = np.random.default_rng(1).integers(-9, 9, 2**17).astype(np.float32)
    text = base64.b64encode(data.tobytes()).decode()
    if damage:
        text = text[:600_000] + damage + text[600_001:]
    request = {"operator": operator(2**17), "inputs": {"InputTensor": text}, "device": "cuda"}
    response = http.post("/v1/execute", json={**request, "output_format": "numbers"})
    if damage:
        problem = read_problem(response, 400, request)
        assert problem["code"] == "invalid_base64"
        assert [violation["pointer"] for violation in problem["violations"]] == ["/inputs/InputTensor"]
    else:
        assert response.json()["outputs"]["OutputTensor"]["data"] == [data.sum()]


def test_tensors_too_large_for_a_card_are_refused_with_size_and_limit(http):
    problem = read_problem(execute(http, 3 * 2**20, device="cuda"), 413)
    assert problem["code"] == "tensor_too_large"
    assert (problem["limit"], problem["size"]) == (8 * MIB, 12 * MIB + 4)
    # It fits elsewhere if no device is named.
    assert execute(http, 3 * 2**20).json()["device"] == "cpu"


def test_a_request_that_does_not_fit_now_can_be_retried(http):
    headers, body = a_sum(2**20, WAITS, device="cuda:1")
    lines = ["POST /v1/execute HTTP/1.1", "host: a", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    with connect(str(http.base_url)) as holding:
        holding.sendall("\r\n".join(lines).encode() + body)
        until(lambda: samples(http)["opwire_device_memory_bytes cuda:1"] > 4 * MIB)
        refusal = execute(http, 2**20 + 2**18, device="cuda:1")
        problem = read_problem(refusal, 429)
        assert problem["code"] == "memory_full"
        assert (problem["limit"], problem["size"]) == (8 * MIB, 5 * MIB + 4)
        assert refusal.headers["retry-after"] == "1"
        assert execute(http, 2**20 + 2**18).json()["device"] != "cuda:1"
    until(lambda: samples(http)["opwire_device_memory_bytes cuda:1"] == 0)
    assert execute(http, 2**20 + 2**18, device="cuda:1").status_code == 200


def test_each_device_reports_its_state(http):
    execute(http, 2**18, device="cpu")  # loads its kernels
    found = samples(http)
    assert found["opwire_device_memory_limit_bytes cuda:2"] == 8 * MIB
    assert found["opwire_device_memory_limit_bytes cpu"] == 0
    assert found["opwire_running_operators_limit cuda:2"] == 4
    devices = {device["name"]: device for device in http.get("/v1/server").json()["devices"]}
    card, cpu = devices["cuda:2"], devices["cpu"]
    assert card["memory"] == {"used": 0, "limit": 8 * MIB}
    assert (card["queued"], card["running"], card["places"], card["broken"]) == (0, 0, 4, None)
    assert card["card"] == "a fake"
    assert cpu["memory"] is None
    assert cpu["kernels"] > 0
    assert cpu["processor"]


def test_the_memory_of_a_card_is_divided_among_the_workers():
    with served("--device", "cuda", "--workers", "2", env={MEMORY: str(8 * MIB)}) as found:
        (card,) = httpx.get(f"{found.url}/v1/server").json()["devices"]
    assert card["memory"]["limit"] == 4 * MIB


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.thorough), 2])
def test_a_process_with_a_failed_card_is_replaced(workers):
    with served("--device", "cuda", "--device", "cpu", "--workers", str(workers)) as found:
        with httpx.Client(base_url=found.url, timeout=30) as client:
            problem = read_problem(execute(client, 4, BREAKS, device="cuda"), 503)
            assert (problem["code"], problem["retry_after"]) == ("not_ready", 1)
        until(lambda: any("replacing it" in line for line in found.lines))
        assert any("an illegal memory access was encountered; stopping this process" in line for line in found.lines)
        assert any("exited with code 3" in line for line in found.lines)

        def answers() -> bool:
            return {execute_alone(found.url, 4, device="cuda") for _ in range(4)} == {200}

        until(answers)
        found.process.terminate()
        assert found.finish() == 0


def test_a_failed_card_drains_the_process():
    with served("--device", "cuda", "--device", "cpu", "--drain-seconds", "20") as found:
        outcomes: list[int] = []

        def wait() -> None:
            outcomes.append(execute_alone(found.url, 2**16, WAITS, device="cuda", timeout_ms=2000))

        with (
            httpx.Client(base_url=found.url, timeout=30) as kept,
            httpx.Client(base_url=found.url, timeout=30) as watching,
        ):
            waiting = threading.Thread(target=wait)
            waiting.start()
            assert watching.get("/readyz").status_code == 200
            until(lambda: samples(kept)["opwire_running_operators cuda"] == 1)
            assert execute(kept, 4, BREAKS, device="cuda").status_code == 503
            problem = read_problem(watching.get("/readyz"), 503)
            assert problem["code"] == "draining"
            assert read_problem(execute(kept, 4), 503)["code"] == "draining"
            waiting.join()
        # The running request kept its own deadline.
        assert outcomes == [504]
        found.process.terminate()
        assert found.finish() == 0


def run(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **env},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


IMPORTS = """
import sys
import opwire_service.cli.app, opwire_service.process.server, opwire_service.process.supervisor
from opwire_service.process.application import create_app
from opwire_service.settings import Settings
create_app(Settings())
print(sorted({name.partition('.')[0] for name in sys.modules} & {'cupy', 'cupyx', 'cupy_backends', 'cuda', 'torch'}))
print('opwire_service.devices.cuda.device' in sys.modules)
"""


def test_cuda_libraries_are_imported_only_for_cards():
    done = run(IMPORTS)
    assert done.stdout.split("\n")[:2] == ["[]", "False"], done.stderr


DEVICE_OPTION = "opwire: '--device' (env var: 'OPWIRE_DEVICE'): "


@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_a_missing_card_is_a_one_line_error(name):
    code = (
        f"import sys; sys.modules['cupy'] = None; sys.argv = ['opwire', 'serve', '--port', '0', '--device', {name!r}]"
    )
    done = run(f"{code}; from opwire_service.__main__ import main; main()")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{DEVICE_OPTION}the cuda device needs CuPy, which cannot be imported: ")


def test_an_index_beyond_the_last_card_is_a_one_line_error():
    command = [sys.executable, "-m", SERVER, "serve", "--port", "0", "--device", "cuda:7"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    message = f"{DEVICE_OPTION}there is no device cuda:7: this machine has 1 cuda device\n"
    assert (done.returncode, done.stderr) == (2, message)


def test_auto_without_a_card_selects_the_cpu():
    with served("--device", "auto", env={COUNT: "-1"}) as found:
        info = httpx.get(f"{found.url}/v1/server").json()
        assert [device["name"] for device in info["devices"]] == ["cpu"]
        assert info["default_device"] == "cpu"
        assert any(line.rstrip().endswith("devices: cpu") for line in found.lines)


STATE = {"DataType": "UINT32", "Sizes": [1, 1, 1, 6]}
RANDOM = {
    "type": "RANDOM_GENERATOR",
    "desc": {
        "InputStateTensor": STATE,
        "OutputTensor": {"DataType": "UINT32", "Sizes": [1, 1, 1, 4]},
        "Type": "PHILOX_4X32_10",
    },
}
"""An operator that GPUs do not execute."""

OUTPUT_FOR_ZEROS = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
"""Philox's output for a state of zeros, from its authors' known answers."""


def test_operators_without_a_gpu_kernel_run_only_on_the_cpu(http):
    inputs = {"InputStateTensor": {"data": [[[[0] * 6]]]}}
    request = {"operator": RANDOM, "inputs": inputs, "output_format": "numbers"}
    answer = http.post("/v1/execute", json=request).json()
    assert (answer["device"], answer["outputs"]["OutputTensor"]["data"]) == ("cpu", [[[OUTPUT_FOR_ZEROS]]])
    problem = read_problem(http.post("/v1/execute", json={**request, "device": "cuda:1"}), 422)
    assert problem["code"] == "operator_not_executable"
    assert problem["operator"] == "RANDOM_GENERATOR"
    assert problem["devices"] == ["cpu", "reference"]
    assert http.post("/v1/validate", json={"operator": RANDOM}).json()["valid"] is True


def test_a_model_goes_where_its_operators_run(http):
    zeros = {"initialValuesDataType": "UINT32", "initialValues": {"value": 0, "valueCount": 6}}
    model = {
        "resources": {"state": zeros, "random": {**zeros, "initialValues": {"value": 0, "valueCount": 4}}},
        "dispatchables": {"philox": RANDOM},
        "commands": [
            {
                "type": "dispatch",
                "dispatchable": "philox",
                "bindings": {"InputStateTensor": "state", "OutputTensor": "random"},
            },
            {"type": "print", "resource": "random"},
        ],
    }
    request = {"model": model, "output_format": "numbers"}
    answer = http.post("/v1/execute", json=request).json()
    assert (answer["device"], answer["outputs"]["random"]["data"]) == ("cpu", OUTPUT_FOR_ZEROS)
    problem = read_problem(http.post("/v1/execute", json={**request, "device": "cuda:1"}), 422)
    assert problem["code"] == "operator_not_executable"
    assert problem["devices"] == ["cpu", "reference"]
