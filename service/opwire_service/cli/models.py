"""The commands for ONNX models: the feature level that a model needs, a run of it, and its export to DxDispatch."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from opwire.errors import ProblemCode, RequestError
from opwire.tensor import Array

from ..offline.tensor_files import write_arrays
from . import render
from .options import JsonOption, LevelOption
from .reporting import REFUSED, print_json, reporting

if TYPE_CHECKING:
    from opwire import Client, LocalClient
    from opwire.onnx import Model

ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="An ONNX model.")]
DimensionOption = Annotated[
    list[str] | None,
    typer.Option("--dim", metavar="NAME=SIZE", help="Size of a dimension, by its name or as INPUT:AXIS; repeatable."),
]


def is_model(file: str) -> bool:
    """Returns whether a file is an ONNX model, by its name."""
    return file.lower().endswith(".onnx")


def level_command(
    model: ModelArgument, level: LevelOption = None, dimensions: DimensionOption = None, as_json: JsonOption = False
) -> None:
    """Show the feature level that each node of an ONNX model needs, and why. With --level, exit with 1 if one fails.

    Also shows where ONNX Runtime's DirectML provider differs: the nodes that it leaves to the CPU, and those that need
    a higher level with the operators that it emits; with --level, these fail too.
    """
    with reporting(as_json):
        report = _load(model, dimensions).report(level)
        if as_json:
            print_json(report.to_json())
        else:
            render.print_table(render.nodes_table(report))
            render.print_lines(render.report_lines(model.name, report))
    if not report.is_valid:
        raise typer.Exit(REFUSED)


def export_command(
    model: ModelArgument,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write to.")],
    dimensions: DimensionOption = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="TENSOR=FILE", help="Input tensor from a .npy file; zeros otherwise."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write an ONNX model as a DxDispatch model, with its weights in files beside it."""
    with reporting(as_json):
        arrays = read_arrays(inputs)
        path = _load(model, dimensions, arrays).export(folder, arrays)
        if as_json:
            print_json({"path": str(path)})
        else:
            typer.echo(f"{path}: run it with DxDispatch, or with opwire run {path}")


def run_model(
    file: Path,
    inputs: list[str] | None,
    dimensions: list[str] | None,
    output: Path | None,
    *,
    device: str | None,
    url: str | None,
    api_key: str | None,
    keep_all: bool,
    as_json: bool,
) -> None:
    """Runs an ONNX model here or on a server, and prints or saves its outputs."""
    arrays = read_arrays(inputs)
    model = _load(file, dimensions, arrays)
    with _runner(device, url, api_key) as runner:
        began = time.perf_counter()
        outputs = model.run(arrays, all=keep_all, runner=runner)
        microseconds = int((time.perf_counter() - began) * 1e6)
    saved = {} if output is None else write_arrays(output, outputs)
    if as_json:
        found = {name: render.array_json(array, saved.get(name)) for name, array in outputs.items()}
        print_json({"outputs": found, "on_cpu": _on_cpu(model), "timing": {"run": microseconds}})
        return
    for name, reason in _on_cpu(model).items():
        typer.echo(f"opwire: {name} runs on the CPU: {reason}", err=True)
    for name, array in outputs.items():
        render.print_lines(render.array_lines(name, array, saved.get(name)))


def _on_cpu(model: Model) -> dict[str, str]:
    return {f"{node.name} ({node.operator})": node.reason for node in model.nodes if not node.is_lowered}


@contextmanager
def _runner(device: str | None, url: str | None, api_key: str | None) -> Generator[Client | LocalClient]:
    from opwire import Client, local  # slow to import

    if url is None:
        with local(device=device) as here:
            yield here
        return
    try:
        client = Client(url, api_key=api_key, device=device)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--url") from None
    with client:
        yield client


def _load(file: Path, dimensions: list[str] | None, like: Mapping[str, Array] | None = None) -> Model:
    try:
        from opwire import onnx
    except ImportError as error:
        raise RequestError(ProblemCode.INVALID_MODEL, str(error)) from None
    return onnx.load(file, dimensions=read_dimensions(dimensions), like=like)


def read_dimensions(given: list[str] | None) -> dict[str, int]:
    """Reads the sizes of ``--dim NAME=SIZE``."""
    return dict(map(_dimension, given or ()))


def _dimension(given: str) -> tuple[str, int]:
    name, equals, size = given.rpartition("=")
    if not name or not equals or not size.isdecimal() or not int(size):
        raise typer.BadParameter(f"{given!r} given; expected NAME=SIZE, such as batch=1", param_hint="--dim")
    return name, int(size)


def read_arrays(given: list[str] | None) -> dict[str, Array]:
    """Reads the arrays of ``--input NAME=FILE`` from ``.npy`` files.

    Raises:
        RequestError: a file is not in that format.
        OSError: a file cannot be read.
    """
    arrays: dict[str, Array] = {}
    for each in given or ():
        name, equals, path = each.partition("=")
        if not name or not equals or not path:
            raise typer.BadParameter(f"{each!r} given; expected TENSOR=FILE", param_hint="--input")
        arrays[name] = _read_array(Path(path))
    return arrays


def _read_array(path: Path) -> Array:
    try:
        with path.open("rb") as file:
            array: Array = np.lib.format.read_array(file, allow_pickle=False)
    except ValueError as error:
        raise RequestError(ProblemCode.INVALID_MODEL, f"{path} is not a .npy file: {error}") from None
    return array
