"""Load on a server: the same for all of them, by wrk, or by opwire's own generator where there is no wrk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import cycle

from opwire_service.bench import load_generator as generator

from .contender import Request

_FEW = 50
"""Answers on each connection."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a server did under load; times in seconds.

    Attributes:
        answers: that are a success.
        errors: other answers, and failures of connections.
        seconds: that the load went on.
        mean, p50, p99: from the first byte sent to the last one received.
        kinds: the errors by kind, where the generator tells.
    """

    answers: int
    errors: int
    seconds: float
    mean: float
    p50: float
    p99: float
    kinds: Mapping[str, int] = field(default_factory=dict)


def work_rate(found: Measured, connections: int) -> float:
    """Answers a second; of few, what is under way at the end matters, and the mean time tells more than the number."""
    if not found.answers:
        return 0.0
    few = found.answers < _FEW * connections and not found.errors
    return connections / found.mean if few else found.answers / found.seconds


Measure = Callable[[str, Request, int, float, int], Measured]
"""Loads the server at a URL with a request, by so many connections, for so many seconds, with a timeout in seconds."""


def measure_with_python(url: str, request: Request, connections: int, seconds: float, timeout: int) -> Measured:
    """Loads a server with opwire's own generator, which is slower than wrk."""
    sent = _requests(url, request)
    loaded = generator.measure(generator.Address.of(url), sent, connections, seconds)
    answers = len(loaded.latencies)
    return Measured(
        answers=answers,
        errors=sum(loaded.errors.values()),
        seconds=loaded.seconds,
        mean=sum(loaded.latencies) / answers if answers else float("nan"),
        p50=loaded.percentile(50),
        p99=loaded.percentile(99),
    )


def _requests(url: str, request: Request) -> generator.NextBody:
    def write(body: bytes) -> bytes:
        return generator.write_request(url + request.path, request.headers, body)

    if request.counter is None:
        only = write(request.content())
        return lambda: only
    numbers = cycle(range(request.counter.first, request.counter.last + 1, request.counter.step))
    return lambda: write(request.content(next(numbers)))
