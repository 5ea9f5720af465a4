"""Parsing of inference requests into operators to run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from opwire.check import Plan
from opwire.desc import pointer_to, show
from opwire.errors import ContractViolation
from opwire.fields.tensors import MOST_TENSORS
from opwire.operator import Code, Violation
from opwire.reading import read_desc
from opwire.tensor import BufferTensorDesc
from opwire.tensor_names import element, split
from opwire.wire import ExecuteRequest, Numbers, Parts, Payload, RequestBody

from .datatypes import DATA_TYPES
from .graph_models import refuse_other_descs
from .models import ServedModel
from .parameters import POINTER, parse_header, read_attributes, read_priority, read_timeout, refuse_unsupported
from .refusal import malformed, read_count, read_flag, read_object
from .shared_memory import SharedMemoryRange, read_place

_MEMBERS = ("id", "parameters", "inputs", "outputs", "model_name", "model_version")

_TENSOR_MEMBERS = ("name", "datatype", "shape", "parameters", "data")

_NOTHING = memoryview(b"")

_QUOTED = 10

_MAX_INPUTS = 2 * MOST_TENSORS
"""Maximum number of input tensors: room for the longest tensor array and the tensors besides it."""


@dataclass(frozen=True, slots=True)
class RequestedOutput:
    """An output that the client requests.

    Attributes:
        name: name of the output.
        binary: whether to send it as raw bytes.
        place: range of shared memory to write the bytes to, if any.
    """

    name: str
    binary: bool
    place: SharedMemoryRange | None = None


@dataclass(frozen=True, slots=True)
class InferRequest:
    """A parsed inference request.

    Attributes:
        execute: the operator to run, with its inputs in the order of the request.
        parameters: names of the parameters in the body.
        outputs: the requested outputs in order; empty for all outputs of the operator.
        binary: whether outputs are sent as raw bytes if none are named.
        identity: the client's ID, to repeat in the response.
        optional: requested optional outputs without a desc.
        shared: ranges of the inputs in shared memory, which have no bytes yet in ``execute``.
    """

    execute: ExecuteRequest
    parameters: frozenset[str]
    outputs: tuple[RequestedOutput, ...]
    binary: bool
    identity: str | None
    optional: tuple[str, ...]
    shared: Mapping[str, SharedMemoryRange] = field(default_factory=dict)


def parse_infer(body: RequestBody, model: ServedModel, header: str = "") -> InferRequest:
    """Parses the body of an inference request.

    Args:
        body: JSON head, and a binary tail with raw tensors if there is one.
        model: model to run.
        header: further parameters, as a JSON object.

    Raises:
        RequestError: the body is not JSON, not of the protocol's form, or inconsistent with its tail.
        ContractViolation: a tensor is not one of the operator's, or its data type does not exist in DirectML.
    """
    if not body.text and body.tail is not None:
        raise malformed("", "a body of raw bytes only has no shapes or attributes; send a JSON head with it")
    return body.read(lambda document, parts: _read_request(document, parts, model, header))


def _read_request(request: object, parts: Parts, model: ServedModel, header: str) -> InferRequest:
    if not isinstance(request, dict):
        raise malformed("", f"{show(request)} given; expected an object")
    for name in request:
        if name not in _MEMBERS:
            raise malformed(pointer_to("", name), f"a request has no member {show(name)}", Code.UNKNOWN_FIELD, _MEMBERS)
    in_body = read_object(request, "parameters", "")
    parameters = {**parse_header(header), **in_body} if header else in_body
    descs, inputs = _read_inputs(request, model, parts)
    attributes = read_attributes(model, parameters, in_body)
    binary = read_flag(parameters, "binary_data_output", POINTER, default=False)
    outputs = _read_outputs(request.get("outputs"), model, binary)
    identity = request.get("id")
    if not isinstance(identity, str | None):
        raise malformed("/id", f"{show(identity)} given; expected a string")
    desc = {} if model.graph else {**_members(descs), **attributes}
    execute = ExecuteRequest(
        {"type": model.operator.name, "desc": desc},
        model.level,
        {name: _NOTHING if isinstance(payload, SharedMemoryRange) else payload for name, payload in inputs.items()},
        timeout_ms=read_timeout(parameters),
        priority=read_priority(parameters),
        is_graph=model.graph is not None,
        strict=read_flag(parameters, "strict", POINTER, default=False),
    )
    if model.graph is not None:
        refuse_other_descs(model.graph, descs)
        execute = model.graph.request(execute)
    optional = _optional_outputs(model, outputs, desc) if model.optional else ()
    shared = {name: payload for name, payload in inputs.items() if isinstance(payload, SharedMemoryRange)}
    return InferRequest(execute, frozenset(in_body), outputs, binary, identity or None, optional, shared)


def _read_inputs(
    request: Mapping[str, Any], model: ServedModel, parts: Parts
) -> tuple[dict[str, Any], dict[str, Payload | SharedMemoryRange]]:
    given = request.get("inputs")
    if not isinstance(given, list):
        at = "/inputs" if "inputs" in request else ""
        raise malformed(at, f"inputs is {show(given)}; it must be a list of tensors")
    descs: dict[str, Any] = {}
    inputs: dict[str, Payload | SharedMemoryRange] = {}
    if len(given) > _MAX_INPUTS:
        message = f"{len(given)} tensors given; at most {_MAX_INPUTS} are allowed"
        raise malformed("/inputs", message, Code.OUT_OF_RANGE)
    for i, tensor in enumerate(given):
        at = f"/inputs/{i}"
        if not isinstance(tensor, dict):
            raise malformed(at, f"{show(tensor)} given; expected a tensor (an object)")
        for member in tensor.keys() - _TENSOR_MEMBERS:
            message = f"a tensor has no member {show(member)}"
            raise malformed(pointer_to(at, member), message, Code.UNKNOWN_FIELD, _TENSOR_MEMBERS)
        for member in ("name", "datatype", "shape"):
            if tensor.get(member) is None:
                raise malformed(at, f"{member} is required and missing", Code.MISSING_FIELD)
        name = _tensor_name(tensor["name"], model.inputs, f"{at}/name")
        if name in inputs:
            raise malformed(f"{at}/name", f"{name} is given twice")
        data_type = _one_of(tensor["datatype"], DATA_TYPES, Code.UNKNOWN_VALUE, f"{at}/datatype")
        descs[name] = {"DataType": DATA_TYPES[data_type].name, "Sizes": tensor["shape"]}
        inputs[name] = _read_payload(tensor, parts, at)
    return descs, inputs


def _members(descs: Mapping[str, Any]) -> dict[str, Any]:
    """Groups descs by member: tensors of an array become a list by index, with no index missing."""
    desc: dict[str, Any] = {}
    arrays: dict[str, dict[int, Any]] = {}
    for name, given in descs.items():
        member, index = split(name)
        if index is None:
            desc[member] = given
        else:
            arrays.setdefault(member, {})[index] = given
    for member, listed in arrays.items():
        missing = next((i for i in range(len(listed)) if i not in listed), None)
        if missing is not None:
            raise malformed("/inputs", f"{element(member, missing)} is required and missing", Code.MISSING_TENSOR)
        desc[member] = [listed[i] for i in range(len(listed))]
    return desc


def _tensor_name(given: object, members: Mapping[str, bool], pointer: str) -> str:
    """Checks the name of a tensor: that of a member, or ``MEMBER[0]``, ``MEMBER[1]``, ... for an array."""
    if isinstance(given, str) and members.get(given) is False:
        return given
    member, index = split(given) if isinstance(given, str) else ("", None)
    if index is None or not members.get(member):
        allowed = [f"{name}[0], {name}[1], ..." if is_array else name for name, is_array in members.items()]
        message = f"{show(given)} given; allowed: {', '.join(allowed)}"
        raise ContractViolation([Violation(Code.UNKNOWN_TENSOR, pointer, message, allowed)], message)
    return str(given)


def _one_of(given: object, allowed: Collection[str], code: Code, pointer: str) -> str:
    if isinstance(given, str) and given in allowed:
        return given
    message = f"{show(given)} given; allowed: {', '.join(allowed)}"
    raise ContractViolation([Violation(code, pointer, message, list(allowed))], message)


def _read_payload(tensor: Mapping[str, Any], parts: Parts, pointer: str) -> Payload | SharedMemoryRange:
    parameters = read_object(tensor, "parameters", pointer)
    refuse_unsupported(parameters, pointer)
    size = read_count(parameters, "binary_data_size", f"{pointer}/parameters")
    place = read_place(parameters, f"{pointer}/parameters")
    if ("data" in tensor) + (size is not None) + (place is not None) != 1:
        message = "a tensor needs exactly one of data, parameters.binary_data_size, parameters.shared_memory_region"
        raise malformed(pointer, message)
    if place is not None:
        return place
    return Numbers(tensor["data"]) if size is None else parts.take(size, pointer)


def _read_outputs(given: object, model: ServedModel, binary: bool) -> tuple[RequestedOutput, ...]:
    if not given:
        return ()
    if not isinstance(given, list):
        raise malformed("/outputs", f"{show(given)} given; expected a list of outputs")
    outputs: dict[str, RequestedOutput] = {}
    for i, output in enumerate(given):
        at = f"/outputs/{i}"
        if not isinstance(output, dict):
            raise malformed(at, f"{show(output)} given; expected an output (an object)")
        if output.get("name") is None:
            raise malformed(at, "name is required and missing", Code.MISSING_FIELD)
        name = _tensor_name(output["name"], model.outputs, f"{at}/name")
        if name in outputs:
            raise malformed(f"{at}/name", f"{name} is requested twice")
        parameters = read_object(output, "parameters", at)
        refuse_unsupported(parameters, at)
        raw = read_flag(parameters, "binary_data", f"{at}/parameters", binary)
        place = read_place(parameters, f"{at}/parameters")
        outputs[name] = RequestedOutput(name, raw or place is not None, place)
    return tuple(outputs.values())


def _optional_outputs(
    model: ServedModel, outputs: tuple[RequestedOutput, ...], desc: Mapping[str, Any]
) -> tuple[str, ...]:
    """Returns the optional outputs without a desc that are requested, either by name or by naming no outputs."""
    wanted = {output.name for output in outputs}
    return tuple(name for name in model.optional if desc.get(name) is None and (not wanted or name in wanted))


def with_optional_outputs(request: InferRequest) -> ExecuteRequest:
    """Returns the operator with descs for those optional outputs whose descs follow from its inputs."""
    operator: Any = request.execute.operator
    decided = read_desc(operator, "").decided
    derived = {name: decided[name].derived().to_json() for name in request.optional if name in decided}
    return request.execute._replace(operator={**operator, "desc": {**operator["desc"], **derived}})


def with_shared_inputs(execute: ExecuteRequest, read: Mapping[str, memoryview]) -> ExecuteRequest:
    """Returns the operator with the bytes read from shared memory as inputs."""
    return execute._replace(inputs={**execute.inputs, **read})


def refuse_unknown_outputs(request: InferRequest, plan: Plan) -> None:
    """Refuses outputs that the plan does not have: indices beyond the end of an array, undetermined optional ones.

    Raises:
        ContractViolation: the plan lacks a requested output.
    """
    unknown = [i for i, output in enumerate(request.outputs) if output.name not in plan.outputs]
    if unknown:
        allowed = list(plan.outputs)
        message = f"{request.outputs[unknown[0]].name} given; this desc has the outputs {', '.join(allowed[:_QUOTED])}"
        at = f"/outputs/{unknown[0]}/name"
        raise ContractViolation([Violation(Code.UNKNOWN_TENSOR, at, message, allowed)], message)


def refuse_small_ranges(request: InferRequest, outputs: Mapping[str, BufferTensorDesc]) -> None:
    """Refuses ranges of shared memory that are too small for their outputs.

    Args:
        request: the request.
        outputs: descs of all outputs.

    Raises:
        RequestError: a range is too small.
    """
    for output in request.outputs:
        if output.place is None:
            continue
        desc = outputs[output.name]
        size = desc.element_count * desc.data_type.dtype.itemsize
        if output.place.byte_size < size:
            message = f"{output.place.byte_size} bytes of shared memory given; {output.name} needs {size}"
            raise malformed(output.place.pointer, message, Code.OUT_OF_RANGE)
