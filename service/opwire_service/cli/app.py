"""The command line. Commands that need no server do not import the server's dependencies.

Exit codes: 0 success; 1 the file violates the contract; 2 invalid usage, or a file that cannot be read or written;
130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from opwire.dxdispatch import Model, lowest_level
from opwire.dxdispatch.opening import open_graphs
from opwire.errors import RequestError
from opwire.level import HIGHEST, FeatureLevel
from opwire.wire import Executed

from ..devices import DEVICES
from ..devices.base import Device
from ..offline.documents import read_document
from ..offline.engine import OfflineEngine
from ..offline.run import Step, execute, prepare
from ..offline.skipping import without_unsupported
from ..offline.tensor_files import write_outputs
from . import render
from .bench import bench_command
from .contract import operators_command, schema_command
from .diff import diff_command
from .graph import graph_app
from .help import CONTEXT, CONTRACT, FILES, SERVERS, Group, command
from .key import key_command
from .models import DimensionOption, export_command, is_model, level_command, run_model
from .options import ApiKeyOption, JsonOption, LevelOption, StrictOption, completing
from .reporting import REFUSED, print_json, reporting
from .serve import device_name, serve_command
from .warmup import warmup_command

app = typer.Typer(
    help="DirectML operators: validated against a feature level, computed exactly, served over HTTP.",
    cls=Group,
    context_settings=CONTEXT,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="opwire validate examples/reduce.json --level 2_1\nopwire run examples/argmax.json\nopwire serve",
)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"opwire {version('opwire')}")
        raise typer.Exit


@app.callback()
def _app_options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None: ...


def _device(engine: OfflineEngine, given: str | None) -> Device:
    """Returns the device that is named, or the default one."""
    try:
        return engine.device(None if given is None else device_name(given))
    except RequestError as reason:
        raise typer.BadParameter(reason.detail, param_hint="--device") from None


def _named_file(given: str) -> tuple[str, Path]:
    name, equals, path = given.partition("=")
    if not name or not equals or not path:
        raise typer.BadParameter(f"{given!r} given; expected TENSOR=FILE", param_hint="--input")
    return name, Path(path)


FileArgument = Annotated[
    str,
    typer.Argument(metavar="FILE", help="An operator desc, a request or a DxDispatch model, as JSON; - reads stdin."),
]


SkipOption = Annotated[
    bool,
    typer.Option("--skip-unsupported", help="Leave out the shaders and ONNX models of a model, and what uses them."),
]


def _supported(model: Model, *, skip: bool) -> Model:
    """Returns a model, without what opwire cannot run if that is to be skipped, which is then reported."""
    if not skip:
        return model
    kept, skipped = without_unsupported(model)
    for each in skipped:
        typer.echo(f"opwire: skipped {each}", err=True)
    return kept


@command(
    app,
    "validate",
    FILES,
    "opwire validate examples/argmax.json",
    "opwire validate examples/reduce.json --level 2_1 --json",
    "opwire validate - < examples/argmax.json",
)
def validate_command(
    file: FileArgument,
    level: LevelOption = None,
    strict: StrictOption = False,
    skip: SkipOption = False,
    as_json: JsonOption = False,
) -> None:
    """Validate an operator desc or a model against a feature level. Of a model, every dispatchable is validated."""
    if is_model(file):
        raise typer.BadParameter(f"{file} is an ONNX model, which opwire level checks", param_hint="FILE")
    with reporting(as_json):
        document = read_document(_read(file), _folder(file))
        if isinstance(document, Model):
            level = level or HIGHEST
            document = open_graphs(_supported(document, skip=skip), _folder(file))
            found = document.validate(level, strict=strict)
        else:
            level = level or document.level
            found = {file: document.validate(level, strict=strict or document.request.strict)}
        valid = all(validation.valid for validation in found.values())
        if not as_json:
            for title, validation in found.items():
                render.print_lines(render.validation_lines(title, validation, level))
            if isinstance(document, Model):
                typer.echo(render.model_line(file, found, level))
        elif isinstance(document, Model):
            members = {name: validation.to_json() for name, validation in found.items()}
            lowest = lowest_level(found.values())
            minimum = None if lowest is None else str(lowest)
            whole = {"feature_level": str(level), "valid": valid, "minimum_feature_level": minimum}
            print_json({**whole, "dispatchables": members})
        else:
            print_json({"feature_level": str(level), **found[file].to_json()})
    if not valid:
        raise typer.Exit(REFUSED)


@command(
    app,
    "run",
    FILES,
    "opwire run examples/argmax.json",
    "opwire run examples/argmax.json --input InputTensor=x.npy --output y.npy",
    "opwire run examples/reduce.json --device reference --json",
    "opwire run model.onnx --input x=x.npy --dim batch=1 --output folder",
)
def run_command(
    file: FileArgument,
    level: LevelOption = None,
    strict: StrictOption = False,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=completing(*DEVICES),
            help="Device to run on. [default: the CPU, or reference without its packages]",
        ),
    ] = None,
    skip: SkipOption = False,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="TENSOR=FILE", help="Input tensor from a .npy file or raw bytes; repeatable."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="File (.npy or raw bytes) or folder for the output tensors. "
            "For a model, the folder for the files that it writes. [default: the model's own]",
        ),
    ] = None,
    keep_all: Annotated[
        bool, typer.Option("--all", help="Of an ONNX model, return every tensor that a node produces.")
    ] = False,
    dimensions: DimensionOption = None,
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="Run an ONNX model on this server instead of this machine.")
    ] = None,
    api_key: ApiKeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run an operator, a graph, an ONNX model or a DxDispatch model. The outputs are printed or saved."""
    if is_model(file):
        _refuse(
            file,
            {"--level": level, "--strict": strict, "--skip-unsupported": skip},
            "files of JSON; opwire level checks ONNX models",
        )
        with reporting(as_json):
            run_model(
                Path(file),
                inputs,
                dimensions,
                output,
                device=device,
                url=url,
                api_key=api_key,
                keep_all=keep_all,
                as_json=as_json,
            )
        return
    _refuse(file, {"--all": keep_all, "--dim": dimensions, "--url": url}, "ONNX models")
    with reporting(as_json):
        _run_file(file, inputs, output, level=level, device=device, strict=strict, skip=skip, as_json=as_json)


def _refuse(file: str, given: Mapping[str, object], what: str) -> None:
    """Refuses options that mean nothing for a file."""
    for option, value in given.items():
        if value:
            raise typer.BadParameter(f"given for {file}, but it is for {what}", param_hint=option)


def _run_file(
    file: str,
    inputs: list[str] | None,
    output: Path | None,
    *,
    level: FeatureLevel | None,
    device: str | None,
    strict: bool,
    skip: bool,
    as_json: bool,
) -> None:
    """Runs a file of JSON."""
    files = dict(_named_file(given) for given in inputs or ())
    document = read_document(_read(file), _folder(file))
    if isinstance(document, Model):
        if files:
            raise typer.BadParameter("a model takes its tensors from its resources", param_hint="--input")
        folder = _folder(file)
        with OfflineEngine() as engine:
            chosen = _device(engine, device)
            document = _supported(document, skip=skip)
            steps = prepare(document, level or HIGHEST, folder, output or folder, strict=strict)
            _run_model(steps, level or HIGHEST, chosen, as_json)
    else:
        is_strict = strict or document.request.strict
        plan = document.dispatchable.check(level or document.level, strict=is_strict)
        arrays = document.read_inputs(plan, files)
        with OfflineEngine() as engine:
            chosen = _device(engine, device or document.request.device)
            _show_outputs(engine.execute(plan, arrays, chosen), output, as_json)


def _run_model(steps: list[Step], level: FeatureLevel, device: Device, as_json: bool) -> None:
    commands: list[dict[str, object]] = []
    for step, microseconds in execute(steps, device):
        if as_json:
            commands.append(render.step_json(step, microseconds))
        else:
            render.print_lines(render.step_lines(step, microseconds, device.name))
    if as_json:
        print_json({"commands": commands, "feature_level": str(level), "device": device.name})


def _show_outputs(executed: Executed, output: Path | None, as_json: bool) -> None:
    plan, buffers = executed.plan, executed.buffers
    saved = {} if output is None else write_outputs(output, plan.outputs, buffers)
    if as_json:
        outputs = render.outputs_json(plan.outputs, buffers, saved)
        rest = {"feature_level": str(plan.level), "device": executed.device, "timing": {"run": executed.microseconds}}
        print_json({"outputs": outputs, **rest})
        return
    for name, desc in plan.outputs.items():
        if name in saved:
            render.print_lines([f"{render.tensor_line(name, desc)} written to '{saved[name]}'"])
        else:
            render.print_lines(render.tensor_lines(name, desc, buffers[name]))


command(app, "level", FILES, "opwire level model.onnx", "opwire level model.onnx --level 4_1 --dim batch=1")(
    level_command
)
command(app, "export", FILES, "opwire export model.onnx folder")(export_command)
command(
    app,
    "diff",
    FILES,
    "opwire diff model.onnx --against onnxruntime",
    "opwire diff examples/reduce.json --against reference",
    "opwire diff model.onnx --against onnxruntime:CUDA --input x=x.npy --dim batch=1 --html report.html",
    "opwire diff model.onnx --against folder --draw uniform --junit report.xml --repro wrong",
)(diff_command)
command(
    app,
    "operators",
    CONTRACT,
    "opwire operators --level 2_1",
    "opwire operators --all --family pooling",
    "opwire operators --data-type INT64 --json",
)(operators_command)
command(app, "schema", CONTRACT, "opwire schema GEMM", "opwire schema --json-schema > opwire.schema.json")(
    schema_command
)
command(
    app,
    "serve",
    SERVERS,
    "opwire serve",
    "opwire serve --host 0.0.0.0 --workers 2 --api-keys-file keys --log-format json",
    "opwire serve --device auto --memory-bytes 8GiB",
    "opwire serve --check",
)(serve_command)
command(app, "warmup", SERVERS, "opwire warmup", "opwire warmup --device cpu")(warmup_command)
command(app, "key", SERVERS, "opwire key alice >> keys", "opwire key alice --own < password")(key_command)
app.add_typer(graph_app, name="graph", rich_help_panel=SERVERS)
command(
    app,
    "bench",
    SERVERS,
    "opwire bench",
    "opwire bench http://127.0.0.1:8000 --sizes 64,64 --encoding binary --connections 1,8,64",
    "opwire bench --json bench.json --plot bench.svg",
)(bench_command)


def _folder(file: str) -> Path:
    """Returns the folder of the files that a model refers to."""
    return Path() if file == "-" else Path(file).parent


def _read(file: str) -> bytes:
    return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
