"""The settings of a server: defaults, command-line options and environment variables."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

MIB = 2**20

LogLevel = Literal["debug", "info", "warning", "error"]

LogFormat = Literal["text", "json"]

_ADDRESS, _PROCESSES, _DEVICES, _ACCESS, _LOGS = "Address", "Processes", "Devices", "Access", "Logs and traces"


@dataclass(frozen=True, slots=True)
class Option:
    """Command-line option of a setting. Its environment variable is OPWIRE_ followed by the flag in capitals.

    Attributes:
        help: description shown by ``--help`` and in the documentation.
        least, most: range of a number, inclusive.
        metavar: placeholder for the value in the help.
        flag: the option, unless it follows from the name of the field.
        is_size: whether it is a number of bytes, which may have a unit.
        group: heading in the help; limits have one of their own.
    """

    help: str
    least: int | None = None
    most: int | None = None
    metavar: str | None = None
    flag: str | None = None
    is_size: bool = False
    group: str = "Limits"


class UnusableSetting(ValueError):
    """A setting cannot be used on this machine, or not together with others; the message says why, in one line.

    Attributes:
        setting: the field of ``Settings`` or ``Limits``.
    """

    def __init__(self, setting: str, message: str) -> None:
        super().__init__(message)
        self.setting = setting


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds on requests; one that exceeds a bound is rejected before memory is allocated for it."""

    body_bytes: Annotated[int, Option("Maximum size of a request, in bytes.", 1, is_size=True)] = 256 * MIB
    tensor_elements: Annotated[
        int, Option("Maximum logical elements of a tensor; with stride 0, a few bytes can describe billions.", 1)
    ] = 2**28
    output_bytes: Annotated[int, Option("Maximum total size of an operator's outputs, in bytes.", 1, is_size=True)] = (
        256 * MIB
    )
    output_numbers: Annotated[
        int, Option("Maximum elements of outputs requested as JSON numbers, which take much more memory.", 1)
    ] = 2**20
    json_values: Annotated[
        int, Option("Maximum values in the JSON of a request, including tensors given as numbers.", 1)
    ] = 2**20
    work: Annotated[int, Option("Maximum work of an operator, in element visits.", 1)] = 2**34
    batch_requests: Annotated[int, Option("Maximum requests in a batch.", 1)] = 256
    graphs: Annotated[int, Option("Maximum registered graphs.", 1, 4096)] = 64
    graph_bytes: Annotated[
        int, Option("Maximum total size of registered graphs, constants included, in bytes.", 1, is_size=True)
    ] = 1024 * MIB
    queued: Annotated[
        int, Option("Maximum operators that wait for a device, and maximum requests that wait for memory.", 0)
    ] = 1024
    memory_bytes: Annotated[
        int, Option("Maximum total size of the bodies, tensors and answers of all requests, in bytes.", 1, is_size=True)
    ] = 2048 * MIB
    timeout_ms: Annotated[int, Option("Default and maximum time of a request, in milliseconds.", 1)] = 60_000
    receive_ms: Annotated[int, Option("Maximum time for a body to arrive, in milliseconds.", 1)] = 60_000
    max_wait_ms: Annotated[
        int, Option("Maximum expected wait for a device, and maximum wait of a body for memory, in milliseconds.", 0)
    ] = 5000

    def to_json(self) -> dict[str, int]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a server. Lists in the environment are separated by spaces."""

    host: Annotated[str, Option("Address to listen on.", metavar="HOST", group=_ADDRESS)] = "127.0.0.1"
    port: Annotated[int, Option("Port to listen on; 0 picks a free one.", 0, 65535, group=_ADDRESS)] = 8000
    root_path: Annotated[
        str,
        Option(
            "Path prefix of a reverse proxy, such as /tensors; the proxy may strip it.", metavar="PATH", group=_ADDRESS
        ),
    ] = ""
    devices: Annotated[
        tuple[str, ...],
        Option(
            "Device to start; repeatable. auto: all available GPUs and the CPU.",
            metavar="NAME",
            flag="--device",
            group=_DEVICES,
        ),
    ] = ("cpu", "reference")
    threads: Annotated[
        int,
        Option(
            "Operators that run concurrently on each device; by default one per core, at least 2.", 1, group=_DEVICES
        ),
    ] = field(default_factory=lambda: max(2, os.cpu_count() or 1))
    workers: Annotated[
        int,
        Option("Number of server processes; memory, queue and threads are divided among them.", 1, group=_PROCESSES),
    ] = 1
    hang_seconds: Annotated[
        int,
        Option("Seconds without a heartbeat after which one of several processes is replaced.", 1, group=_PROCESSES),
    ] = 30
    drain_seconds: Annotated[
        int, Option("Seconds that accepted work may take to finish on shutdown.", 0, group=_PROCESSES)
    ] = 30
    log_level: Annotated[LogLevel, Option("Minimum severity to log; debug logs every request.", group=_LOGS)] = "info"
    log_format: Annotated[LogFormat, Option("Plain text, or one JSON object per line.", group=_LOGS)] = "text"
    limits: Limits = field(default_factory=Limits)
    cached_plans: Annotated[int, Option("Number of validated operator descs to cache.", 1, group=_DEVICES)] = 4096
    api_keys_file: Annotated[
        Path | None,
        Option(
            "File of accepted API keys, one NAME:KEY per line; opwire key makes them.", metavar="FILE", group=_ACCESS
        ),
    ] = None
    metrics_open: Annotated[
        bool, Option("Serve /metrics without an API key.", flag="--metrics-open/--metrics-closed", group=_ACCESS)
    ] = False
    console: Annotated[
        bool,
        Option(
            "Serve the console at /; without it, / redirects to /docs.", flag="--console/--no-console", group=_ACCESS
        ),
    ] = True
    tls_certificate: Annotated[
        Path | None, Option("Certificate chain (PEM); enables HTTPS.", metavar="FILE", group=_ADDRESS)
    ] = None
    tls_key: Annotated[
        Path | None, Option("Private key (PEM), unless it is in the certificate file.", metavar="FILE", group=_ADDRESS)
    ] = None
    cors_origins: Annotated[
        tuple[str, ...],
        Option(
            "Web origin that may use the server; repeatable; * allows all.",
            metavar="ORIGIN",
            flag="--cors-origin",
            group=_ACCESS,
        ),
    ] = ()
    otel: Annotated[
        bool,
        Option(
            "Send OpenTelemetry traces by OTLP over HTTP, as configured by OTEL_EXPORTER_OTLP_ENDPOINT and the other "
            "OTEL_* variables. Needs opwire[otel].",
            flag="--otel/--no-otel",
            group=_LOGS,
        ),
    ] = False
    ray: Annotated[
        str | None,
        Option(
            "Also use the devices of a Ray cluster. auto: the cluster that this machine is a node of; HOST:PORT: the "
            "cluster with that head; local: a new cluster. Needs opwire[ray].",
            metavar="auto|local|HOST:PORT",
            group=_DEVICES,
        ),
    ] = None
    node_device: Annotated[
        str, Option("Class of the CPU device on the nodes of a cluster.", metavar="MODULE:CLASS", group=_DEVICES)
    ] = "opwire_service.devices.cpu:CpuDevice"
    shared_memory_prefix: Annotated[
        str | None,
        Option(
            "Allow Triton clients on this machine to pass tensors in shared memory whose names start with this prefix.",
            metavar="PREFIX",
            group=_ACCESS,
        ),
    ] = None

    def share(self) -> Settings:
        """Returns the settings of one worker: the bounds of the whole server, divided by the number of workers."""
        limits, count = self.limits, self.workers
        part = replace(limits, queued=-(-limits.queued // count), memory_bytes=max(1, limits.memory_bytes // count))
        # With two threads, one can be reserved for short operators.
        return replace(self, threads=min(self.threads, max(2, self.threads // count)), limits=part)
