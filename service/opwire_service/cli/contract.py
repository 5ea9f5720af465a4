"""The ``operators`` and ``schema`` commands, which print the contract."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from opwire.desc import show
from opwire.describe import describe, operator_schema, summarise, whole_schema
from opwire.listing import FAMILIES, Selection, State
from opwire.schema import CATALOG, find, hint
from opwire.tensor import DataType

from ..kernels.executable import EXECUTABLE
from . import render
from .options import JsonOption, LevelOption, completing
from .reporting import print_json, reporting


def operators_command(
    level: LevelOption = None,
    state: Annotated[
        State, typer.Option(help="List operators with this state: known, declared (can be validated) or executable.")
    ] = State.EXECUTABLE,
    every: Annotated[bool, typer.Option("--all", help="Same as --state known.")] = False,
    family: Annotated[
        str | None,
        typer.Option(metavar="NAME", autocompletion=completing(*FAMILIES), help="List operators of this family."),
    ] = None,
    data_type: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE",
            autocompletion=completing(*(each.name for each in DataType)),
            help="List operators that accept this data type, such as INT64.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List operators with their data types and ranks by level."""
    state = State.KNOWN if every else state
    try:
        selection = Selection.parse(state, None if level is None else level.short, family, data_type)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    kinds = list(selection.operators(EXECUTABLE))
    with reporting(as_json):
        if not as_json:
            in_full = state is State.EXECUTABLE
            render.print_table(render.support_table(kinds, level) if in_full else render.catalog_table(kinds))
        elif state is State.KNOWN:
            print_json({"operators": [summarise(kind, EXECUTABLE) for kind in kinds]})
        else:
            rows = [{**summarise(kind, EXECUTABLE), "support": render.rows_at(describe(kind), level)} for kind in kinds]
            print_json({"feature_level": None if level is None else str(level), "operators": rows})


def schema_command(
    operator: Annotated[
        str | None,
        typer.Argument(
            metavar="[OPERATOR]", autocompletion=completing(*CATALOG), help="An operator type. [default: all]"
        ),
    ] = None,
    for_documents: Annotated[
        bool,
        typer.Option("--json-schema", help="Print the JSON Schema of requests and DxDispatch models, for editors."),
    ] = False,
    meta: Annotated[bool, typer.Option("--meta", help="Print the JSON Schema of the schema itself.")] = False,
) -> None:
    """Print the DirectML schema as JSON. It has the members of every operator type, and their support by level."""
    if (operator is not None) + for_documents + meta > 1:
        raise typer.BadParameter("give only one of OPERATOR, --json-schema and --meta")
    with reporting(as_json=False):
        typer.echo(json.dumps(_schema(operator, for_documents, meta), indent=1))


def _schema(operator: str | None, for_documents: bool, meta: bool) -> object:
    from opwire.jsonschema import META, documents  # slow to build

    if operator is None:
        return documents() if for_documents else META if meta else whole_schema()
    kind = find(operator)
    if kind is None:
        message = f"{show(operator)} is not a DirectML operator type{hint(operator)}"
        raise typer.BadParameter(message, param_hint="OPERATOR")
    return {kind.name: operator_schema(kind.name)}
