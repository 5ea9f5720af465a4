"""The ``bench`` command, which measures a running server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

import typer

from ..settings import Settings
from .options import ApiKeyOption
from .render import print_table
from .reporting import reporting

if TYPE_CHECKING:
    from ..bench.workload import Bench

_DEFAULTS = Settings()


def bench_command(
    url: Annotated[
        str, typer.Argument(envvar="OPWIRE_URL", metavar="URL", help="Address of a running server.")
    ] = f"http://{_DEFAULTS.host}:{_DEFAULTS.port}",
    sizes: Annotated[str, typer.Option(metavar="N,N,...", help="Sizes of the FLOAT32 input.")] = "3,3",
    axis: Annotated[int, typer.Option(min=0, help="Axis of ARGMAX.")] = 1,
    encoding: Annotated[
        Literal["base64", "binary"], typer.Option(help="Encoding of the input and the output.")
    ] = "base64",
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="Device to run on. [default: the server's]")
    ] = None,
    connections: Annotated[
        str, typer.Option(metavar="N,N,...", help="Numbers of concurrent requests to measure.")
    ] = "1,2,4,8,16,32,64",
    seconds: Annotated[float, typer.Option(min=0.1, help="Duration of each measurement.")] = 3.0,
    api_key: ApiKeyOption = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the results as JSON; - writes to stdout.")
    ] = None,
    plot_file: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Write a plot: .png, .svg or .pdf.")
    ] = None,
) -> None:
    """Measure a running server. Reports rates and latencies over a sweep of concurrency."""
    from ..bench.report import notes, progress, table, to_json  # rich takes a while to import
    from ..bench.workload import Workload, bench

    workload = Workload(_numbers(sizes, "--sizes"), axis, encoding, device)
    if axis >= len(workload.sizes):
        raise typer.BadParameter(f"{axis} given; allowed: 0 to {len(workload.sizes) - 1}", param_hint="--axis")
    counts = _numbers(connections, "--connections")
    draw = None if plot_file is None else _plotter(plot_file)
    with reporting(as_json=False):
        with progress(seconds) as report:
            measured = bench(_address(url), workload, counts, seconds, api_key, report)
        text = json.dumps(to_json(measured), indent=2, allow_nan=False)
        if json_file == Path("-"):
            typer.echo(text)
        else:
            print_table(table(measured.loads))
            for line in notes(measured.loads):
                typer.echo(line)
            if json_file is not None:
                json_file.write_text(f"{text}\n", encoding="utf-8")
        if draw is not None:
            draw(measured)


def _address(url: str) -> str:
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise typer.BadParameter(f"{url!r} given; expected a URL such as http://127.0.0.1:8000", param_hint="URL")
    return url.rstrip("/")


def _plotter(path: Path) -> Callable[[Bench], None]:
    from ..bench.report import plotter

    try:
        return plotter(path)
    except ModuleNotFoundError as error:
        message = f'plots need {error.name}: pip install "opwire[bench]"'
        raise typer.BadParameter(message, param_hint="--plot") from None


def _numbers(given: str, option: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(number) for number in given.split(","))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1:
        raise typer.BadParameter(f"{given!r} given; expected positive integers such as 1,8,32", param_hint=option)
    return numbers
