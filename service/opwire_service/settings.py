"""What can be set on a server, with its defaults, and how it is said on the command line and in the environment."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

MIB = 2**20

LogLevel = Literal["debug", "info", "warning", "error"]

LogFormat = Literal["text", "json"]


@dataclass(frozen=True, slots=True)
class Option:
    """How a setting is given; its environment variable is OPWIRE_ and its flag in capitals.

    Attributes:
        help: what it is.
        least, most: of a number.
        metavar: what stands for the value in the help.
        flag: the option, where that is not the name of the field.
    """

    help: str
    least: int | None = None
    most: int | None = None
    metavar: str | None = None
    flag: str | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of what the server takes. What exceeds one is refused before memory is taken for it."""

    body_bytes: Annotated[int, Option("Bytes of one request.", 1)] = 256 * MIB
    tensor_elements: Annotated[
        int, Option("Logical elements of one tensor; stride 0 lets a few bytes describe billions.", 1)
    ] = 2**28
    output_bytes: Annotated[int, Option("Bytes of all outputs of an operator together.", 1)] = 256 * MIB
    output_numbers: Annotated[
        int, Option("Elements of outputs that are asked for as JSON numbers, which take much more memory.", 1)
    ] = 2**20
    json_values: Annotated[
        int, Option("Values in the JSON of one request, its numbers among them; other tensors have no such bound.", 1)
    ] = 2**20
    work: Annotated[int, Option("Element visits of one operator.", 1)] = 2**34
    batch_requests: Annotated[int, Option("Requests in one batch.", 1)] = 256
    graphs: Annotated[int, Option("Graphs that may be registered.", 1, 4096)] = 64
    graph_bytes: Annotated[int, Option("Bytes of all registered graphs together, their constants among them.", 1)] = (
        1024 * MIB
    )
    queued: Annotated[
        int, Option("Operators that wait for a device; so many requests may wait for memory, too.", 0)
    ] = 1024
    memory_bytes: Annotated[int, Option("Bytes of bodies, tensors and answers of all requests together.", 1)] = (
        2048 * MIB
    )
    timeout_ms: Annotated[
        int, Option("Longest time that a request may ask for, and what it gets if it asks for none.", 1)
    ] = 60_000
    receive_ms: Annotated[int, Option("Longest time that a body may take to arrive.", 1)] = 60_000
    max_wait_ms: Annotated[
        int,
        Option("Longest time that work may be expected to wait for a device, or a body may wait for memory.", 0),
    ] = 5000

    def to_json(self) -> dict[str, int]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Settings:
    """A server's settings; a list in the environment has spaces between its items."""

    host: Annotated[str, Option("Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Option("Port to listen on; 0 takes a free one.", 0, 65535)] = 8000
    root_path: Annotated[
        str,
        Option("Where a proxy puts the server, such as /tensors; the proxy may take it off the paths.", metavar="PATH"),
    ] = ""
    devices: Annotated[
        tuple[str, ...],
        Option(
            "Device to start; may be given again. auto: all GPUs that there are, and the CPU.",
            metavar="NAME",
            flag="--device",
        ),
    ] = ("cpu", "reference")
    threads: Annotated[int, Option("Operators that run at a time on each device.", 1)] = field(
        default_factory=lambda: max(2, os.cpu_count() or 1)
    )
    workers: Annotated[int, Option("Processes that serve; the limits are divided.", 1)] = 1
    hang_seconds: Annotated[
        int, Option("How long one of several processes may give no sign of life until it is replaced.", 1)
    ] = 30
    drain_seconds: Annotated[int, Option("How long accepted work may go on at the end.", 0)] = 30
    log_level: Annotated[LogLevel, Option("Least severe messages; debug has a line for each request.")] = "info"
    log_format: Annotated[LogFormat, Option("Text, or one JSON object a line.")] = "text"
    limits: Limits = field(default_factory=Limits)
    cached_plans: Annotated[int, Option("Checked operator descs that are kept.", 1)] = 4096
    api_keys_file: Annotated[
        Path | None, Option("Keys that requests must carry: KEY or NAME:KEY a line.", metavar="FILE")
    ] = None
    metrics_open: Annotated[bool, Option("Whether /metrics needs no key.", flag="--metrics-open/--metrics-closed")] = (
        False
    )
    console: Annotated[
        bool, Option("Whether / is the console; without it / leads to /docs.", flag="--console/--no-console")
    ] = True
    tls_certificate: Annotated[Path | None, Option("Certificate chain (PEM); serves https.", metavar="FILE")] = None
    tls_key: Annotated[Path | None, Option("Its key (PEM), unless it is in the same file.", metavar="FILE")] = None
    cors_origins: Annotated[
        tuple[str, ...],
        Option("Web origins that may use the server; * is any.", metavar="ORIGIN", flag="--cors-origin"),
    ] = ()
    otel: Annotated[
        bool,
        Option(
            "Send OpenTelemetry traces by OTLP over HTTP; OTEL_EXPORTER_OTLP_ENDPOINT and so on say where and how. "
            "Needs opwire[otel].",
            flag="--otel/--no-otel",
        ),
    ] = False
    ray: Annotated[
        str | None,
        Option(
            "Use the devices of a Ray cluster too. auto: the one that this machine is a node of; HOST:PORT: the one "
            "with its head there; local: a new one. Needs opwire[ray].",
            metavar="auto|local|HOST:PORT",
        ),
    ] = None
    node_device: Annotated[
        str,
        Option("Device of the processors of each node of a cluster, where it is installed.", metavar="MODULE:CLASS"),
    ] = "opwire_service.devices.cpu:CpuDevice"
    shared_memory_prefix: Annotated[
        str | None,
        Option(
            "Lets clients of Triton on this machine have tensors in shared memory whose name begins so.",
            metavar="PREFIX",
        ),
    ] = None

    def share(self) -> Settings:
        """What each worker gets: the bounds of the whole server, divided."""
        limits, count = self.limits, self.workers
        part = replace(
            limits,
            queued=-(-limits.queued // count),
            memory_bytes=max(1, limits.memory_bytes // count),
        )
        # Two places are needed to keep one from long operators.
        return replace(self, threads=min(self.threads, max(2, self.threads // count)), limits=part)
