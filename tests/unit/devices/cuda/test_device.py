"""The CUDA device around its kernels, on a fake card whose results the host computes."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from opwire.check import check
from opwire.graph import check_graph
from opwire.tensor import Array
from opwire_service.devices.cpu import CpuDevice
from opwire_service.devices.cuda.device import MAX_SINGLE_RESULTS, CudaDevice
from opwire_service.engine.costs import Costs, Guess
from opwire_service.engine.dispatcher import Dispatcher
from opwire_service.execution import Stopped
from tests.support.execution import never_stop
from tests.support.gpu.host_cupy import Module, Runtime, host_cupy
from tests.unit.kernels.test_chains import one_by_one_large, tensor


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[CudaDevice, Runtime]]:
    runtime = Runtime()
    monkeypatch.setenv("OPWIRE_KERNEL_CACHE", str(tmp_path))
    monkeypatch.setitem(sys.modules, "cupy", host_cupy(runtime))
    Module.undecided = None
    device = CudaDevice()
    yield device, runtime
    assert device.memory.in_use == 0
    device.close()
    assert not runtime.blocks


def chain(count: int, names: list[str]) -> dict[str, Any]:
    """Returns a chain of functions, each applied to the result of the previous one."""
    desc = {"InputTensor": tensor("FLOAT32", [count])}
    sources = ["input:x", *(f"n{i}" for i in range(len(names)))]
    nodes = {
        node: {"type": name, "desc": desc, "inputs": {"InputTensor": source}}
        for name, (source, node) in zip(names, itertools.pairwise(sources), strict=True)
    }
    return {"nodes": nodes, "outputs": {"y": sources[-1]}}


def run(device: CudaDevice, graph: dict[str, Any], x: Array) -> Array:
    y = np.full_like(x, 7)
    device.run(check_graph(graph), {"x": x}, {"y": y}, never_stop)
    return y


FUNCTIONS = ["ACTIVATION_SIGMOID", "ELEMENT_WISE_TANH", "ELEMENT_WISE_EXP"] * 7


def test_intermediate_results_of_a_graph_are_correct(card, cpu_device: CpuDevice):
    """Three chains, whose results the host writes where the next one reads them."""
    device, _ = card
    x = np.random.default_rng(0).standard_normal(777).astype(np.float32)
    graph = chain(777, FUNCTIONS)
    assert run(device, graph, x).tobytes() == one_by_one_large(cpu_device, graph, x, "n20").tobytes()


def test_a_few_undecided_results_are_computed_element_by_element(card, cpu_device: CpuDevice):
    device, runtime = card
    count = 200_000
    x = np.random.default_rng(1).standard_normal(count).astype(np.float32)
    graph = chain(count, FUNCTIONS[:3])
    Module.undecided = [5, 77_777, count - 1]
    found = run(device, graph, x)
    right = one_by_one_large(cpu_device, graph, x, "n2")
    assert found[Module.undecided].tobytes() == right[Module.undecided].tobytes()
    assert runtime.copied[1] < x.nbytes + 100
    assert runtime.copied[2] < x.nbytes + 200
    Module.undecided = list(range(MAX_SINGLE_RESULTS + 1))
    assert run(device, graph, x)[: MAX_SINGLE_RESULTS + 1].tobytes() == right[: MAX_SINGLE_RESULTS + 1].tobytes()


def test_all_undecided_results_of_an_operator_come_from_the_host(card, cpu_device: CpuDevice):
    device, runtime = card
    x = np.random.default_rng(2).standard_normal(1000).astype(np.float32)
    plan = check({"type": "ELEMENT_WISE_EXP", "desc": {"InputTensor": tensor("FLOAT32", [1000])}})
    found, right = np.empty_like(x), np.empty_like(x)
    device.run(plan, {"InputTensor": x}, {"OutputTensor": found}, never_stop)
    cpu_device.run(plan, {"InputTensor": x}, {"OutputTensor": right}, never_stop)
    assert found.tobytes() == right.tobytes()
    assert runtime.copied[1] == x.nbytes


def test_certain_intermediate_results_are_not_copied(card):
    device, runtime = card
    desc = {"Function": "MAX", "InputTensor": tensor("FLOAT32", [1000]), "Axes": []}
    sources = ["input:x", *(f"n{i}" for i in range(30))]
    nodes = {
        node: {"type": "REDUCE", "desc": desc, "inputs": {"InputTensor": source}}
        for source, node in itertools.pairwise(sources)
    }
    Module.launches = 0
    run(device, {"nodes": nodes, "outputs": {"y": "n29"}}, np.ones(1000, np.float32))
    assert runtime.copied == {1: 4000, 2: 4000}
    assert Module.launches == 30


def test_a_graph_stops_between_launches(card):
    device, _ = card
    graph = chain(100, ["ACTIVATION_RELU"] * 200)
    plan = check_graph(graph)
    asked = itertools.count()
    x, y = np.zeros(100, np.float32), np.zeros(100, np.float32)
    device.run(plan, {"x": x}, {"y": y}, never_stop)  # compiles
    Module.launches = 0
    with pytest.raises(Stopped):
        device.run(plan, {"x": x}, {"y": y}, lambda: next(asked) >= 2)
    assert 0 < Module.launches < 25


@pytest.mark.parametrize("is_there", [True, False])
def test_matrix_products_need_cublas(card, is_there, monkeypatch, cpu_device: CpuDevice):
    device, _ = card
    # importing a module that is None fails
    library = SimpleNamespace() if is_there else None
    for name in ("cupy_backends", "cupy_backends.cuda", "cupy_backends.cuda.libs", "cupy_backends.cuda.libs.cublas"):
        monkeypatch.setitem(sys.modules, name, library)
    assert device.executes("GEMM") == device.executes("CONVOLUTION") == is_there
    assert device.executes("REDUCE")
    costs = Costs({"cuda": Guess(0, 0, 1e-12), "cpu": Guess(1, 0, 1e-9)})
    dispatcher = Dispatcher({"cpu": cpu_device, "cuda": device}, 2, 8, costs=costs)
    sides = {name: tensor("FLOAT32", [64, 64]) for name in ("ATensor", "BTensor")}
    plan = check({"type": "GEMM", "desc": {**sides, "TransA": "NONE", "TransB": "NONE", "Alpha": 1, "Beta": 1}})
    assert dispatcher.runs(plan, "cuda") == is_there
    with dispatcher.place(plan, "auto") as chosen:
        assert chosen == ("cuda" if is_there else "cpu")
