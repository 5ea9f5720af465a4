"""Request parsing in the service: execute, batch and validate bodies. ``inputs`` reads the tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, NoReturn, cast

from ..desc import MAX_REPORTED, Report, show
from ..errors import LimitExceededError, ProblemCode, RequestError
from ..graph import CONSTANT, without_constants
from ..level import HIGHEST
from ..operator import Code, Violation
from .bare_graphs import is_bare_graph, without_payloads
from .framing import Parts
from .payloads import Payload, read_payload, read_payloads, take_aliases
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
