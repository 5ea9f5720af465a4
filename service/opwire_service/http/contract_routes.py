"""The native routes that hold no tensors: operators, feature levels and the server itself."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from opwire.desc import show
from opwire.describe import LevelInfo, OperatorInfo, OperatorSummary, ServerInfo, describe, levels, summarise
from opwire.errors import NotFoundError, ProblemCode, RequestError
from opwire.jsonschema import META, documents
from opwire.level import FeatureLevel
from opwire.listing import FAMILIES, Selection, State
from opwire.schema import CATALOG, find, hint, whole_schema
from opwire.tensor import DataType
from opwire.wire import JSON

from ..engine.service import Service
from ..kernels.executable import EXECUTABLE
from .fixed import FixedDocument
from .responses import LISTING, OPERATOR, fixed

router = APIRouter(prefix="/v1")

_LEVELS: list[Any] = [spelling for level in FeatureLevel for spelling in (level.short, str(level))]


def service_of(request: Request) -> Service:
    """The service that answers a request."""
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
    """All operator types of DirectML; ``declared`` marks those that it checks, ``executable`` those that it runs.

    ``state``, ``level``, ``family`` and ``data_type``, which one of the tensors may have at the level, choose some.
    """
    if not request.query_params:
        return _OPERATORS.answer(request)
    unknown = request.query_params.keys() - {"state", "level", "family", "data_type"}
    if unknown:
        detail = f"there is no parameter {show(min(unknown))}; there are state, level, family and data_type"
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
    """The schema of DirectML: all operator types with their members and what their tensors may be by feature level."""
    return _SCHEMA.answer(request)


@router.get("/schema/meta", response_class=Response, **fixed(_JSON_SCHEMA))
def schema_meta(request: Request) -> Response:
    """The JSON Schema of the schema of DirectML."""
    return _META.answer(request)


@router.get("/schema/documents", response_class=Response, **fixed(_JSON_SCHEMA))
def schema_documents(request: Request) -> Response:
    """The JSON Schema of DxDispatch models and of requests, by which an editor checks and completes them."""
    return _DOCUMENTS.answer(request)


@router.get("/operators/{name}", response_model=OperatorInfo, **OPERATOR)
async def operator(request: Request, name: str) -> Response:
    """The fields, support rows and worked examples of an operator type."""
    kind = find(name)
    if kind is None:
        detail = f"{show(name)} is none of DirectML's operator types{hint(name)}"
        raise NotFoundError(ProblemCode.UNKNOWN_OPERATOR, detail)
    return _OPERATOR[kind.name].answer(request)


@router.get("/feature-levels", response_model=dict[str, list[LevelInfo]])
async def feature_levels(request: Request) -> Response:
    """All feature levels, lowest first, with the operator types that each brought."""
    return _LEVELS_DOCUMENT.answer(request)


@router.get("/server")
async def server_info(request: Request) -> ServerInfo:
    """What this server is: its version, devices and limits."""
    return service_of(request).describe()
