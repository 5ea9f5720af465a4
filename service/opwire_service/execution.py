"""Types shared by devices and kernels: the arrays of a plan, and cancellation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opwire.tensor import Array

Stop = Callable[[], bool]
"""Polled between pieces of work; returns True once the result is no longer wanted."""

Arrays = Mapping[str, Array]
"""The tensors of a plan by name, each with the shape and layout of its desc."""

Bound = Callable[[Stop], None]
"""Runs a plan on the arrays it was bound to. Raises Stopped if it is told to stop."""


class Stopped(Exception):
    """Work was abandoned because ``stop()`` returned True. The content of the outputs is undefined."""
