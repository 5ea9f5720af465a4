"""A call of a library, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from opwire.tensor import Array

from ..cell import Cell


class Call(NamedTuple):
    """What is timed, and its answer if the call does not return it."""

    run: Callable[[], Any]
    answer: Callable[[], Any] | None = None

    def results(self) -> list[Array]:
        """Runs it and returns its results."""
        found = self.run()
        return arrays(found if self.answer is None else self.answer())


Make = Callable[[Cell, Sequence[Array], int], Call | None]
"""Takes a cell, the memory of its inputs, and the number of threads."""


def arrays(answer: Any) -> list[Array]:
    """Converts an answer of any library to arrays."""
    if answer is None:
        return []
    parts = answer if isinstance(answer, tuple | list) else (answer,)
    return [_array(part) for part in parts if not isinstance(part, tuple)]


def _array(part: Any) -> Array:
    if hasattr(part, "is_quantized") and part.is_quantized:
        part = part.int_repr()
    return np.asarray(part.detach().cpu() if hasattr(part, "detach") else part)
