"""The tensors of a request before they are decoded: base64 text, numbers, or slices of the tail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..desc import pointer_to, show
from ..errors import ProblemCode, RequestError
from ..fields.tensors import MOST_TENSORS
from ..schema import find, schema_of
from ..tensor_names import element, split
from ..violation import Code, Violation
from .framing import Base64, Parts


@dataclass(frozen=True, slots=True)
class Numbers:
    """A tensor given as JSON numbers."""

    value: object


Payload = str | Base64 | Numbers | memoryview
"""A tensor before it is decoded: base64 text, numbers, or a slice of the tail."""


def read_payloads(envelope: Mapping[str, Any], parts: Parts, pointer: str) -> dict[str, Payload | Violation]:
    """Returns the inputs of a request, or their violations, by name; those of an array as ``NAME[0]``, ``NAME[1]``, ...

    Args:
        envelope: the request.
        parts: the parts of its body.
        pointer: the pointer to the request in the body.

    Raises:
        RequestError: a tensor cannot be located in the tail.
    """
    inputs = envelope.get("inputs")
    if not isinstance(inputs, dict):
        return {}
    found: dict[str, Payload | Violation] = {}
    for name, value in inputs.items():
        at = f"{pointer}/inputs/{name}" if name.isalnum() else pointer_to(pointer, "inputs", name)
        if isinstance(value, list):
            found.update(_read_array(name, value, parts, at))
            continue
        found[name] = read_payload(value, parts, at)
        member, index = split(name) if name[-1:] == "]" else (name, None)
        if index is not None:
            message = f"{show(name)} given; the tensors of an array are given as a list, in the member {show(member)}"
            found[name] = Violation(Code.UNKNOWN_TENSOR, at, message)
    return found


def _read_array(name: str, values: list[Any], parts: Parts, pointer: str) -> dict[str, Payload | Violation]:
    if len(values) > MOST_TENSORS:
        message = f"{len(values)} tensors given; opwire takes at most {MOST_TENSORS}"
        if parts.tail is not None:  # the following tensors can no longer be located in it
            raise RequestError(ProblemCode.INVALID_FRAMING, f"{pointer}: {message}")
        return {name: Violation(Code.OUT_OF_RANGE, pointer, message)}
    if values and isinstance(values[0], int | float):
        message = 'a list of numbers given; a tensor is {"data": numbers}, and a list is an array of tensors'
        return {name: Violation(Code.WRONG_TYPE, pointer, message)}
    return {element(name, i): read_payload(value, parts, pointer_to(pointer, i)) for i, value in enumerate(values)} or {
        name: Violation(Code.OUT_OF_RANGE, pointer, "an empty list given; an array has at least one tensor")
    }


_BINARY, _DATA = frozenset(("binary_data_size",)), frozenset(("data",))


def read_payload(value: object, parts: Parts, pointer: str) -> Payload | Violation:
    """Returns a tensor, or its violation; see ``read_payloads``."""
    if isinstance(value, str):
        return parts.text(value)
    if isinstance(value, dict) and value.keys() == _BINARY:
        size = value["binary_data_size"]
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            at = pointer_to(pointer, "binary_data_size")
            detail = f"{show(size)} given at {at}; expected a number of bytes"
            raise RequestError(ProblemCode.INVALID_FRAMING, detail)
        return parts.take(size, pointer)
    if isinstance(value, dict) and value.keys() == _DATA:
        data = value["data"]
        return parts.text(data) if isinstance(data, str) else Numbers(data)
    message = 'a tensor is a base64 string, {"data": numbers} or {"binary_data_size": n}'
    return Violation(Code.WRONG_TYPE, pointer, f"{show(value)} given; {message}")


def take_aliases(operator: object, inputs: dict[str, Any], places: dict[str, str], pointer: str) -> None:
    """Renames the inputs that are given under an alias of their member."""
    kind = find(operator.get("type")) if isinstance(operator, dict) else None
    if kind is None:
        return
    for alias, name in schema_of(kind.name).aliases.items():
        if alias in inputs and name not in inputs:
            inputs[name] = inputs.pop(alias)
            places[name] = pointer_to(pointer, "inputs", alias)
