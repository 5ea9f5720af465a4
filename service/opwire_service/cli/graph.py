"""The ``graph`` commands, which register, list and delete graphs on a running server."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import render
from .help import CONTEXT, Group, command
from .options import ApiKeyOption, JsonOption, LevelOption, StrictOption
from .reporting import print_json, reporting

if TYPE_CHECKING:
    from opwire import Client

graph_app = typer.Typer(
    help="Register, list and delete graphs on a running server.",
    cls=Group,
    context_settings=CONTEXT,
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog="opwire graph put net net.json\nopwire graph list",
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the graph.")]
UrlOption = Annotated[
    str | None,
    typer.Option(
        envvar="OPWIRE_URL",
        show_envvar=False,
        metavar="URL",
        help="Address of the server. [env: OPWIRE_URL] [default: http://127.0.0.1:8000]",
    ),
]


@contextmanager
def _client(url: str | None, api_key: str | None) -> Generator[Client]:
    from opwire import Client  # slow to import

    try:
        client = Client(url, api_key=api_key)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--url") from None
    with client:
        yield client


@command(
    graph_app,
    "put",
    None,
    "opwire graph put net net.json",
    "opwire graph put net net.json --level 4_0 --url http://127.0.0.1:8000",
)
def put_command(
    name: NameArgument,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A graph or a request with one, as JSON, or a .bin file of ONNX Runtime with constants next to it.",
        ),
    ],
    level: LevelOption = None,
    strict: StrictOption = False,
    url: UrlOption = None,
    api_key: ApiKeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Register a graph under a name, replacing any graph of that name."""
    from ..offline.registrations import read_graph_file  # it imports the client

    with reporting(as_json):
        graph = read_graph_file(file, level, strict=strict)
        with _client(url, api_key) as client:
            found = client.register_graph(name, graph, graph.level, strict=graph.strict)
        if as_json:
            print_json(found)
        else:
            render.print_lines(render.graph_lines(found))


@command(graph_app, "list", None, "opwire graph list", "opwire graph list --json")
def list_command(url: UrlOption = None, api_key: ApiKeyOption = None, as_json: JsonOption = False) -> None:
    """List the graphs registered with this API key."""
    with reporting(as_json), _client(url, api_key) as client:
        found = client.registered_graphs()
        if as_json:
            print_json({"graphs": found})
            return
        for graph in found:
            render.print_lines(render.graph_lines(graph))


@command(graph_app, "delete", None, "opwire graph delete net")
def delete_command(
    name: NameArgument, url: UrlOption = None, api_key: ApiKeyOption = None, as_json: JsonOption = False
) -> None:
    """Delete a registered graph; running requests that use it finish."""
    with reporting(as_json), _client(url, api_key) as client:
        client.delete_graph(name)
        if as_json:
            print_json({})
