"""Load on a server, the same for all: from wrk, or from opwire's own generator if there is no wrk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import cycle

from opwire_service.bench import load_generator as generator

from .contender import Request

_FEW = 50
"""Answers per connection."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A server's results under load; times in seconds.

    Attributes:
        answers: successful answers.
        errors: other answers, and connection failures.
        seconds: duration of the load.
        mean, p50, p99: from the first byte sent to the last one received.
        kinds: errors by kind, if the generator reports them.
    """

    answers: int
    errors: int
    seconds: float
    mean: float
    p50: float
    p99: float
    kinds: Mapping[str, int] = field(default_factory=dict)


def work_rate(found: Measured, connections: int) -> float:
    """Returns answers per second; if these are few, from their mean time, as requests in flight skew the count."""
    if not found.answers:
        return 0.0
    few = found.answers < _FEW * connections and not found.errors
    return connections / found.mean if few else found.answers / found.seconds


Measure = Callable[[str, Request, int, float, int], Measured]
"""Loads a URL with a request, given the connections, the seconds and a timeout in seconds."""


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
