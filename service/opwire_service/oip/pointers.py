"""Translation of JSON pointers into an operator to pointers into an inference request."""

from __future__ import annotations

from collections.abc import Container, Sequence

from opwire.desc import pointer_to
from opwire.errors import OpwireError
from opwire.operator import Violation
from opwire.tensor_names import element

from .parameters import POINTER

_MEMBERS = {"Sizes": "shape", "DataType": "datatype"}
"""The protocol's names of the members of a tensor desc."""

_QUOTED = 10


def relocate(error: OpwireError, inputs: Sequence[str], parameters: Container[str]) -> None:
    """Makes the violations in an error point into the inference request.

    The detail is replaced by the messages of the violations, since the protocol's clients show nothing else.

    Args:
        error: the error; modified in place.
        inputs: names of the input tensors, in the order of the request.
        parameters: names of the parameters in the body.
    """
    messages = [found.message for found in error.violations]
    if messages:
        more = f"; and {len(messages) - _QUOTED} more" if len(messages) > _QUOTED else ""
        error.detail = "; ".join(messages[:_QUOTED]) + more
    error.violations = tuple(
        Violation(
            found.code, place(found.pointer, inputs, parameters), found.message, found.allowed, found.available_from
        )
        for found in error.violations
    )


def place(pointer: str, inputs: Sequence[str], parameters: Container[str]) -> str:
    """Translates a pointer into an execute request to one into the inference request; "" if there is no such place."""
    if pointer.startswith("/outputs/"):
        return pointer  # already points into the inference request
    desc, _, below = pointer.partition("/operator/desc/" if pointer.startswith("/operator") else "/inputs/")
    if desc or not below:
        return ""
    name, *rest = (part.replace("~1", "/").replace("~0", "~") for part in below.split("/"))
    if rest and rest[0].isdecimal() and element(name, int(rest[0])) in inputs:
        name, rest = element(name, int(rest[0])), rest[1:]
    if name in inputs:
        tensor = pointer_to("", "inputs", inputs.index(name))
        if rest and rest[0] in _MEMBERS:
            return pointer_to(tensor, _MEMBERS[rest[0]], *rest[1:])
        return pointer_to(tensor, *rest) if rest[:1] == ["data"] else tensor
    # Parameters are text, so there is no pointer to anything inside one.
    return pointer_to(POINTER, name) if name in parameters else ""
