"""Where the parts of an operator stand in an inference request."""

from __future__ import annotations

from collections.abc import Container, Sequence

from opwire.desc import pointer_to
from opwire.errors import OpwireError
from opwire.operator import Violation
from opwire.tensor_names import element

from .parameters import POINTER

_MEMBERS = {"Sizes": "shape", "DataType": "datatype"}
"""Members of a tensor desc, as the protocol calls them."""

_QUOTED = 10


def relocate(error: OpwireError, inputs: Sequence[str], parameters: Container[str]) -> None:
    """Makes the violations of an operator point to where the request had what is wrong.

    The clients of the protocol show one string alone, so it says what the violations are.

    Args:
        error: is changed.
        inputs: the names of the input tensors, in their order.
        parameters: the names of the parameters in the body.
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
    """The place in an inference request of a pointer into an execute request; "" where it stands nowhere."""
    if pointer.startswith("/outputs/"):
        return pointer  # it is the request's own
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
    # What stands below a parameter stands in its text.
    return pointer_to(POINTER, name) if name in parameters else ""
