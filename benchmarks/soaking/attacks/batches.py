"""Small batches with huge outputs, whose sum must be bounded, too."""

from __future__ import annotations

from functools import partial

from .giants import pool
from .wire import BATCH, Target, execute, json_bytes, reduction

_PATIENCE = 30.0
_MOST_READ = 1 << 29
"""Bytes of an answer to read before the client gives up on it."""


def huge_outputs(target: Target) -> None:
    """Many outputs of 128 MB, and as many as possible of the largest size, from pooling and from reductions."""
    timeout = target.size(8000, 2000)
    pooled = execute(pool("MAX_POOLING", [1, 1, 2**12, 2**13], [1, 1], "FLOAT32"), timeout_ms=timeout)
    keep = execute(reduction([2**26], [], "MAX"), timeout_ms=timeout)
    reference = execute(reduction([2**24], [], "SUM"), device="reference", timeout_ms=timeout)
    batches = [[pooled] * 24, [keep] * 256, [pooled, keep, reference] * 10]
    target.each([partial(_ask, target, batch) for batch in batches[: target.size(3, 2)]], 2)


def much_work(target: Target) -> None:
    """As many requests as a batch may hold, each with the maximum work and little time."""
    work = reduction([2**14, 2**14], [0, 1])
    batches = [
        [execute(work, timeout_ms=500)] * 256,
        [execute(work, device=device, timeout_ms=300) for device in ("cpu", "reference")] * 64,
        [execute(work, timeout_ms=100 + i) for i in range(256)],
    ]
    target.each([partial(_ask, target, batch) for batch in batches], 3)


def _ask(target: Target, requests: list[dict[str, object]]) -> None:
    body = json_bytes({"requests": requests})
    target.ask(target.post(BATCH, body), f"batch {body[:200]!r}", within=_PATIENCE, most=_MOST_READ)
