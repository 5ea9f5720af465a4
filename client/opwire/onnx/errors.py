"""What can be wrong with a model, and why a node has no DirectML operators."""

from __future__ import annotations

from ..errors import ProblemCode, RequestError


class ModelError(RequestError):
    """A model, or a tensor given to it, cannot be used; the message names the node, the tensor and what is allowed."""

    def __init__(self, detail: str) -> None:
        super().__init__(ProblemCode.INVALID_MODEL, detail)


class NotLowered(Exception):
    """DirectML has no operators for a node as it is; the message says why."""
