"""What devices and kernels share: the arrays of a plan, and how work is told to stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opwire.tensor import Array

Stop = Callable[[], bool]
"""Asked between pieces of work; True means that nobody wants the answer any more."""

Arrays = Mapping[str, Array]
"""The tensors of a plan by name, each of the shape and the layout that its desc says."""

Bound = Callable[[Stop], None]
"""Runs a plan on arrays that it was bound to; raises Stopped."""


class Stopped(Exception):
    """Work was given up because ``stop()`` returned True. The outputs hold nothing of use."""
