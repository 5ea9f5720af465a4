"""What can be set on a server, with its defaults."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from .logs import LogFormat

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of what the server takes. What exceeds one is refused before memory is taken for it.

    Attributes:
        body_bytes: of one request.
        tensor_elements: logical elements of one tensor; stride 0 lets a few bytes describe billions.
        output_bytes: of all outputs of an operator together.
        output_numbers: elements of those outputs that are asked for as JSON numbers, which take much more memory.
        work: element visits of one operator.
        batch_requests: of one batch.
        queued: operators that wait for a device.
        queued_work: element visits that wait or run.
        memory_bytes: bodies, tensors and answers of all requests together.
        timeout_ms: the longest time that a request may ask for, and what it gets if it asks for none.
        receive_ms: the longest time that a body may take to arrive.
    """

    body_bytes: int = 256 * MIB
    tensor_elements: int = 2**28
    output_bytes: int = 256 * MIB
    output_numbers: int = 2**22
    work: int = 2**34
    batch_requests: int = 256
    queued: int = 256
    queued_work: int = 2**36
    memory_bytes: int = 2048 * MIB
    timeout_ms: int = 60_000
    receive_ms: int = 60_000

    def to_json(self) -> dict[str, int]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Settings:
    """A server's settings.

    Attributes:
        host, port: where it listens; port 0 takes a free one.
        root_path: prefix of all paths, as clients see them behind a proxy; "" is none.
        devices: names of the devices to start.
        threads: operators that run at the same time on each device.
        workers: processes that serve.
        drain_seconds: how long accepted work may go on after the signal to stop.
        log_level: of Python's logging.
        log_format: see logs.
        limits: see Limits.
        cached_plans: checked operator descs that are kept.
        api_keys_file: whose keys requests must carry; without it anyone may use the server.
        metrics_open: whether the metrics need no key.
        tls_certificate, tls_key: PEM files; with them it speaks TLS alone. The key may be in the first.
        cors_origins: the web origins whose pages may use the server; * is any.
        otel: whether traces of data requests are sent to where the ``OTEL_*`` variables say.
        shared_memory_prefix: of the shared memory objects that clients may have their tensors in; None is none.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    root_path: str = ""
    devices: tuple[str, ...] = ("cpu", "reference")
    threads: int = field(default_factory=lambda: max(2, os.cpu_count() or 1))
    workers: int = 1
    drain_seconds: int = 30
    log_level: str = "info"
    log_format: LogFormat = "text"
    limits: Limits = field(default_factory=Limits)
    cached_plans: int = 4096
    api_keys_file: Path | None = None
    metrics_open: bool = False
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    cors_origins: tuple[str, ...] = ()
    otel: bool = False
    shared_memory_prefix: str | None = None

    def share(self) -> Settings:
        """What each worker gets: the bounds of the whole server, divided."""
        limits, count = self.limits, self.workers
        part = replace(
            limits,
            queued=max(1, limits.queued // count),
            queued_work=max(1, limits.queued_work // count),
            memory_bytes=max(1, limits.memory_bytes // count),
        )
        # Two places are needed to keep one from long operators.
        return replace(self, threads=min(self.threads, max(2, self.threads // count)), limits=part)
