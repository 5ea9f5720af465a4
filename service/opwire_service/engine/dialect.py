"""Interface of the protocols: how each reads requests and writes responses on the common request path."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from opwire.errors import OpwireError
from opwire.tensor import Array
from opwire.wire import Answer, ExecuteRequest, RequestBody

from .memory import Hold
from .plan_cache import PlanCache, Prepared
from .progress import Progress

R = TypeVar("R")
"""A request as parsed by a protocol."""


class Completed(NamedTuple):
    """A completed run: the request, its plan, the bytes of each output, and the device that ran it."""

    execute: ExecuteRequest
    prepared: Prepared
    buffers: Mapping[str, Array]
    device: str


class Dialect(ABC, Generic[R]):
    """One protocol for operator requests and their responses."""

    @abstractmethod
    def parse(self, body: RequestBody) -> R:
        """Parses a request body.

        Raises:
            OpwireError: the body is not a request of this protocol.
        """

    async def fetch(self, request: R, progress: Progress, hold: Hold) -> R:
        """Returns the request with the tensors that are not in its body."""
        return request

    @abstractmethod
    def operator(self, request: R, plans: PlanCache) -> ExecuteRequest:
        """Returns the operator to run.

        Args:
            request: the parsed request.
            plans: plan cache, for a protocol that describes some outputs by those of other plans.
        """

    def relocate(self, error: OpwireError, request: R) -> None:
        """Rewrites the pointers of an error's violations to the places in this protocol's request."""

    @abstractmethod
    def answer_bytes(self, request: R, prepared: Prepared) -> tuple[int, int]:
        """Returns the bytes needed to encode the response besides the outputs, and the elements written as numbers."""

    @abstractmethod
    def write(self, request: R, done: Completed, progress: Progress) -> Answer:
        """Encodes the response and ends the progress with the stage ``encode``."""

    async def store(self, request: R, done: Completed) -> None:
        """Stores the outputs that the client wants outside the response body."""
