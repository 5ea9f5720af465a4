"""Reading of the input tensors of a checked request."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

import numpy as np

from ..check import Plan
from ..desc import MAX_REPORTED, pointer_to, show
from ..errors import ContractViolation, ProblemCode, RequestError
from ..jsontensor import NumberError, read_numbers
from ..operator import Code, Violation
from ..tensor import Array, BufferTensorDesc, rounded
from ..tensor_names import place, split
from . import base64text
from .base64text import decoded_size
from .payloads import Numbers, Payload
from .requests import ExecuteRequest


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
    return size == least or size in (rounded(least), desc.total_size_in_bytes)


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
