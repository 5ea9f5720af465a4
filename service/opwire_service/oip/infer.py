"""Inference requests: from a JSON head with tensors to an operator to run, and from its outputs to the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import from_json, to_json

from opwire.check import Plan
from opwire.desc import as_integer, pointer_to, show
from opwire.errors import OpwireError, ProblemCode, RequestError
from opwire.operator import ArrayField, Code, CountField, EnumField, Operator, Role, TensorField, Violation
from opwire.operators.catalog import PREFIX
from opwire.tensor import Array, BufferTensorDesc
from opwire.wire import (
    LOWEST_PRIORITY,
    Answer,
    Buffer,
    ExecuteRequest,
    Numbers,
    Parts,
    Payload,
    parse_json,
    split_body,
)

from .datatypes import DATA_TYPES, NAMES
from .models import Model

_REQUEST_FIELDS = ("id", "parameters", "inputs", "outputs", "model_name", "model_version")
_GENERAL = frozenset({"binary_data_output", "priority", "timeout", "sequence_id", "sequence_start", "sequence_end"})
_UNSUPPORTED = ("shared_memory_region", "classification")


@dataclass(frozen=True, slots=True)
class Output:
    """An output that the client asks for, and whether as raw bytes."""

    name: str
    binary: bool


@dataclass(frozen=True, slots=True)
class InferRequest:
    """An inference, as parsed.

    Attributes:
        execute: the operator to run.
        outputs: what the answer holds, in this order; None is all that the operator has, ``binary`` or not.
        binary: whether outputs that are not named are sent as raw bytes.
        identity: the client's id, to be repeated.
        places: where in the request the parts of the operator's desc came from.
        optional: optional outputs that are asked for and not described.
    """

    execute: ExecuteRequest
    outputs: tuple[Output, ...] | None
    binary: bool
    identity: str | None
    places: Mapping[str, str]
    optional: tuple[str, ...]


def parse_infer(body: Buffer, head_length: str | None, model: Model) -> InferRequest:
    """The body of an inference request.

    Raises:
        RequestError: it is not JSON, not of the protocol's form, or its parts do not fit together.
    """
    if head_length == "0":
        raise _malformed("", "a body of raw bytes alone has no shapes and no attributes; send a JSON head with it")
    head, tail = split_body(body, head_length)
    parts = Parts(tail)
    request = parse_json(head)
    if not isinstance(request, dict):
        raise _malformed("", f"{show(request)} given where an object belongs")
    for name in request:
        if name not in _REQUEST_FIELDS:
            raise _malformed(pointer_to("", name), f"a request has no member {show(name)}")
    parameters = _object(request, "parameters", "/parameters")
    desc, inputs, places = _read_inputs(request.get("inputs"), parts)
    parts.finish()
    desc |= _read_attributes(model.operator, parameters, places)
    binary = parameters.get("binary_data_output") is True
    outputs = _read_outputs(request.get("outputs"), model.operator, binary)
    identity = request.get("id")
    if not isinstance(identity, str | None):
        raise _malformed("/id", f"{show(identity)} given where a string belongs")
    execute = ExecuteRequest(
        {"type": PREFIX + model.operator.name, "desc": desc},
        model.level,
        inputs,
        timeout_ms=_timeout(parameters),
        priority=_priority(parameters),
    )
    optional = _optional_outputs(model.operator, outputs, desc)
    return InferRequest(execute, outputs, binary, identity or None, places, optional)


def _malformed(pointer: str, message: str) -> RequestError:
    at = Violation(Code.WRONG_TYPE, pointer, message)
    return RequestError(ProblemCode.INVALID_REQUEST, message, violations=[at])


def _object(owner: Mapping[str, Any], name: str, pointer: str) -> dict[str, Any]:
    value = owner.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _malformed(pointer, f"{show(value)} given where an object belongs")
    return value


def _read_inputs(given: object, parts: Parts) -> tuple[dict[str, Any], dict[str, Payload], dict[str, str]]:
    if not isinstance(given, list):
        raise _malformed("", f"inputs is {show(given)}; it must be a list of tensors")
    desc: dict[str, Any] = {}
    inputs: dict[str, Payload] = {}
    places: dict[str, str] = {}
    for i, tensor in enumerate(given):
        at = f"/inputs/{i}"
        if not isinstance(tensor, dict):
            raise _malformed(at, f"{show(tensor)} given where a tensor (an object) belongs")
        name = tensor.get("name")
        if not isinstance(name, str) or name in desc:
            raise _malformed(at, f"name is {show(name)}; it must be a string, and each input once")
        given_type = tensor.get("datatype")
        data_type = DATA_TYPES.get(given_type) if isinstance(given_type, str) else None
        if data_type is None:
            raise _malformed(at, f"datatype is {show(given_type)}; DirectML has {', '.join(DATA_TYPES)}")
        shape = tensor.get("shape")
        if not isinstance(shape, list):
            raise _malformed(at, f"shape is {show(shape)}; it must be a list of integers")
        desc[name] = {"DataType": data_type.name, "Sizes": shape}
        places |= {name: at, f"{name}/Sizes": f"{at}/shape", f"{name}/DataType": f"{at}/datatype"}
        inputs[name] = _read_payload(tensor, parts, at)
    return desc, inputs, places


def _read_payload(tensor: Mapping[str, Any], parts: Parts, pointer: str) -> Payload:
    parameters = _object(tensor, "parameters", pointer + "/parameters")
    for name in _UNSUPPORTED:
        if name in parameters:
            raise _malformed(pointer_to(pointer, "parameters", name), f"{name} is not supported by this server")
    size = parameters.get("binary_data_size")
    if ("data" in tensor) == (size is not None):
        raise _malformed(pointer, "a tensor has either data or parameters.binary_data_size")
    if size is None:
        return Numbers(tensor["data"])
    count = as_integer(size)
    if count is None or count < 0:
        at = pointer + "/parameters/binary_data_size"
        raise RequestError(ProblemCode.INVALID_FRAMING, f"{show(size)} given at {at} where a number of bytes belongs")
    return parts.take(count, pointer)


def _read_attributes(
    operator: Operator[Any], parameters: Mapping[str, Any], places: dict[str, str]
) -> dict[str, object]:
    """The fields of the desc that are given as parameters: arrays and descs as text, enums by name, counts."""
    fields = {member.name: member for member in operator.fields}
    desc: dict[str, object] = {}
    for name, value in parameters.items():
        at = pointer_to("/parameters", name)
        member = fields.get(name)
        if name in _GENERAL:
            continue
        if member is None or (isinstance(member, TensorField) and member.role is Role.INPUT):
            allowed = [known.name for known in operator.fields if known.name not in places]
            message = f"{operator.name} has no parameter {show(name)}; it has {', '.join(allowed)}"
            violation = Violation(Code.UNKNOWN_FIELD, at, message, allowed)
            raise RequestError(ProblemCode.INVALID_REQUEST, message, violations=[violation])
        places[name] = at
        desc[name] = value if isinstance(member, EnumField | CountField) else _from_text(member, value)
    return desc


def _from_text(member: ArrayField | TensorField, value: object) -> object:
    """Parameters are strings, numbers and booleans, so arrays and descs come as text; one integer may come as such."""
    if not isinstance(value, str):
        return [value] if isinstance(member, ArrayField) and as_integer(value) is not None else value
    try:
        return from_json(value if value.lstrip()[:1] in ("[", "{") else f"[{value}]")
    except ValueError:
        return value


def _read_outputs(given: object, operator: Operator[Any], binary: bool) -> tuple[Output, ...] | None:
    if not given:
        return None
    if not isinstance(given, list):
        raise _malformed("/outputs", f"{show(given)} given where a list of outputs belongs")
    known = [member.name for member in operator.tensor_fields(Role.OUTPUT, Role.OPTIONAL_OUTPUT)]
    outputs = []
    for i, output in enumerate(given):
        at = f"/outputs/{i}"
        if not isinstance(output, dict) or output.get("name") not in known:
            name = output.get("name") if isinstance(output, dict) else output
            message = f"{show(name)} given; {operator.name} has the outputs {', '.join(known)}"
            violation = Violation(Code.UNKNOWN_TENSOR, at, message, known)
            raise RequestError(ProblemCode.INVALID_REQUEST, message, violations=[violation])
        parameters = _object(output, "parameters", at + "/parameters")
        for name in _UNSUPPORTED:
            if name in parameters:
                raise _malformed(pointer_to(at, "parameters", name), f"{name} is not supported by this server")
        outputs.append(Output(output["name"], parameters.get("binary_data", binary) is True))
    return tuple(outputs)


def _optional_outputs(
    operator: Operator[Any], outputs: tuple[Output, ...] | None, desc: Mapping[str, Any]
) -> tuple[str, ...]:
    """An optional output takes part only if it is asked for, by name or by naming none."""
    wanted = None if outputs is None else {output.name for output in outputs}
    return tuple(
        member.name
        for member in operator.tensor_fields(Role.OPTIONAL_OUTPUT)
        if member.name not in desc and (wanted is None or member.name in wanted)
    )


def with_optional_outputs(request: InferRequest, plan: Plan) -> ExecuteRequest:
    """The operator with its optional outputs described: of the sizes of the first output.

    Args:
        plan: of the operator without them.
    """
    rules = plan.operator.outputs(plan.attributes, plan.inputs)
    sizes = list(next(iter(plan.outputs.values())).sizes)
    derived = {name: {"DataType": rules[name].data_type.name, "Sizes": sizes} for name in request.optional}
    operator: Any = request.execute.operator
    return replace(request.execute, operator={**operator, "desc": {**operator["desc"], **derived}})


def _priority(parameters: Mapping[str, Any]) -> int | None:
    """The protocol's 0 is the default and 1 the highest; opwire's highest is 0."""
    given = parameters.get("priority")
    number = None if given is None else as_integer(given)
    if given is not None and (number is None or number < 0):
        raise _malformed("/parameters/priority", f"{show(given)} given where an integer from 0 belongs")
    return min(number - 1, LOWEST_PRIORITY) if number else None


def _timeout(parameters: Mapping[str, Any]) -> int | None:
    """The protocol gives microseconds; 0 is none."""
    given = parameters.get("timeout")
    number = None if given is None else as_integer(given)
    if given is not None and (number is None or number < 0):
        raise _malformed("/parameters/timeout", f"{show(given)} given where microseconds belong")
    return min(-(-number // 1000), 2**31 - 1) if number else None


def relocate(error: OpwireError, places: Mapping[str, str]) -> None:
    """Makes the violations of an operator point to where the request had what is wrong.

    The clients of the protocol show one string alone, so it holds what the violations say.
    """
    if error.violations:
        error.detail = "; ".join(found.message for found in error.violations)
    error.violations = tuple(
        Violation(found.code, _place(found.pointer, places), found.message, found.allowed, found.available_from)
        for found in error.violations
    )


def _place(pointer: str, places: Mapping[str, str]) -> str:
    below = pointer.removeprefix("/operator/desc").removeprefix("/inputs").lstrip("/").split("/")
    for depth in range(len(below), 0, -1):
        found = places.get("/".join(below[:depth]))
        if found is not None:
            rest = below[depth:] if found.endswith("/shape") or below[depth:][:1] == ["data"] else []
            return pointer_to(found, *rest)
    return ""


def write_infer(
    request: InferRequest, model: Model, descs: Mapping[str, BufferTensorDesc], buffers: Mapping[str, Array]
) -> Answer:
    """The answer to an inference: the outputs in the order asked for, as numbers or in the tail."""
    wanted = request.outputs or tuple(Output(name, request.binary) for name in descs)
    listed, tail = [], []
    for output in wanted:
        desc = descs[output.name]
        tensor: dict[str, object] = {"name": output.name, "datatype": NAMES[desc.data_type], "shape": list(desc.sizes)}
        buffer = buffers[output.name]
        if output.binary:
            tensor["parameters"] = {"binary_data_size": buffer.nbytes}
            tail.append(buffer.data)
        else:
            tensor["data"] = desc.view(buffer).reshape(-1).tolist()
        listed.append(tensor)
    answer: dict[str, object] = {"model_name": model.operator.name, "model_version": model.version, "outputs": listed}
    if request.identity is not None:
        answer["id"] = request.identity
    # The clients read and write NaN and Infinity as such.
    head = to_json(answer, inf_nan_mode="constants")
    return Answer([head, *tail], len(head) if tail else None)
