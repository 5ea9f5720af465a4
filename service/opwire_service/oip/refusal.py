"""Reading of common members of a request, and the error for malformed ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opwire.desc import as_integer, show
from opwire.errors import ProblemCode, RequestError
from opwire.operator import Code, Violation


def malformed(
    pointer: str, message: str, code: Code = Code.WRONG_TYPE, allowed: Sequence[object] | None = None
) -> RequestError:
    """Returns the error for a malformed part of a request; the pointer of a missing member is that of its parent."""
    violation = Violation(code, pointer, message, allowed)
    return RequestError(ProblemCode.INVALID_REQUEST, message, violations=[violation])


def read_object(owner: Mapping[str, Any], name: str, pointer: str) -> dict[str, Any]:
    """Reads a member that is an object; returns an empty one if it is absent or null."""
    value = owner.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise malformed(f"{pointer}/{name}", f"{name} is {show(value)}; it must be an object")
    return value


def read_flag(owner: Mapping[str, Any], name: str, pointer: str, default: bool) -> bool:
    """Reads a boolean member."""
    value = owner.get(name, default)
    if not isinstance(value, bool):
        raise malformed(f"{pointer}/{name}", f"{name} is {show(value)}; it must be true or false")
    return value


def read_count(owner: Mapping[str, Any], name: str, pointer: str) -> int | None:
    """Reads a member that is a non-negative integer; returns None if it is absent or null."""
    value = owner.get(name)
    if value is None:
        return None
    number = as_integer(value)
    if number is None or number < 0:
        code = Code.WRONG_TYPE if number is None else Code.OUT_OF_RANGE
        raise malformed(f"{pointer}/{name}", f"{name} is {show(value)}; it must be a non-negative integer", code)
    return number
