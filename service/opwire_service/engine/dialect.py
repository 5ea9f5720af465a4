"""Interface of the protocols: how each reads requests and writes responses on the common request path."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from opwire.errors import OpwireError
from opwire.tensor import Array
from opwire.wire import Answer, ExecuteRequest, RequestBody

from .plan_cache import PlanCache, Prepared
from .request import Request

R = TypeVar("R")
"""The body of a request, as parsed by a protocol."""


class Result(NamedTuple):
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

    async def fetch(self, parsed: R, request: Request) -> R:
        """Returns the parsed body with the tensors that are not in it."""
        return parsed

    @abstractmethod
    def operator(self, parsed: R, plans: PlanCache) -> ExecuteRequest:
        """Returns the operator to run.

        Args:
            parsed: the parsed body.
            plans: plan cache, for a protocol that describes some outputs by those of other plans.
        """

    def relocate(self, error: OpwireError, parsed: R) -> None:
        """Rewrites the pointers of an error's violations to the places in this protocol's request."""

    @abstractmethod
    def answer_bytes(self, parsed: R, prepared: Prepared) -> tuple[int, int]:
        """Returns the bytes needed to encode the response besides the outputs, and the elements written as numbers."""

    @abstractmethod
    def write(self, parsed: R, done: Result, request: Request) -> Answer:
        """Encodes the response and ends the timing of the request with the stage ``encode``."""

    async def store(self, parsed: R, done: Result) -> None:
        """Stores the outputs that the client wants outside the response body."""
