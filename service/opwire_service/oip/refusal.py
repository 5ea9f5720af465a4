"""How a request that is not of the protocol's form is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opwire.desc import as_integer, show
from opwire.errors import ProblemCode, RequestError
from opwire.operator import Code, Violation


def malformed(
    pointer: str, message: str, code: Code = Code.WRONG_TYPE, allowed: Sequence[object] | None = None
) -> RequestError:
    """The error for something at a place of the request; what is missing is named by its parent."""
    violation = Violation(code, pointer, message, allowed)
    return RequestError(ProblemCode.INVALID_REQUEST, message, violations=[violation])


def read_object(owner: Mapping[str, Any], name: str, pointer: str) -> dict[str, Any]:
    """A member that is an object; empty where it is absent or null."""
    value = owner.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise malformed(f"{pointer}/{name}", f"{name} is {show(value)}; it must be an object")
    return value


def read_flag(owner: Mapping[str, Any], name: str, pointer: str, default: bool) -> bool:
    """A member that is true or false."""
    value = owner.get(name, default)
    if not isinstance(value, bool):
        raise malformed(f"{pointer}/{name}", f"{name} is {show(value)}; it must be true or false")
    return value


def read_count(owner: Mapping[str, Any], name: str, pointer: str) -> int | None:
    """A member that is an integer from 0; None where it is absent."""
    value = owner.get(name)
    if value is None:
        return None
    number = as_integer(value)
    if number is None or number < 0:
        code = Code.WRONG_TYPE if number is None else Code.OUT_OF_RANGE
        raise malformed(f"{pointer}/{name}", f"{name} is {show(value)}; it must be an integer from 0", code)
    return number
