"""What differs between the protocols on the one path of a request: how it is read, and how its answer is written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

from opwire.errors import OpwireError
from opwire.tensor import Array
from opwire.wire import Answer, ExecuteRequest, RequestBody

from .memory import Hold
from .plan_cache import PlanCache, Prepared
from .progress import Progress

R = TypeVar("R")
"""A request as a protocol has parsed it."""


class Completed(NamedTuple):
    """An operator that has run: as requested, its plan, the bytes of each output, and the device that ran it."""

    execute: ExecuteRequest
    prepared: Prepared
    buffers: Mapping[str, Array]
    device: str


class Dialect(ABC, Generic[R]):
    """How one protocol writes a request for an operator, and the answer to it.

    Attributes:
        context: what a request is read by besides its body; None where that cannot be told.
    """

    context: Hashable = None

    @abstractmethod
    def parse(self, body: RequestBody) -> R:
        """The request in a body.

        Raises:
            OpwireError: there is none, or it is not of the protocol's form.
        """

    async def fetch(self, request: R, progress: Progress, hold: Hold) -> R:
        """The request with those tensors that lie elsewhere."""
        return request

    def identity(self, request: R) -> str | None:
        """The id that the client gave a request in its body, which only the answer has, too."""
        return None

    def identified(self, request: R, identity: str) -> R:
        """The request with another id."""
        return request

    @abstractmethod
    def operator(self, request: R, plans: PlanCache) -> ExecuteRequest:
        """The operator to run.

        Args:
            plans: for a protocol that describes some outputs by those of others.
        """

    def relocate(self, error: OpwireError, request: R) -> None:
        """Points the violations in an error to where the protocol has what they are about."""

    @abstractmethod
    def answer_bytes(self, request: R, prepared: Prepared) -> tuple[int, int]:
        """The memory that writing the answer takes beside the outputs, and how many elements are written as numbers."""

    @abstractmethod
    def write(self, request: R, done: Completed, progress: Progress) -> Answer:
        """The answer; the progress ends with the stage ``encode``."""

    async def store(self, request: R, done: Completed) -> None:
        """Puts those outputs elsewhere that the client wants there."""
