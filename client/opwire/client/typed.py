"""A method for each operator, named after it. For type checkers and editors, ``typed.pyi`` declares them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from ..schema import CATALOG
from ..wire import Call
from .declared import OperatorMethod
from .options import CallOptions
from .short_names import SHORT_NAMES

R = TypeVar("R")
"""Return type of a call: a Result, or an awaitable of one."""


class DeclaredMethods(ABC, Generic[R]):
    """One method per operator, named after it, with the members of its desc struct as arguments.

    Inputs are arrays, whose data types and shapes determine their descs; for an array of tensors, pass a list. Outputs
    are derived; pass a desc to override one, or to request an optional one.
    """

    @abstractmethod
    def _run(self, call: Call, options: CallOptions) -> R:
        """Runs a call."""


for _method, _operator in {**SHORT_NAMES, **{name.lower(): name for name in CATALOG}}.items():
    setattr(DeclaredMethods, _method, OperatorMethod(_operator))
