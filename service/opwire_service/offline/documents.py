"""Reading of the command line's input files: an operator desc, a request to the service, or a DxDispatch model."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from opwire.check import Plan, Validation, read_level
from opwire.desc import pointer_to, show
from opwire.dxdispatch import Dispatchable, Model, OperatorDispatchable, read_model, read_operator, read_text
from opwire.errors import ContractViolation, ProblemCode, RequestError
from opwire.files import read_payload, without_files
from opwire.graph import CONSTANT, check_graph, validate_graph
from opwire.graph_files import read_file_constants
from opwire.level import HIGHEST, FeatureLevel
from opwire.operator import Code, Violation
from opwire.tensor import Array
from opwire.wire import (
    ExecuteRequest,
    RequestBody,
    ValidateRequest,
    is_bare_graph,
    parse_execute,
    parse_registration,
    parse_validate,
    read_inputs,
)

_HERE = Path()


@dataclass(frozen=True, slots=True)
class GivenGraph:
    """A graph, by itself or in a request."""

    graph: object
    pointer: str

    def check(self, level: FeatureLevel, *, strict: bool = False) -> Plan:
        return check_graph(self.graph, level, strict=strict, pointer=self.pointer)

    def validate(self, level: FeatureLevel, *, strict: bool = False) -> Validation:
        return validate_graph(self.graph, level, strict=strict, pointer=self.pointer)


@dataclass(frozen=True, slots=True)
class Single:
    """A single operator or graph.

    Attributes:
        dispatchable: the operator or graph.
        request: the request that contains it; without further members for a plain desc.
        files: files with constants of a graph, by name of the plan's input.
    """

    dispatchable: Dispatchable | GivenGraph
    request: ExecuteRequest
    files: Mapping[str, Path] = field(default_factory=dict)

    @property
    def level(self) -> FeatureLevel:
        """Feature level of the request.

        Raises:
            ContractViolation: the level does not exist.
        """
        return read_level(self.request.feature_level, "/feature_level")

    def validate(self, level: FeatureLevel, *, strict: bool = False) -> Validation:
        """Validates the operator at a level and, if it can be computed, the inputs or constants that are given.

        Raises:
            OSError: a file cannot be read.
        """
        found = self.dispatchable.validate(level, strict=strict)
        is_computable = all(each.code is not Code.NOT_COMPUTABLE for each in found.warnings)
        if found.valid and is_computable:
            try:
                self._read_given(self.dispatchable.check(level, strict=strict))
            except (ContractViolation, RequestError) as error:
                return replace(found, violations=error.violations)
        return found

    def _read_given(self, plan: Plan) -> None:
        if any(not name.startswith(CONSTANT) for name in self.request.inputs):
            self.read_inputs(plan, {})
        elif self.request.is_graph:
            read_file_constants(plan, self.request, self.files)

    def read_inputs(self, plan: Plan, files: Mapping[str, Path]) -> dict[str, Array]:
        """Reads the input arrays, from files where given.

        Args:
            plan: plan of the operator.
            files: files by name of the input; they override the inputs of the request.

        Raises:
            OSError: a file cannot be read.
            ContractViolation, RequestError: as for ``opwire.wire.read_inputs``.
        """
        payloads = {
            name: read_payload(path, self.request.places.get(name, pointer_to("/inputs", name)), plan.inputs.get(name))
            for name, path in {**self.files, **files}.items()
        }
        return read_inputs(plan, self.request._replace(inputs={**self.request.inputs, **payloads}))


Document = Single | Model


def read_document(data: bytes, folder: Path = _HERE) -> Document:
    """Reads the content of a file.

    Args:
        data: the content.
        folder: folder to look for referenced files in, before the current one.

    Raises:
        RequestError: the content is not JSON, of no known kind, or malformed.
    """
    value = read_text(data)
    if isinstance(value, Mapping):
        if {"operator", "graph", "nodes", "Nodes"} & value.keys():
            kept, files = without_files(value, folder)
            text = to_json(kept, inf_nan_mode="constants") if files else data.removeprefix(BOM_UTF8)
            return _request(_parsed(kept, RequestBody.split(text)), files)
        if {"resources", "dispatchables", "commands"} & value.keys():
            return read_model(value)
        if {"type", "Type"} & value.keys():
            return Single(read_operator(value), ExecuteRequest(value, HIGHEST, {}))
    detail = (
        "the file is not an operator desc (an object with type and desc), a graph (with nodes and outputs), a request "
        "(with operator or graph) or a DxDispatch model (with resources, dispatchables and commands)"
    )
    raise RequestError(ProblemCode.INVALID_REQUEST, detail)


def _parsed(value: Mapping[str, Any], body: RequestBody) -> ExecuteRequest | ValidateRequest:
    """Parses a request, or a graph by itself, whose constants are inputs of its plan even if it has no others."""
    if is_bare_graph(value) or (isinstance(value.get("graph"), Mapping) and "inputs" not in value):
        return parse_registration(body)
    return parse_execute(body) if "inputs" in value else parse_validate(body)


def _request(request: ExecuteRequest | ValidateRequest, files: Mapping[str, Path]) -> Single:
    if isinstance(request, ValidateRequest):
        given = (request.operator, request.feature_level)
        request = ExecuteRequest(*given, {}, is_graph=request.is_graph, strict=request.strict)
    if request.is_graph and isinstance(request.operator, str):
        message = f"{show(request.operator)} given; it must be a graph, as registered graphs only exist on their server"
        violation = Violation(Code.WRONG_TYPE, "/graph", message)
        raise RequestError(ProblemCode.INVALID_REQUEST, message, violations=[violation])
    if request.is_graph:
        return Single(GivenGraph(request.operator, request.plan_pointer), request, files)
    places = {"type": "/type", "desc": "/desc"}
    return Single(OperatorDispatchable(request.operator, places, {}, "/operator"), request)
