"""The ``diff`` command, which compares a model's tensors with the exact ones, node by node."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from .models import DimensionOption, read_arrays, read_dimensions
from .options import JsonOption, completing
from .reporting import REFUSED, UNREADABLE, reporting

_INPUTS, _ALLOWED, _REPORTS = "Inputs", "What is allowed", "Reports"

_MODEL = "An ONNX model, a graph, DxDispatch model or operator as JSON, or a folder that --repro wrote."

SideOption = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="SIDE",
        show_default=False,
        autocompletion=completing("onnxruntime", "cpu", "cuda", "reference", "http://", "command:"),
        help="The backend: a folder of .npy files or an .npz file with tensors by name, onnxruntime[:PROVIDER], "
        "onnxruntime:PROVIDER:optimized, cpu, cuda, reference, the http:// address of a server, or command:PROGRAM.",
    ),
]
InputOption = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="TENSOR=FILE",
        rich_help_panel=_INPUTS,
        help="Input tensor from a .npy file; repeatable. Others are drawn.",
    ),
]
DrawOption = Annotated[
    Literal["normal", "uniform", "adversarial"],
    typer.Option("--draw", rich_help_panel=_INPUTS, help="How floats are drawn."),
]
JunitOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", rich_help_panel=_REPORTS, help="Write a JUnit file, in which each node is a test, for CI."
    ),
]

HtmlOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", rich_help_panel=_REPORTS, help="Write a page to read, which needs no network."),
]
ReproOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        rich_help_panel=_REPORTS,
        help="Write a folder to this one for each wrong node, which reproduces it alone: opwire diff DIR/NODE.",
    ),
]


def diff_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help=_MODEL, show_default=False)],
    against: SideOption = None,
    timeout: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="Stop a backend that runs in a process after this time."),
    ] = None,
    inputs: InputOption = None,
    dimensions: DimensionOption = None,
    seed: Annotated[int, typer.Option(min=0, rich_help_panel=_INPUTS, help="Seed of the inputs that are drawn.")] = 0,
    draw: DrawOption = "normal",
    cumulative: Annotated[
        bool, typer.Option("--cumulative", help="Show the errors of whole runs, which grow from node to node.")
    ] = False,
    ulp: Annotated[
        float | None, typer.Option(min=0, rich_help_panel=_ALLOWED, metavar="N", help="Allow up to N ULP.")
    ] = None,
    rtol: Annotated[
        float | None, typer.Option(min=0, rich_help_panel=_ALLOWED, metavar="X", help="Allow a relative error.")
    ] = None,
    atol: Annotated[
        float | None, typer.Option(min=0, rich_help_panel=_ALLOWED, metavar="X", help="Allow an absolute error.")
    ] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Show all nodes, rather than the 20 worst.")] = False,
    junit: JunitOption = None,
    html: HtmlOption = None,
    repro: ReproOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the operators of a model that a backend computes wrongly, by comparing each with its exact result.

    Each node gets the tensors of the backend, so that errors of others do not count. Exits with 1 if a node is wrong,
    with 2 if the model or the backend cannot be used, or the backend failed.
    """
    with reporting(as_json, refused=UNREADABLE):
        from . import differences  # slow to import

        found = differences.compare(
            model,
            against,
            read_arrays(inputs),
            dimensions=read_dimensions(dimensions),
            seed=seed,
            distribution=draw,
            cumulative=cumulative,
            tolerance=differences.tolerance(ulp, rtol, atol),
            repro=repro,
            timeout=timeout,
        )
        differences.write_reports(found, junit=junit, html=html)
        differences.show(found, show_all=show_all, as_json=as_json)
    if found.wrong:
        raise typer.Exit(REFUSED)
    if not found.is_complete:
        raise typer.Exit(UNREADABLE)
