"""Requests with a DxDispatch model instead of an operator."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..desc import show
from ..operator import Code, Violation
from .framing import Parts
from .request_body import RequestBody
from .requests import ExecuteRequest, read_envelope, read_execute, refuse

POINTER = "/model"
"""The pointer to the model in the body."""

_OPTIONS = ("feature_level", "timeout_ms", "priority", "device", "output_format")


class ModelRequest(NamedTuple):
    """A parsed model to check or run; ``options`` is a request with everything but the operator and the inputs."""

    model: object
    options: ExecuteRequest


def parse_model(body: RequestBody, *, runs: bool) -> ModelRequest | None:
    """Parses a request with a model; returns None if the body has no member ``model``.

    Args:
        body: the body.
        runs: whether the model is to be run. If it is only checked, the feature level is the only option.

    Raises:
        RequestError: the body is not JSON, or does not have this form.
    """

    def read(document: object, parts: Parts) -> ModelRequest | None:
        if not isinstance(document, dict) or "model" not in document:
            return None
        return _read(document, parts, _OPTIONS if runs else _OPTIONS[:1])

    return body.read(read)


def _read(document: dict[str, Any], parts: Parts, options: tuple[str, ...]) -> ModelRequest:
    read_envelope(document, dict.fromkeys(("model", *options)))
    model = document["model"]
    if not isinstance(model, dict):
        refuse([Violation(Code.WRONG_TYPE, POINTER, f"{show(model)} given; expected a model")])
    rest = {name: document.get(name) for name in options}
    return ModelRequest(model, read_execute({**rest, "operator": {}, "inputs": {}}, parts, ""))
