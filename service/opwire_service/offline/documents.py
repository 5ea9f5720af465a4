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
from opwire.graph import CONSTANT, check_graph, validate_graph, with_constants, without_constants
from opwire.level import HIGHEST, FeatureLevel
from opwire.operator import Code, Violation
from opwire.tensor import Array, BufferTensorDesc, DataType
from opwire.wire import ExecuteRequest, RequestBody, ValidateRequest, parse_execute, parse_validate, read_inputs

from .graph_files import locate
from .tensor_files import is_npy, read_npy, read_raw

_HERE = Path()


@dataclass(frozen=True, slots=True)
class GivenGraph:
    """The graph of a request."""

    graph: object

    def check(self, level: FeatureLevel, *, strict: bool = False) -> Plan:
        return check_graph(self.graph, level, strict=strict, pointer="/graph")

    def validate(self, level: FeatureLevel, *, strict: bool = False) -> Validation:
        return validate_graph(self.graph, level, strict=strict, pointer="/graph")


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
        """Validates the operator at a level and, if it is valid and can be computed, the inputs of the request.

        Raises:
            OSError: a file cannot be read.
        """
        found = self.dispatchable.validate(level, strict=strict)
        is_computable = all(each.code is not Code.NOT_COMPUTABLE for each in found.warnings)
        if found.valid and is_computable and self.request.inputs:
            try:
                self.read_inputs(self.dispatchable.check(level, strict=strict), {})
            except (ContractViolation, RequestError) as error:
                return replace(found, violations=error.violations)
        return found

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
        RequestError: the content is not JSON, not one of the three kinds, or malformed.
    """
    value = read_text(data)
    if isinstance(value, Mapping):
        if "operator" in value or "graph" in value:
            value, files = without_files(value, folder)
            text = to_json(value, inf_nan_mode="constants") if files else data.removeprefix(BOM_UTF8)
            body = RequestBody.split(text)
            return _request(parse_execute(body) if "inputs" in value else parse_validate(body), files)
        if {"resources", "dispatchables", "commands"} & value.keys():
            return read_model(value)
        if {"type", "Type"} & value.keys():
            return Single(read_operator(value), ExecuteRequest(value, HIGHEST, {}))
    detail = (
        "the file is not an operator desc (an object with type and desc), a request (with operator or graph) "
        "or a DxDispatch model (with resources, dispatchables and commands)"
    )
    raise RequestError(ProblemCode.INVALID_REQUEST, detail)


def without_files(value: Mapping[str, Any], folder: Path) -> tuple[Mapping[str, Any], dict[str, Path]]:
    """Returns a request without the constants that are in files, and those files."""
    graph = value.get("graph")
    if not isinstance(graph, Mapping):
        return value, {}
    tensors = {name: tensor for name, (tensor, _) in without_constants(graph, "")[1].items()}
    paths = {name: tensor["sourcePath"] for name, tensor in tensors.items() if _is_file(tensor)}
    kept = with_constants(graph, {name: "" if name in paths else tensor for name, tensor in tensors.items()})
    return {**value, "graph": kept}, {CONSTANT + name: locate(path, folder) for name, path in paths.items()}


def _is_file(tensor: object) -> bool:
    return isinstance(tensor, Mapping) and set(tensor) == {"sourcePath"} and isinstance(tensor["sourcePath"], str)


def _request(request: ExecuteRequest | ValidateRequest, files: Mapping[str, Path]) -> Single:
    if isinstance(request, ValidateRequest):
        given = (request.operator, request.feature_level)
        request = ExecuteRequest(*given, {}, is_graph=request.is_graph, strict=request.strict)
    if request.is_graph and isinstance(request.operator, str):
        message = f"{show(request.operator)} given; it must be a graph, as registered graphs only exist on their server"
        violation = Violation(Code.WRONG_TYPE, "/graph", message)
        raise RequestError(ProblemCode.INVALID_REQUEST, message, violations=[violation])
    if request.is_graph:
        return Single(GivenGraph(request.operator), request, files)
    places = {"type": "/type", "desc": "/desc"}
    return Single(OperatorDispatchable(request.operator, places, {}, "/operator"), request)


def read_payload(path: Path, pointer: str, desc: BufferTensorDesc | None) -> memoryview:
    """Reads a tensor's bytes from a file. The elements of a ``.npy`` file are put into the layout of the desc.

    Raises:
        OSError: the file cannot be read.
        ContractViolation: the file does not match the desc.
    """
    if desc is None or not is_npy(path):
        return read_raw(path).data
    try:
        array = read_npy(path)
    except ValueError as error:
        raise _mismatch(Code.WRONG_TYPE, pointer, f"{path} cannot be read: {error}") from None
    given = DataType.of(array.dtype)
    if given is not desc.data_type:
        message = f"{path} has the data type {given.name}; the desc says {desc.data_type.name}"
        raise _mismatch(Code.DATA_TYPES_DIFFER, pointer, message)
    if array.shape not in (desc.sizes, (desc.element_count,)):
        message = f"{path} has the shape {list(array.shape)}; the desc says {list(desc.sizes)}"
        raise _mismatch(Code.SHAPE_MISMATCH, pointer, message)
    buffer, view = desc.allocate()
    view[...] = array.reshape(desc.sizes)
    if view.tobytes() != array.tobytes():
        message = f"{path} has different values for elements that share an address because of the strides"
        raise _mismatch(Code.OVERLAP_CONFLICT, pointer, message)
    return buffer.data


def _mismatch(code: Code, pointer: str, message: str) -> ContractViolation:
    return ContractViolation([Violation(code, pointer, message)])
