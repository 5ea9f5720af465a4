"""The operators that opwire can run, in the order of their introduction, and the catalog of all that DirectML names."""

from __future__ import annotations

from typing import Any

from ..operator import Operator
from . import argreduce, max_pooling, reduce
from .catalog import CATALOG, OperatorType, find

_ALL: tuple[Operator[Any], ...] = (
    reduce.REDUCE,
    max_pooling.MAX_POOLING,
    max_pooling.MAX_POOLING1,
    max_pooling.MAX_POOLING2,
    argreduce.ARGMIN,
    argreduce.ARGMAX,
)

OPERATORS = {operator.name: operator for operator in _ALL}
"""The executable operators by name."""

__all__ = ["CATALOG", "OPERATORS", "OperatorType", "find"]
