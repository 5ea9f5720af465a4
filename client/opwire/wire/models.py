"""Requests with a whole DxDispatch model in place of an operator."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..desc import show
from ..operator import Code, Violation
from .framing import Parts
from .request_body import RequestBody
from .requests import ExecuteRequest, read_envelope, read_execute, refuse

POINTER = "/model"
"""Where the model stands in the body."""

_OPTIONS = ("feature_level", "timeout_ms", "priority", "device", "output_format")


class ModelRequest(NamedTuple):
    """A model to check or to run, as parsed; ``options`` is a request that has all but the operator and the inputs."""

    model: object
    options: ExecuteRequest


def parse_model(body: RequestBody, *, runs: bool) -> ModelRequest | None:
    """The request in a body; None if it has no member ``model``.

    Args:
        runs: whether the model is to be run; else it is only checked, and but a level may be given with it.

    Raises:
        RequestError: the body is not JSON, or not of this form.
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
        refuse([Violation(Code.WRONG_TYPE, POINTER, f"{show(model)} given where a model belongs")])
    rest = {name: document.get(name) for name in options}
    return ModelRequest(model, read_execute({**rest, "operator": {}, "inputs": {}}, parts, ""))
