"""What editors and type checkers know about the clients; checked by mypy and pyright, never run.

Every ignored line must be an error: both checkers report unnecessary ignores.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import opwire
from opwire import (
    AsyncClient,
    Call,
    Client,
    FeatureLevel,
    GraphTensor,
    LocalClient,
    OpwireError,
    PoolingResult,
    Result,
    Validation,
    prepare,
)
from opwire.describe import GraphInfo, LevelInfo, OperatorInfo, OperatorSummary, ServerInfo
from opwire.fields import ScaleBias

X = np.zeros((1, 1, 2, 2), np.float32)
OPERATOR: dict[str, Any] = {"type": "ARGMAX", "desc": {}}


class OwnTensor:
    """Any class with this method counts as a tensor."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[np.float32]:
        return X


def of_the_client(client: Client, wanted: bool) -> None:
    assert_type(client.argmax(X, 1), Result)
    assert_type(client.argmin(X, [0, 1], direction="DECREASING", output_type="INT64"), Result)
    assert_type(client.reduce(X, "SUM", range(2), timeout=None), Result)
    assert_type(client.sum(OwnTensor(), np.int64(1), feature_level="4_1", encoding="base64"), Result)
    assert_type(client.max_pooling(X, 2), Result)
    assert_type(client.max_pooling(X, 2, indices=False), Result)
    assert_type(client.max_pooling(X, (2, 2), indices=True, strides=2), PoolingResult)
    assert_type(client.max_pooling(X, 2, indices=wanted), Result | PoolingResult)
    assert_type(client.max_pooling(X, 2, indices=True).indices, NDArray[Any])
    assert_type(client.element_wise_add(X, OwnTensor(), timeout=3), Result)
    assert_type(client.max_pooling1(X, window_size=[2, 2], strides=2, output_indices_tensor=OPERATOR), Result)
    assert_type(client.activation_elu(X, alpha=2), Result)
    assert_type(client.relu(X, timeout=3), Result)
    assert_type(client.conv(X, X, strides=2), Result)
    assert_type(client.add(X, 2.5), Result)
    assert_type(client.max_pool(X, 2, indices=True), PoolingResult)
    assert_type(client.add(opwire.strided(X), X), Result)
    assert_type(client.sum(opwire.strided(OwnTensor()), 0), Result)
    assert_type(client.element_wise_sqrt(X, scale_bias=ScaleBias(1, 2)), Result)
    assert_type(client.execute(OPERATOR, X), Result)
    assert_type(client.execute(OPERATOR, {"InputTensor": [[1, 2]]}, priority=0, device="cpu"), Result)
    assert_type(client.execute(OPERATOR, X).output, NDArray[Any])
    assert_type(client.execute_many([prepare.sum(X, 0)]), list[Result | OpwireError])
    assert_type(client.validate(OPERATOR, FeatureLevel.V4_1), Validation)
    assert_type(client.operators(), list[OperatorSummary])
    assert_type(client.operator("ARGMAX"), OperatorInfo)
    assert_type(client.feature_levels(), list[LevelInfo])
    assert_type(client.execute("net", {"x": X}), Result)
    assert_type(client.validate("net"), Validation)
    assert_type(client.register_graph("net", opwire.Graph()), GraphInfo)
    assert_type(client.register_graph("net", {"nodes": {}}, "5_0"), GraphInfo)
    assert_type(client.registered_graphs(), list[GraphInfo])
    assert_type(client.registered_graph("net"), GraphInfo)
    assert_type(client.execute(opwire.Graph(), {"x": X}), Result)
    assert_type(client.server(), ServerInfo)
    assert_type(client.ready(), bool)
    assert_type(client.with_options(timeout=3), Client)
    with client as same:
        assert_type(same, Client)


def of_the_local_client() -> None:
    client = assert_type(opwire.local("cpu", feature_level="4_1", strict=True, timeout=3), LocalClient)
    assert_type(client.argmax(X, 1, device="reference"), Result)
    assert_type(client.gemm(X, X).output, NDArray[Any])
    assert_type(client.max_pooling(X, 2, indices=True), PoolingResult)
    assert_type(client.execute(opwire.Graph(), {"x": X}), Result)
    assert_type(client.run("request.json"), Result)
    assert_type(client.execute_many([prepare.sum(X, 0)]), list[Result | OpwireError])
    assert_type(client.validate(OPERATOR), Validation)
    assert_type(client.register_graph("net", opwire.Graph()), GraphInfo)
    assert_type(client.with_options(timeout=3), LocalClient)
    with client as same:
        assert_type(same, LocalClient)
    opwire.local(5)  # type: ignore[arg-type]
    client.conv(X)  # type: ignore[call-arg]


async def of_the_async_client(client: AsyncClient) -> None:
    assert_type(await assert_type(client.argmax(X, 1), Coroutine[Any, Any, Result]), Result)
    assert_type(await client.max_pooling(X, 2), Result)
    assert_type(await client.matmul(X, X), Result)
    assert_type(await client.element_wise_round(X, rounding_mode="HALVES_TO_NEAREST_EVEN"), Result)
    assert_type(await client.max_pooling(X, 2, indices=True), PoolingResult)
    assert_type(await client.execute(OPERATOR, X), Result)
    assert_type(await client.execute_many([prepare.sum(X, 0)]), list[Result | OpwireError])
    assert_type(await client.validate(OPERATOR), Validation)
    assert_type(await client.register_graph("net", opwire.Graph()), GraphInfo)
    assert_type(await client.registered_graphs(), list[GraphInfo])
    assert_type(await client.operators(), list[OperatorSummary])
    assert_type(await client.ready(), bool)
    assert_type(client.with_options(timeout=3), AsyncClient)
    async with client as same:
        assert_type(same, AsyncClient)


def of_a_graph(graph: opwire.Graph) -> None:
    x = assert_type(graph.input("x", "FLOAT32", [1, 8]), GraphTensor)
    assert_type(graph.element_wise_add(x, X), GraphTensor)
    assert_type(graph.activation_relu(graph.gemm(x, X)), GraphTensor)
    assert_type(graph.relu(graph.add(x, X)), GraphTensor)
    assert_type(graph.max_pooling(x, 2, indices=True)["OutputIndicesTensor"], GraphTensor)
    assert_type(graph.constant(X), GraphTensor)
    assert_type(-x.reshape(8, 1).transpose() @ X + 1, GraphTensor)
    assert_type(x < X, GraphTensor)
    graph.output("y", x)
    graph.element_wise_add(x)  # type: ignore[call-arg]
    graph.activation_elu(x, alfa=2)  # type: ignore[call-arg]
    graph.reduce(x, "MEDIAN", 0)  # type: ignore[arg-type]
    graph.output("y", X)  # type: ignore[arg-type]


def of_the_module() -> None:
    assert_type(prepare.max_pooling(X, 2, indices=True), Call)
    assert_type(prepare.element_wise_abs(X), Call)
    assert_type(opwire.check(OPERATOR, "4_1").level, FeatureLevel)
    assert_type(opwire.validate(OPERATOR).valid, bool)
    assert_type(opwire.__version__, str)


def refused(client: Client) -> None:
    client.relu(2)  # type: ignore[arg-type]
    opwire.strided([1, 2])  # type: ignore[arg-type]
    client.sum([1, 2], 0)  # type: ignore[arg-type]
    client.sum(X, 0, retries=3)  # type: ignore[call-arg]
    client.sum(X, 0, encoding="hex")  # type: ignore[arg-type]
    client.sum(X, 1.5)  # type: ignore[arg-type]
    client.reduce(X, "MEDIAN", 0)  # type: ignore[arg-type]
    client.element_wise_add(X)  # type: ignore[call-arg]
    client.activation_elu(X, alfa=2)  # type: ignore[call-arg]
    client.element_wise_round(X, rounding_mode="UP")  # type: ignore[arg-type]
    client.argmax(X, 0, direction="SIDEWAYS")  # type: ignore[arg-type]
    _ = client.max_pooling(X, 2).indices  # type: ignore[attr-defined]
    client.with_options(retries=3)  # type: ignore[call-arg]
    Client("http://h", "key")  # type: ignore[call-arg]
