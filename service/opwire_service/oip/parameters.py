"""The parameters of an inference request: the operator's attributes, and the few that the protocol itself defines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_core import from_json

from opwire.desc import pointer_to, show
from opwire.errors import ProblemCode, RequestError
from opwire.operator import Code, Violation
from opwire.wire import LOWEST_PRIORITY

from .models import ServedModel
from .refusal import malformed, read_count

PARAMETERS_HEADER = "Opwire-Parameters"
"""Header with parameters as a JSON object, for clients that cannot set them in the body, which takes precedence."""

POINTER = "/parameters"

_GENERAL = frozenset(
    {"binary_data_output", "strict", "priority", "timeout", "sequence_id", "sequence_start", "sequence_end"}
)
"""Parameters of requests: ``strict``, and those of the protocol, of which those of sequences are ignored."""

_MAX_TIMEOUT_MS = 2**31 - 1


def parse_header(text: str) -> dict[str, Any]:
    """Parses the parameters in the header.

    Raises:
        RequestError: the header is not a JSON object.
    """
    if not text:
        return {}
    try:
        given = from_json(text)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise RequestError(
            ProblemCode.INVALID_REQUEST, f"{PARAMETERS_HEADER} is {show(text)}; it must be a JSON object"
        )
    return given


def read_attributes(model: ServedModel, parameters: Mapping[str, Any], in_body: Iterable[str]) -> dict[str, Any]:
    """Reads the attributes of the operator from the parameters: arrays and descs as text, enums by name, and counts.

    Args:
        model: the model.
        parameters: all parameters of the request.
        in_body: names of the parameters in the body.

    Raises:
        RequestError: a parameter is neither an attribute of the operator nor defined by the protocol.
    """
    desc: dict[str, Any] = {}
    unknown: list[str] = []
    for name, value in parameters.items():
        member = model.parameters.get(name)
        if member is not None:
            desc[name] = member.from_parameter(value)
        elif name not in _GENERAL:
            unknown.append(name)
    if unknown:
        allowed = list(model.parameters)
        message = (
            f"{model.name} has no parameter {', '.join(map(show, unknown[:3]))}; it has {', '.join(allowed) or 'none'}"
        )
        violations = [
            Violation(Code.UNKNOWN_FIELD, pointer_to(POINTER, name) if name in in_body else "", message, allowed)
            for name in unknown
        ]
        raise RequestError(ProblemCode.INVALID_REQUEST, message, violations=violations)
    return desc


def read_priority(parameters: Mapping[str, Any]) -> int | None:
    """Returns the priority, or None for the default. The protocol's highest is 1, with 0 the default; opwire's is 0."""
    number = read_count(parameters, "priority", POINTER)
    return min(number - 1, LOWEST_PRIORITY) if number else None


def read_timeout(parameters: Mapping[str, Any]) -> int | None:
    """Returns the timeout in milliseconds, rounded up, or None. The protocol has microseconds, with 0 for none."""
    number = read_count(parameters, "timeout", POINTER)
    return min(-(-number // 1000), _MAX_TIMEOUT_MS) if number else None


def refuse_unsupported(parameters: Mapping[str, Any], pointer: str) -> None:
    """Refuses tensor parameters of extensions that opwire does not support."""
    if "classification" in parameters:
        raise malformed(f"{pointer}/parameters/classification", "classification is not supported by this server")
