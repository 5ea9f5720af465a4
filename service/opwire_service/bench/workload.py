"""Measures the rate and latency of one operator on a running server over a range of concurrency."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from opwire import Client
from opwire.describe import ServerInfo
from opwire.errors import InternalError, ProblemCode
from opwire.tensor import Array
from opwire.wire import Call, Encoding, write_call

from .load_generator import Address, LoadResult, measure, write_request

WARM_UP_SECONDS = 0.2

Report = Callable[[Sequence[LoadResult], int, float, int], None]
"""Takes the completed loads, and the connections, elapsed seconds and responses of the current one."""


@dataclass(frozen=True, slots=True)
class Workload:
    """ARGMAX over a float32 tensor.

    Attributes:
        sizes: sizes of the tensor.
        axis: axis to reduce.
        encoding: encoding of the tensor and of the result.
        device: name of the device, or None for the server's default.
    """

    sizes: tuple[int, ...]
    axis: int
    encoding: Literal["base64", "binary"]
    device: str | None

    def tensor(self) -> tuple[Array, Array]:
        """Returns a tensor of noise below 1 with a 2 as the maximum of each line, and the indices of the maxima."""
        random = np.random.default_rng(0)
        reduced = tuple(1 if i == self.axis else size for i, size in enumerate(self.sizes))
        winners = random.integers(0, self.sizes[self.axis], reduced)
        tensor = random.random(self.sizes, np.float32)
        np.put_along_axis(tensor, winners, np.float32(2), self.axis)
        return tensor, winners

    def request(self, url: str, tensor: Array, api_key: str | None) -> bytes:
        """Returns the HTTP request with this tensor as bytes."""
        operator = {
            "type": "DML_OPERATOR_ARGMAX",
            "desc": {
                "InputTensor": {"DataType": "FLOAT32", "Sizes": list(self.sizes)},
                "AxisCount": 1,
                "Axes": [self.axis],
                "AxisDirection": "DML_AXIS_DIRECTION_INCREASING",
            },
        }
        options = {} if self.device is None else {"device": self.device}
        call = Call(operator, {"InputTensor": tensor}, options=options)
        headers, chunks = write_call(call, Encoding(self.encoding))
        if api_key is not None:
            headers["Authorization"] = f"Bearer {api_key}"
        return write_request(f"{url}/v1/execute", headers, b"".join(chunks))


@dataclass(frozen=True, slots=True)
class Bench:
    """A measurement of a server.

    Attributes:
        url: URL of the server.
        server: the server's description of itself.
        workload: the workload.
        request_bytes: size of one request, including its head.
        loads: one result per number of connections.
    """

    url: str
    server: ServerInfo
    workload: Workload
    request_bytes: int
    loads: Sequence[LoadResult]


def bench(
    url: str,
    workload: Workload,
    connections: Sequence[int],
    seconds: float,
    api_key: str | None = None,
    report: Report | None = None,
) -> Bench:
    """Verifies one result of a server, then loads it with each number of connections in turn.

    Raises:
        OpwireError: the server is unreachable, refuses the request, or returns a wrong result.
        OSError: a connection cannot be opened.
    """
    address = Address.of(url)
    tensor, winners = workload.tensor()
    with Client(url, api_key=api_key, encoding=workload.encoding, device=workload.device) as client:
        server = client.server()
        answer = client.argmax(tensor, axes=[workload.axis]).output
    if not np.array_equal(answer, winners):
        raise InternalError(ProblemCode.INTERNAL_ERROR, f"{url} returned a wrong ARGMAX of {list(workload.sizes)}")
    request = workload.request(url, tensor, api_key)
    loads: list[LoadResult] = []
    measure(address, lambda: request, connections[0], WARM_UP_SECONDS)
    for count in connections:
        progress = None if report is None else partial(report, loads, count)
        loads.append(measure(address, lambda: request, count, seconds, progress))
    return Bench(url, server, workload, len(request), loads)
