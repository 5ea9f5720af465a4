"""The parameters of an inference request: the operator's attributes, and the few that the protocol itself knows."""

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
"""Parameters as a JSON object, for clients that can set headers and no parameters; those in the body go first."""

POINTER = "/parameters"

_GENERAL = frozenset({"binary_data_output", "priority", "timeout", "sequence_id", "sequence_start", "sequence_end"})
"""Parameters that clients add on their own. An operator has no state, so sequences mean nothing to it."""

_LONGEST_MS = 2**31 - 1


def parse_header(text: str) -> dict[str, Any]:
    """The parameters in a header.

    Raises:
        RequestError: it is not a JSON object.
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
    """The fields of the desc that are given as parameters: arrays and descs as text, enums by name, counts.

    Args:
        model: whose fields they are.
        parameters: all that were sent.
        in_body: the names of those that stand in the body.

    Raises:
        RequestError: some are neither fields that may be given so, nor known to the protocol.
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
    """The protocol's 0 is the default and 1 the highest; opwire's highest is 0."""
    number = read_count(parameters, "priority", POINTER)
    return min(number - 1, LOWEST_PRIORITY) if number else None


def read_timeout(parameters: Mapping[str, Any]) -> int | None:
    """Milliseconds, rounded up; the protocol gives microseconds, and 0 is none."""
    number = read_count(parameters, "timeout", POINTER)
    return min(-(-number // 1000), _LONGEST_MS) if number else None


def refuse_unsupported(parameters: Mapping[str, Any], pointer: str) -> None:
    """Refuses the parameter of a tensor that asks for an extension that opwire does not have."""
    if "classification" in parameters:
        raise malformed(f"{pointer}/parameters/classification", "classification is not supported by this server")
