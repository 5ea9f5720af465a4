"""Reads model files of Microsoft's DxDispatch, without opening the files that they refer to.

Everything that DxDispatch accepts is accepted, including comments and trailing commas, and what it ignores is ignored.
Operator descs are checked later, by opwire's own rules.
"""

from .commands import Binding, Bindings, Command, Dispatch, Print, WriteFile
from .model import (
    Dispatchable,
    ForeignDispatchable,
    GraphDispatchable,
    GraphFile,
    Model,
    OperatorDispatchable,
    PlanOf,
    lowest_level,
    parse_model,
    read_model,
    read_operator,
)
from .resources import Buffer, Deferred, RepeatedValue, Sequence, SourceFile, Values, check_size
from .text import read_text

__all__ = [
    "Binding",
    "Bindings",
    "Buffer",
    "Command",
    "Deferred",
    "Dispatch",
    "Dispatchable",
    "ForeignDispatchable",
    "GraphDispatchable",
    "GraphFile",
    "Model",
    "OperatorDispatchable",
    "PlanOf",
    "Print",
    "RepeatedValue",
    "Sequence",
    "SourceFile",
    "Values",
    "WriteFile",
    "check_size",
    "lowest_level",
    "parse_model",
    "read_model",
    "read_operator",
    "read_text",
]
