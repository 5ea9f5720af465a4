"""Model files of Microsoft's DxDispatch: read from their text, without opening the files that they name.

What DxDispatch takes is taken, comments and trailing commas included; what it would skip over is skipped. Members of an
operator's desc are held to opwire's own rules once it is checked.
"""

from .commands import Binding, Bindings, Command, Dispatch, Print, WriteFile
from .model import (
    Dispatchable,
    ForeignDispatchable,
    GraphDispatchable,
    GraphFile,
    Model,
    OperatorDispatchable,
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
