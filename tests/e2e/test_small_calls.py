"""Work of many small calls of NumPy on a real server: each gives up the GIL for a moment, too short to be taken."""

from __future__ import annotations

import base64
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest

from tests.problems import read_problem
from tests.processes import process

pytestmark = pytest.mark.serial

WITHIN = 60.0

SECONDS = 4
"""Until the deadline of the work, which would take three times as long."""

SOON = 1.0
"""Seconds in which others are answered, be the machine ever so busy."""


def norms() -> dict[str, Any]:
    """The fourth powers of windows of a hundred places of 2,727 bytes, in planes of 32 outputs."""
    desc = {
        "InputTensor": {"DataType": "FLOAT16", "Sizes": [256, 64, 128, 1], "Strides": [3, 3, 3, 1]},
        "P": 4,
        "WindowSize": [104, 1],
        "Strides": [4, 3],
        "StartPadding": [101, 0],
        "EndPadding": [0, 0],
        "Dilations": [1, 1],
    }
    extent = 1 + 3 * (255 + 63 + 127)
    given = base64.b64encode(np.ones(extent, np.float16).tobytes()).decode()
    operator = {"type": "LP_POOLING1", "desc": desc}
    return {"operator": operator, "inputs": {"InputTensor": given}, "timeout_ms": 1000 * SECONDS}


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_others_are_answered_meanwhile(device: str) -> None:
    with process("--device", device) as served, ThreadPoolExecutor(1) as pool, httpx.Client(timeout=WITHIN) as http:
        work = pool.submit(httpx.post, f"{served.url}/v1/execute", json=norms(), timeout=WITHIN)
        longest = 0.0
        while not work.done():
            time.sleep(0.1)  # who asks without a rest is never asleep where the GIL is free
            began = time.monotonic()
            assert http.get(f"{served.url}/livez").status_code == 200
            longest = max(longest, time.monotonic() - began)
        answer = work.result()
    problem = read_problem(answer.status_code, answer.headers, answer.content)
    assert (problem["code"], problem["stage"]) == ("deadline_exceeded", "run")
    assert longest < SOON
