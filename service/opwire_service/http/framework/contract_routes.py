"""The native routes without tensors: operators, feature levels, schemas, and the description of the server."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from opwire.desc import show
from opwire.describe import (
    LevelInfo,
    OperatorInfo,
    OperatorSummary,
    ServerInfo,
    describe,
    levels,
    summarise,
    whole_schema,
)
from opwire.errors import NotFoundError, ProblemCode, RequestError
from opwire.jsonschema import META, documents
from opwire.level import FeatureLevel
from opwire.listing import FAMILIES, Selection, State
from opwire.schema import CATALOG, find, hint
from opwire.tensor import DataType
from opwire.wire import JSON

from ...engine.service import Service
from ...kernels.executable import EXECUTABLE
from ..documents.fixed import FixedDocument
from ..documents.responses import LISTING, OPERATOR, fixed

router = APIRouter(prefix="/v1")

_LEVELS: list[Any] = [spelling for level in FeatureLevel for spelling in (level.short, str(level))]


def service_of(request: Request) -> Service:
    """Returns the service behind a request."""
    service: Service = request.app.state.service
    return service


@router.get("/operators", response_model=dict[str, list[OperatorSummary]], **LISTING)
async def operators(
    request: Request,
    state: Annotated[str | None, Query(json_schema_extra={"enum": list(State)})] = None,
    level: Annotated[str | None, Query(json_schema_extra={"enum": _LEVELS})] = None,
    family: Annotated[str | None, Query(json_schema_extra={"enum": list(FAMILIES)})] = None,
    data_type: Annotated[str | None, Query(json_schema_extra={"enum": list(DataType.__members__)})] = None,
) -> Response | dict[str, list[OperatorSummary]]:
    """Lists the operator types of DirectML; the server checks ``declared`` ones and runs ``executable`` ones.

    The list can be filtered by ``state``, ``level`` and ``family``, and by a ``data_type`` that one of the tensors may
    have at the level.
    """
    if not request.query_params:
        return _OPERATORS.answer(request)
    unknown = request.query_params.keys() - {"state", "level", "family", "data_type"}
    if unknown:
        detail = f"parameter {show(min(unknown))} given; allowed: state, level, family, data_type"
        raise RequestError(ProblemCode.INVALID_REQUEST, detail)
    try:
        selection = Selection.parse(state, level, family, data_type)
    except ValueError as error:
        raise RequestError(ProblemCode.INVALID_REQUEST, str(error)) from None
    return _listed(selection)


def _listed(selection: Selection) -> dict[str, list[OperatorSummary]]:
    return {"operators": [summarise(kind, EXECUTABLE) for kind in selection.operators(EXECUTABLE)]}


_JSON_SCHEMA = "application/schema+json"

_OPERATORS = FixedDocument(lambda: _listed(Selection.parse(None, None, None, None)))
_OPERATOR = {name: FixedDocument(partial(describe, kind, EXECUTABLE)) for name, kind in CATALOG.items()}
_LEVELS_DOCUMENT = FixedDocument(lambda: {"feature_levels": levels()})
_SCHEMA = FixedDocument(whole_schema)
_META = FixedDocument(lambda: META, _JSON_SCHEMA)
_DOCUMENTS = FixedDocument(documents, _JSON_SCHEMA)


@router.get("/schema", response_class=Response, **fixed(JSON))
def schema(request: Request) -> Response:
    """Returns the DirectML schema: all operator types with their members and supported tensors by feature level."""
    return _SCHEMA.answer(request)


@router.get("/schema/meta", response_class=Response, **fixed(_JSON_SCHEMA))
def schema_meta(request: Request) -> Response:
    """Returns the JSON Schema of the DirectML schema."""
    return _META.answer(request)


@router.get("/schema/documents", response_class=Response, **fixed(_JSON_SCHEMA))
def schema_documents(request: Request) -> Response:
    """Returns the JSON Schema of DxDispatch models and of requests, for validation and completion in editors."""
    return _DOCUMENTS.answer(request)


@router.get("/operators/{name}", response_model=OperatorInfo, **OPERATOR)
async def operator(request: Request, name: str) -> Response:
    """Returns the fields, support rows and worked examples of an operator type."""
    kind = find(name)
    if kind is None:
        detail = f"{show(name)} is not a DirectML operator type{hint(name)}"
        raise NotFoundError(ProblemCode.UNKNOWN_OPERATOR, detail)
    return _OPERATOR[kind.name].answer(request)


@router.get("/feature-levels", response_model=dict[str, list[LevelInfo]])
async def feature_levels(request: Request) -> Response:
    """Lists the feature levels, lowest first, with the operator types that each introduced."""
    return _LEVELS_DOCUMENT.answer(request)


@router.get("/server")
async def server_info(request: Request) -> ServerInfo:
    """Describes this server: its version, devices and limits."""
    return service_of(request).describe()
