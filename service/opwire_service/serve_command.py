"""The command that serves, with all that can be set on a server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

import typer

from .devices import AUTO, DEVICES, is_device
from .logs import LogFormat
from .oip.regions import AVAILABLE, PREFIX
from .settings import Settings

UNREADABLE = 2

LogLevel = Literal["debug", "info", "warning", "error"]

_DEFAULTS = Settings()

_ROOT_PATH = re.compile("(/[A-Za-z0-9._~-]+)+")


def device_name(given: str) -> str:
    """A device's name, as given on the command line."""
    if not is_device(given):
        raise typer.BadParameter(f"{given!r} is not a device; allowed: {', '.join(DEVICES)}", param_hint="--device")
    return given


def _root_path(given: str) -> str:
    path = given.removesuffix("/")
    if path and not _ROOT_PATH.fullmatch(path):
        raise typer.BadParameter(f"{given!r} is not a path such as /tensors", param_hint="--root-path")
    return path


def _shared_memory_prefix(given: str | None) -> str | None:
    if given is not None and not AVAILABLE:
        raise typer.BadParameter("it needs Linux", param_hint="--shared-memory-prefix")
    if given is not None and not PREFIX.fullmatch(given):
        message = f"{given!r} given; it is up to 64 letters, digits, _, - and ., and begins with no ."
        raise typer.BadParameter(message, param_hint="--shared-memory-prefix")
    return given


def serve_command(
    host: Annotated[str, typer.Option(envvar="OPWIRE_HOST", help="Address to listen on.")] = _DEFAULTS.host,
    port: Annotated[
        int, typer.Option(envvar="OPWIRE_PORT", min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = _DEFAULTS.port,
    root_path: Annotated[
        str,
        typer.Option(
            envvar="OPWIRE_ROOT_PATH",
            metavar="PATH",
            help="Where a proxy puts the server, such as /tensors; the proxy may take it off the paths.",
        ),
    ] = _DEFAULTS.root_path,
    devices: Annotated[
        list[str] | None,
        typer.Option(
            "--device",
            envvar="OPWIRE_DEVICE",
            metavar="NAME",
            help="Device to start; may be given again. auto: all GPUs that there are, and the CPU.",
        ),
    ] = None,
    threads: Annotated[
        int, typer.Option(envvar="OPWIRE_THREADS", min=1, help="Operators that run at a time on each device.")
    ] = _DEFAULTS.threads,
    workers: Annotated[
        int, typer.Option(envvar="OPWIRE_WORKERS", min=1, help="Processes that serve; the limits are divided.")
    ] = _DEFAULTS.workers,
    drain_seconds: Annotated[
        int, typer.Option(envvar="OPWIRE_DRAIN_SECONDS", min=0, help="How long accepted work may go on at the end.")
    ] = _DEFAULTS.drain_seconds,
    log_level: Annotated[
        LogLevel,
        typer.Option(envvar="OPWIRE_LOG_LEVEL", help="Least severe messages; debug has a line for each request."),
    ] = "info",
    log_format: Annotated[
        LogFormat, typer.Option(envvar="OPWIRE_LOG_FORMAT", help="Text, or one JSON object a line.")
    ] = "text",
    api_keys_file: Annotated[
        Path | None,
        typer.Option(
            envvar="OPWIRE_API_KEYS_FILE", metavar="FILE", help="Keys that requests must carry: KEY or NAME:KEY a line."
        ),
    ] = None,
    metrics_open: Annotated[
        bool,
        typer.Option(
            "--metrics-open/--metrics-closed", envvar="OPWIRE_METRICS_OPEN", help="Whether /metrics needs no key."
        ),
    ] = _DEFAULTS.metrics_open,
    tls_certificate: Annotated[
        Path | None,
        typer.Option(envvar="OPWIRE_TLS_CERTIFICATE", metavar="FILE", help="Certificate chain (PEM); serves https."),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(envvar="OPWIRE_TLS_KEY", metavar="FILE", help="Its key (PEM), unless it is in the same file."),
    ] = None,
    cors_origins: Annotated[
        list[str] | None,
        typer.Option(
            "--cors-origin", envvar="OPWIRE_CORS_ORIGIN", metavar="ORIGIN", help="Web origins that may use the server."
        ),
    ] = None,
    otel: Annotated[
        bool,
        typer.Option(
            "--otel/--no-otel",
            envvar="OPWIRE_OTEL",
            help="Send OpenTelemetry traces by OTLP over HTTP; OTEL_EXPORTER_OTLP_ENDPOINT and so on say where and "
            "how. Needs opwire[otel].",
        ),
    ] = _DEFAULTS.otel,
    shared_memory_prefix: Annotated[
        str | None,
        typer.Option(
            envvar="OPWIRE_SHARED_MEMORY_PREFIX",
            metavar="PREFIX",
            help="Lets clients of Triton on this machine have tensors in shared memory whose name begins so.",
        ),
    ] = None,
) -> None:
    """Serve the operators over HTTP until SIGINT or SIGTERM."""
    from .serve import serve  # it needs fastapi and uvicorn, which the other commands do without

    if tls_key is not None and tls_certificate is None:
        raise typer.BadParameter("it needs --tls-certificate", param_hint="--tls-key")
    settings = Settings(
        host=host,
        port=port,
        root_path=_root_path(root_path),
        devices=tuple(name if name == AUTO else device_name(name) for name in devices or _DEFAULTS.devices),
        threads=threads,
        workers=workers,
        drain_seconds=drain_seconds,
        log_level=log_level,
        log_format=log_format,
        api_keys_file=api_keys_file,
        metrics_open=metrics_open,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        cors_origins=tuple(cors_origins or ()),
        otel=otel,
        shared_memory_prefix=_shared_memory_prefix(shared_memory_prefix),
    )
    try:
        code = serve(settings)
    except (OSError, ValueError) as error:
        name = getattr(error, "filename", None)
        typer.echo(f"opwire: {f'{name}: ' if name else ''}{getattr(error, 'strerror', None) or error}", err=True)
        raise typer.Exit(UNREADABLE) from None
    raise typer.Exit(code)
