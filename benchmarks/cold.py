"""Measures cold starts: a server with an empty kernel cache gets each operator, function and data type twice.

Run it from the root of the repository: ``python -m benchmarks.cold``. Requests run one at a time, with a tensor of
about 3 MB in the binary tail. Each row has the times of the first and the second answer. Then follow the worst of both,
the time until the server was ready, and whether the answers for a smaller tensor match the reference bit for bit. The
exit code is 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import sys
import time
from collections.abc import Iterator
from math import prod
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.parse import urlsplit

import numpy as np

from opwire.check import Plan, check
from opwire.errors import ContractViolation
from opwire.operators.reduce import ReduceFunction
from opwire.tensor import Array, DataType
from opwire_service.devices.reference import ReferenceDevice

from .soaking.served import served

LARGE = [1, 64, 112, 112]
SMALL = [1, 8, 16, 24]
"""Large enough to use kernels, and small enough for the reference."""

READY, FIRST, SECOND = 1.5, 5.0, 0.05
"""Targets, in seconds."""

WITHIN_AN_ULP = ("LOG_SUM", "LOG_SUM_EXP")


class Case(NamedTuple):
    """An operator with a data type.

    Attributes:
        name: name of the row.
        operator: the operator without its input.
        data_type: data type of the input.
    """

    name: str
    operator: dict[str, object]
    data_type: DataType

    def plan(self, sizes: list[int]) -> Plan:
        """Returns the checked plan.

        Raises:
            ContractViolation: the operator does not support the data type.
        """
        return check(self.sent(sizes))

    def sent(self, sizes: list[int]) -> dict[str, object]:
        """Returns the operator for an input of the given sizes."""
        kind, desc = self.operator["type"], self.operator["desc"]
        assert isinstance(desc, dict)
        desc = {"InputTensor": {"DataType": self.data_type.name, "Sizes": sizes}, **desc}
        if "OutputIndicesTensor" in desc:
            halves = [*sizes[:2], *(size // 2 for size in sizes[2:])]
            desc["OutputIndicesTensor"] = {"DataType": desc["OutputIndicesTensor"], "Sizes": halves}
        return {"type": kind, "desc": desc}


def cases(axis: int) -> Iterator[Case]:
    """Yields all combinations of operator, function and data type that the contract allows."""
    for data_type in DataType:
        for name, operator in _operators(axis):
            case = Case(f"{name} {data_type.name}", operator, data_type)
            try:
                case.plan(SMALL)
            except ContractViolation:
                continue
            yield case


def _operators(axis: int) -> Iterator[tuple[str, dict[str, object]]]:
    for function in ReduceFunction:
        yield f"REDUCE {function.name}", {"type": "REDUCE", "desc": {"Function": function.name, "Axes": [axis]}}
    for name in ("ARGMIN", "ARGMAX"):
        yield name, {"type": name, "desc": {"Axes": [axis]}}
    window = {"WindowSize": [2, 2], "Strides": [2, 2], "StartPadding": [0, 0], "EndPadding": [0, 0]}
    yield "MAX_POOLING", {"type": "MAX_POOLING", "desc": window}
    yield "MAX_POOLING1", {"type": "MAX_POOLING1", "desc": {**window, "OutputIndicesTensor": "UINT32"}}
    yield "MAX_POOLING2", {"type": "MAX_POOLING2", "desc": {**window, "Dilations": [1, 1]}}


def values(case: Case, sizes: list[int]) -> Array:
    """Returns unremarkable numbers, so that most of their sums need rounding."""
    random = np.random.default_rng(prod(sizes))
    if case.data_type.is_float:
        return random.uniform(0.5, 1.5, sizes).astype(case.data_type.dtype)
    return random.integers(0, 100, sizes).astype(case.data_type.dtype)


class Connection:
    """A connection to the server."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=300)

    def execute(self, case: Case, array: Array) -> tuple[float, bytes]:
        """Returns the seconds until the answer arrived, and the bytes of all outputs."""
        request = {
            "operator": case.sent(list(array.shape)),
            "inputs": {"InputTensor": {"binary_data_size": array.nbytes}},
            "timeout_ms": 200_000,
        }
        head = json.dumps(request).encode()
        headers = {
            "Content-Type": "application/octet-stream",
            "Accept": "application/octet-stream",
            "Inference-Header-Content-Length": str(len(head)),
        }
        body = head + array.tobytes()
        started = time.perf_counter()
        self._connection.request("POST", "/v1/execute", body, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        seconds = time.perf_counter() - started
        if answer.status != 200:
            raise RuntimeError(f"{case.name}: {answer.status} {content[:500]!r}")
        return seconds, content[int(answer.headers["Inference-Header-Content-Length"]) :]


def is_right(case: Case, answer: bytes) -> bool:
    """Returns whether an answer for the small tensor equals the reference, or is within an ULP where that is enough."""
    plan, array = case.plan(SMALL), values(case, SMALL)
    made = {name: desc.allocate()[1] for name, desc in plan.outputs.items()}
    ReferenceDevice().run(plan, {"InputTensor": array}, made, lambda: False)
    if answer == b"".join(output.tobytes() for output in made.values()):
        return True
    right = next(iter(made.values())).ravel()
    if not any(name in case.name.split() for name in WITHIN_AN_ULP):
        return False
    found = np.frombuffer(answer, right.dtype)
    return bool((np.abs(found - right) <= np.spacing(np.abs(right))).all())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--axis", type=int, default=1, help="reduced axis: 1 for columns, 3 for rows")
    parser.add_argument("--only", default="", help="only rows whose names contain this")
    arguments = parser.parse_args()
    with TemporaryDirectory() as cache:
        os.environ["NUMBA_CACHE_DIR"] = cache
        started = time.perf_counter()
        with served() as server:
            ready = time.perf_counter() - started
            found = _measured(Connection(server.url), [c for c in cases(arguments.axis) if arguments.only in c.name])
    first, second = (max(found, key=lambda row: row[1 + i]) for i in range(2))
    wrong = [name for name, _, _, right in found if not right]
    print(f"ready after {ready:.2f} s (target {READY})")
    print(f"worst first answer {first[1]:.2f} s, {first[0]} (target {FIRST})")
    print(f"worst second answer {second[2] * 1e3:.0f} ms, {second[0]} (target {SECOND * 1e3:.0f})")
    print(f"wrong: {', '.join(wrong) or 'none'}")
    return int(ready > READY or first[1] > FIRST or second[2] > SECOND or bool(wrong))


def _measured(connection: Connection, rows: list[Case]) -> list[tuple[str, float, float, bool]]:
    found = []
    for case in rows:
        array = values(case, LARGE)
        first, second = (connection.execute(case, array)[0] for _ in range(2))
        right = is_right(case, connection.execute(case, values(case, SMALL))[1])
        found.append((case.name, first, second, right))
        print(f"{case.name:32} {first:7.2f} s {second * 1e3:8.1f} ms{'' if right else '  WRONG'}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
