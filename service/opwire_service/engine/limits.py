"""What exceeds the limits of a server, and how that is said."""

from __future__ import annotations

from opwire.errors import LimitExceededError, ProblemCode


def exceeded(code: ProblemCode, what: str, size: int, limit: int) -> LimitExceededError:
    """The error for something that is larger than the server takes."""
    return LimitExceededError(code, f"{size} {what}; this server takes at most {limit}", limit=limit, size=size)


class Allowance:
    """For the outputs of a batch, which all exist until its answer is sent."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0

    def take(self, size: int) -> None:
        """
        Raises:
            LimitExceededError: so many bytes are not left.
        """
        if self._taken + size > self._limit:
            what = "bytes of output in one batch"
            raise exceeded(ProblemCode.TENSOR_TOO_LARGE, what, self._taken + size, self._limit)
        self._taken += size
