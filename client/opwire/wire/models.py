"""Requests with a DxDispatch model instead of an operator."""

from __future__ import annotations

from typing import NamedTuple

from ..desc import show
from ..operator import Code, Violation
from .framing import Parts
from .request_body import RequestBody
from .requests import ExecuteRequest, ValidateRequest, read_envelope, read_execute, read_validate, refuse

POINTER = "/model"
"""The pointer to the model in the body."""

_OPTIONS = ("feature_level", "strict", "timeout_ms", "priority", "device", "output_format")


class ModelRequest(NamedTuple):
    """A parsed model to check or run; ``options`` is a request with everything but the operator and the inputs."""

    model: object
    options: ExecuteRequest


class ModelGiven(Exception):
    """The body holds a model instead of an operator or a graph: ``parse_model`` parses it."""


def parse_execute_unless_model(body: RequestBody) -> ExecuteRequest:
    """Does what ``parse_execute`` does.

    Raises:
        ModelGiven: the body holds a model.
        RequestError: see ``parse_execute``.
    """
    return body.read(_read_execute)


def parse_validate_unless_model(body: RequestBody) -> ValidateRequest:
    """Does what ``parse_validate`` does.

    Raises:
        ModelGiven: the body holds a model.
        RequestError: see ``parse_validate``.
    """
    return body.read(_read_validate)


def _read_execute(document: object, parts: Parts) -> ExecuteRequest:
    _leave_model(document, parts)
    return read_execute(document, parts)


def _read_validate(document: object, parts: Parts) -> ValidateRequest:
    _leave_model(document, parts)
    return read_validate(document, parts)


def _leave_model(document: object, parts: Parts) -> None:
    # With a tail the member is reported as an unknown one, because models take no tensors.
    if isinstance(document, dict) and "model" in document and parts.tail is None:
        raise ModelGiven


def parse_model(body: RequestBody, *, runs: bool) -> ModelRequest:
    """Parses a request with a model.

    Args:
        body: the body.
        runs: whether the model is to be run. If it is only checked, there are no options but the level and ``strict``.

    Raises:
        RequestError: the body is not JSON, or does not have this form.
    """

    options = _OPTIONS if runs else _OPTIONS[:2]
    return body.read(lambda document, parts: _read(document, parts, options))


def _read(document: object, parts: Parts, options: tuple[str, ...]) -> ModelRequest:
    envelope = read_envelope(document, dict.fromkeys(("model", *options)))
    model = envelope.get("model")
    if not isinstance(model, dict):
        refuse([Violation(Code.WRONG_TYPE, POINTER, f"{show(model)} given; expected a model")])
    rest = {name: envelope.get(name) for name in options}
    return ModelRequest(model, read_execute({**rest, "operator": {}, "inputs": {}}, parts))
