"""Request parsing in the service: execute, batch and validate bodies, then the input tensors of a checked plan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np

from ..check import Plan
from ..desc import MAX_REPORTED, Report, pointer_to, show
from ..errors import ContractViolation, LimitExceededError, ProblemCode, RequestError
from ..graph import CONSTANT, without_constants
from ..jsontensor import NumberError, read_numbers
from ..level import HIGHEST
from ..operator import Code, Violation
from ..tensor import Array, BufferTensorDesc, rounded
from ..tensor_names import place, split
from . import base64text
from .bare_graphs import is_bare_graph, without_payloads
from .base64text import decoded_size
from .framing import Parts
from .payloads import Numbers, Payload, read_payload, read_payloads, take_aliases
from .request_body import RequestBody

LOWEST_PRIORITY = 9


class OutputFormat(StrEnum):
    """The format of the tensors in an answer."""

    BASE64 = "base64"
    NUMBERS = "numbers"
    BINARY = "binary"


class ExecuteRequest(NamedTuple):
    """A parsed request to run an operator or graph. Neither that nor its tensors are checked yet.

    If ``is_graph``, ``operator`` is the graph without the tensors of its constants, which are among the inputs, or the
    name of a registered graph, for which the level is None if not given.

    If ``strict``, what the documentation forbids is a violation even if DirectML accepts it. If ``is_bare``, the
    graph is the whole request.

    ``inputs`` has the tensors of an array as ``NAME[0]``, ``NAME[1]``, ... ``pointer`` points to the request in the
    body, and ``places`` has the pointers to inputs that are not in its member ``inputs`` under their own name.
    """

    operator: object
    feature_level: object
    inputs: Mapping[str, Payload]
    timeout_ms: int | None = None
    priority: int | None = None
    device: str | None = None
    output_format: OutputFormat = OutputFormat.BASE64
    pointer: str = ""
    is_graph: bool = False
    places: Mapping[str, str] = {}
    strict: bool = False
    is_bare: bool = False

    @property
    def plan_pointer(self) -> str:
        """The pointer to the operator or graph."""
        return self.pointer if self.is_bare else f"{self.pointer}/{'graph' if self.is_graph else 'operator'}"


@dataclass(frozen=True, slots=True)
class ValidateRequest:
    """An operator desc or a graph to check; the attributes are those of ``ExecuteRequest``."""

    operator: object
    feature_level: object
    is_graph: bool = False
    strict: bool = False
    is_bare: bool = False

    @property
    def plan_pointer(self) -> str:
        """The pointer to the operator or graph."""
        return "" if self.is_bare else "/graph" if self.is_graph else "/operator"


_ENVELOPE: Mapping[str, None] = dict.fromkeys(
    ("feature_level", "strict", "operator", "graph", "inputs", "timeout_ms", "priority", "device", "output_format")
)
_BATCH: Mapping[str, None] = dict.fromkeys(("requests",))
_VALIDATE: Mapping[str, None] = dict.fromkeys(("feature_level", "strict", "operator", "graph"))


def parse_execute(body: RequestBody) -> ExecuteRequest:
    """Parses the body of an execute request.

    Raises:
        RequestError: it is not JSON, does not have this form, or its parts do not fit together.
    """
    return body.read(read_execute)


def parse_batch(body: RequestBody, most: int) -> list[ExecuteRequest | RequestError]:
    """Parses the body of a batch: each request, or the error that prevents it from being parsed.

    Args:
        body: the body.
        most: the maximum number of requests.

    Raises:
        LimitExceededError: it has more requests.
        RequestError: the body as a whole does not have this form, or a tensor cannot be located in the tail.
    """
    return body.read(lambda document, parts: _read_batch(document, parts, most))


def _read_batch(document: object, parts: Parts, most: int) -> list[ExecuteRequest | RequestError]:
    envelope = read_envelope(document, _BATCH)
    listed = envelope.get("requests")
    if not isinstance(listed, list):
        at = "/requests" if "requests" in envelope else ""
        refuse([Violation(Code.WRONG_TYPE, at, f"{show(listed)} given; expected a list of requests")])
    if len(listed) > most:
        detail = f"{len(listed)} requests given; this server takes at most {most}"
        raise LimitExceededError(ProblemCode.BATCH_TOO_LARGE, detail, limit=most, size=len(listed))
    requests: list[ExecuteRequest | RequestError] = []
    for i, item in enumerate(listed):
        try:
            requests.append(read_execute(item, parts, f"/requests/{i}"))
        except RequestError as error:
            # Without a tail, the other requests are unaffected.
            if error.code is ProblemCode.INVALID_FRAMING and parts.tail is not None:
                raise
            requests.append(error)
    return requests


def parse_validate(body: RequestBody) -> ValidateRequest:
    """Parses the body of a validate request.

    Raises:
        RequestError: it is not JSON, or does not have this form.
    """
    return body.read(read_validate)


def read_validate(document: object, parts: Parts) -> ValidateRequest:
    if is_bare_graph(document):
        return ValidateRequest(without_payloads(document, parts, ""), HIGHEST, is_graph=True, is_bare=True)
    envelope = read_envelope(document, _VALIDATE)
    report = Report()
    _one_of_both(envelope, "", report)
    strict = _strict(envelope, "", report)
    if report.violations:
        refuse(report.violations)
    level = _given(envelope, "feature_level", None if isinstance(envelope.get("graph"), str) else HIGHEST)
    if "graph" not in envelope:
        return ValidateRequest(envelope["operator"], level, strict=strict)
    graph = without_payloads(envelope["graph"], parts, "/graph")
    return ValidateRequest(graph, level, is_graph=True, strict=strict)


def _one_of_both(envelope: Mapping[str, Any], pointer: str, report: Report) -> None:
    """Checks that a request has either an operator or a graph."""
    if "operator" not in envelope and "graph" not in envelope:
        report.add(Code.MISSING_FIELD, pointer, "operator or graph is required and missing")
    elif "operator" in envelope and "graph" in envelope:
        report.add(Code.UNKNOWN_FIELD, f"{pointer}/graph", "operator and graph given; a request has only one of them")


def _given(envelope: Mapping[str, Any], name: str, default: Any) -> Any:
    value = envelope.get(name)
    return default if value is None else value


def refuse(violations: Sequence[Violation]) -> NoReturn:
    places = ", ".join(show(violation.pointer) if violation.pointer else "the body" for violation in violations[:3])
    raise RequestError(ProblemCode.INVALID_REQUEST, f"the request is malformed at {places}", violations=violations)


def read_envelope(value: object, fields: Mapping[str, object], pointer: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        refuse([Violation(Code.WRONG_TYPE, pointer, f"{show(value)} given; expected an object")])
    if value.keys() <= fields.keys():
        return value
    report = Report()
    report.unknown_fields(value, fields, pointer, "the request")
    if report.violations:
        refuse(report.violations)
    return value


def read_execute(value: object, parts: Parts, pointer: str = "") -> ExecuteRequest:
    # The tail is consumed before anything can be rejected, since later requests depend on their position in it.
    inputs = read_payloads(value, parts, pointer) if isinstance(value, dict) else {}
    graph = value.get("graph") if isinstance(value, dict) else None
    places: dict[str, str] = {}
    if isinstance(graph, dict):
        graph, held = without_constants(graph, f"{pointer}/graph")
        for name, (tensor, at) in held.items():
            inputs[CONSTANT + name], places[CONSTANT + name] = read_payload(tensor, parts, at), at
    if is_bare_graph(value):
        message = 'a graph given by itself, which has no inputs to run with; send it as the member "graph" of a request'
        refuse([Violation(Code.MISSING_FIELD, pointer, message)])
    envelope = read_envelope(value, _ENVELOPE, pointer)
    report = Report()
    _one_of_both(envelope, pointer, report)
    if "inputs" not in envelope:
        report.add(Code.MISSING_FIELD, pointer, "inputs is required and missing")
    if "inputs" in envelope and not isinstance(envelope["inputs"], dict):
        at = f"{pointer}/inputs"
        report.add(Code.WRONG_TYPE, at, f"{show(envelope['inputs'])} given; expected an object of tensors")
    report.violations += [payload for payload in inputs.values() if isinstance(payload, Violation)][:MAX_REPORTED]
    options = _NO_OPTIONS if envelope.keys() <= _PLAIN else _read_options(envelope, pointer, report)
    if report.violations:
        refuse(report.violations)
    is_graph = "graph" in envelope
    if not is_graph:
        take_aliases(envelope["operator"], inputs, places, pointer)
    return ExecuteRequest(
        graph if is_graph else envelope["operator"],
        _given(envelope, "feature_level", None if isinstance(graph, str) else HIGHEST),
        cast(dict[str, Payload], inputs),  # a violation would have been raised
        options.timeout_ms,
        options.priority,
        options.device,
        options.output_format,
        pointer,
        is_graph,
        places,
        options.strict,
    )


_PLAIN = frozenset(("operator", "graph", "inputs", "feature_level"))
"""The members of a request that says nothing about how it is to be run."""


class _Options(NamedTuple):
    """What a request may say about how it is to be run; the attributes are those of ``ExecuteRequest``."""

    timeout_ms: int | None = None
    priority: int | None = None
    device: str | None = None
    output_format: OutputFormat = OutputFormat.BASE64
    strict: bool = False


_NO_OPTIONS = _Options()


def _read_options(envelope: Mapping[str, Any], pointer: str, report: Report) -> _Options:
    return _Options(
        _number(envelope, "timeout_ms", pointer, report, 1, 2**31 - 1),
        _number(envelope, "priority", pointer, report, 0, LOWEST_PRIORITY),
        _device(envelope, pointer, report),
        _output_format(envelope, pointer, report),
        _strict(envelope, pointer, report),
    )


_FORMATS = {row.value: row for row in (OutputFormat.BASE64, OutputFormat.NUMBERS)}


def _device(envelope: Mapping[str, Any], pointer: str, report: Report) -> str | None:
    device = envelope.get("device")
    if device is None or isinstance(device, str):
        return device
    report.add(Code.WRONG_TYPE, f"{pointer}/device", f"{show(device)} given; expected a name")
    return None


def _output_format(envelope: Mapping[str, Any], pointer: str, report: Report) -> OutputFormat:
    given = _given(envelope, "output_format", OutputFormat.BASE64.value)
    found = _FORMATS.get(given) if isinstance(given, str) else None
    if found is not None:
        return found
    at, formats = f"{pointer}/output_format", list(_FORMATS)
    report.add(Code.UNKNOWN_VALUE, at, f"{show(given)} given; allowed: {', '.join(formats)}", formats)
    return OutputFormat.BASE64


def _strict(envelope: Mapping[str, Any], pointer: str, report: Report) -> bool:
    given = _given(envelope, "strict", False)
    if isinstance(given, bool):
        return given
    report.add(Code.WRONG_TYPE, f"{pointer}/strict", f"{show(given)} given; expected true or false", [False, True])
    return False


def _number(
    envelope: Mapping[str, Any], name: str, pointer: str, report: Report, least: int, greatest: int
) -> int | None:
    value = envelope.get(name)
    return None if value is None else report.integer(value, f"{pointer}/{name}", least, greatest)


def read_inputs(plan: Plan, request: ExecuteRequest) -> dict[str, Array]:
    """Returns the input arrays of a checked request, as views of the received bytes where possible.

    Raises:
        ContractViolation: tensors are missing, unknown, or do not match their descs.
        RequestError: a tensor is not valid base64.
    """
    pointer = f"{request.pointer}/inputs"
    violations = _wrong_names(plan, request, pointer) if plan.inputs.keys() != request.inputs.keys() else []
    arrays = {}
    for name, desc in plan.inputs.items():
        if name not in request.inputs:
            continue
        at = f"{pointer}/{name}" if name[-1] != "]" else place(pointer, name)
        at = request.places.get(name, at)
        found = _read_tensor(request.inputs[name], desc, at)
        if isinstance(found, Violation):
            violations.append(found)
        else:
            arrays[name] = found
    if violations:
        malformed = [violation for violation in violations if violation.code is Code.INVALID_BASE64]
        if malformed:
            raise RequestError(ProblemCode.INVALID_BASE64, malformed[0].message, violations=malformed)
        raise ContractViolation(violations)
    return arrays


def are_views(plan: Plan, request: ExecuteRequest) -> bool:
    """Returns whether all inputs of a checked request can be read as views of its body, without a copy."""
    given = [(request.inputs.get(name), desc) for name, desc in plan.inputs.items()]
    return all(isinstance(payload, memoryview) and _is_view(payload, desc) for payload, desc in given)


def _is_view(payload: memoryview, desc: BufferTensorDesc) -> bool:
    return not _fits(len(payload), desc) or bool(desc.view(payload).flags.aligned)


def _wrong_names(plan: Plan, request: ExecuteRequest, pointer: str) -> list[Violation]:
    """Returns the violations for missing and unknown tensors; for an array, one with the expected number of tensors."""
    given, expected = (
        _members(name for name in names if name not in request.places) for names in (request.inputs, plan.inputs)
    )
    violations = [
        Violation(Code.MISSING_TENSOR, pointer, f"{member} is required and missing")
        for member in expected
        if member not in given
    ]
    for member in islice((member for member in given if given[member] != expected.get(member, 0)), MAX_REPORTED):
        at = pointer_to(pointer, member)
        if member in expected:
            message = f"{_counted(given[member])} given; with this desc {member} takes {_counted(expected[member])}"
            violations.append(Violation(Code.COUNT_MISMATCH, at, message))
        else:
            owner = "the graph" if request.is_graph else plan.operator.name
            message = f"{owner} has no input {show(member)} here; its inputs are {', '.join(expected) or 'none'}"
            violations.append(Violation(Code.UNKNOWN_TENSOR, at, message, list(expected)))
    return violations


def _members(names: Iterable[str]) -> dict[str, int | None]:
    """Returns the number of tensors of each array, by member; None for members that are not arrays."""
    found: dict[str, int | None] = {}
    for name in names:
        member, index = split(name)
        found[member] = None if index is None else (found.get(member) or 0) + 1
    return found


def _counted(count: int | None) -> str:
    return "a single tensor" if count is None else f"a list of {count} tensor{'s' if count != 1 else ''}"


def _read_tensor(payload: Payload, desc: BufferTensorDesc, pointer: str) -> Array | Violation:
    if isinstance(payload, Numbers):
        try:
            return read_numbers(payload.value, desc, f"{pointer}/data")
        except NumberError as error:
            return error.violation
    if isinstance(payload, memoryview):
        if not _fits(len(payload), desc):
            return _wrong_size(len(payload), desc, pointer)
        view = desc.view(payload)
        # Unlike bytes(), this copy releases the GIL.
        return view if view.flags.aligned else desc.view(np.frombuffer(payload, np.uint8).copy())
    return _decode(payload if isinstance(payload, str) else payload.text, desc, pointer)


def _decode(text: str | memoryview, desc: BufferTensorDesc, pointer: str) -> Array | Violation:
    size = decoded_size(text)
    if not _fits(size, desc):
        # Text of the wrong size is not decoded; a scan suffices to determine the error.
        is_base64 = len(text) % 4 == 0 and _BASE64.fullmatch(text.encode() if isinstance(text, str) else text)
        return _wrong_size(size, desc, pointer) if is_base64 else not_base64("invalid characters or length", pointer)
    try:
        return desc.view(base64text.decoded(text, size))
    except ValueError as error:
        return not_base64(str(error), pointer)


_BASE64 = re.compile(rb"[A-Za-z0-9+/]*={0,2}")


def not_base64(reason: str, pointer: str) -> Violation:
    """Returns the violation for text that is not valid base64."""
    return Violation(Code.INVALID_BASE64, pointer, f"not base64 (RFC 4648, section 4, with padding): {reason}")


def _fits(size: int, desc: BufferTensorDesc) -> bool:
    least = desc.data_size_in_bytes
    return size in (least, rounded(least), desc.total_size_in_bytes)


def _wrong_size(size: int, desc: BufferTensorDesc, pointer: str) -> Violation:
    allowed = desc.accepted_sizes_in_bytes
    strides = "" if desc.strides is None else f" and strides {list(desc.strides)}"
    return Violation(
        Code.BYTE_COUNT_MISMATCH,
        pointer,
        f"{size} bytes given; {desc.data_type.name} with sizes {list(desc.sizes)}{strides} takes "
        f"{' or '.join(map(str, allowed))}",
        list(allowed),
    )
