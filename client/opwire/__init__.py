"""DirectML operators: the contract, checked offline, and clients that run them in this process or on a server.

>>> import opwire
>>> plan = opwire.check({"type": "DML_OPERATOR_ARGMAX", "desc": {...}}, "4_1")
>>> opwire.local().argmax(x, axes=1).output
>>> opwire.Client().argmax(x, axes=1).output
"""

from typing import TYPE_CHECKING, Any

from .check import Plan, Validation, check, validate
from .errors import (
    AuthenticationError,
    ConnectError,
    ContractViolation,
    DeadlineExceededError,
    InternalError,
    InvalidResponseError,
    LengthRequiredError,
    LimitExceededError,
    MethodNotAllowedError,
    NotExecutableError,
    NotFoundError,
    OpwireError,
    OverloadedError,
    ProblemCode,
    RequestError,
    SlowBodyError,
    TransportError,
    TransportTimeout,
    UnavailableError,
    UnsupportedMediaError,
)
from .graph import check_graph, validate_graph
from .level import FeatureLevel
from .operator import Code, Violation
from .tensor import BufferTensorDesc, DataType
from .wire import Call, PoolingResult, Result

if TYPE_CHECKING:
    from . import onnx as onnx
    from .client import AsyncClient, Client, Graph, GraphTensor, LocalClient, local, strided
    from .client.preparation import prepare
    from .difference import assert_close_ulp, diff, ulp

__all__ = [
    "AsyncClient",
    "AuthenticationError",
    "BufferTensorDesc",
    "Call",
    "Client",
    "Code",
    "ConnectError",
    "ContractViolation",
    "DataType",
    "DeadlineExceededError",
    "FeatureLevel",
    "Graph",
    "GraphTensor",
    "InternalError",
    "InvalidResponseError",
    "LengthRequiredError",
    "LimitExceededError",
    "LocalClient",
    "MethodNotAllowedError",
    "NotExecutableError",
    "NotFoundError",
    "OpwireError",
    "OverloadedError",
    "Plan",
    "PoolingResult",
    "ProblemCode",
    "RequestError",
    "Result",
    "SlowBodyError",
    "TransportError",
    "TransportTimeout",
    "UnavailableError",
    "UnsupportedMediaError",
    "Validation",
    "Violation",
    "__version__",
    "assert_close_ulp",
    "check",
    "check_graph",
    "diff",
    "local",
    "prepare",
    "strided",
    "ulp",
    "validate",
    "validate_graph",
]


__version__: str


def __dir__() -> list[str]:
    """Lists what the package offers, including what is imported on first use."""
    return sorted(__all__)


_CLIENT_NAMES = frozenset(
    {"AsyncClient", "Client", "Graph", "GraphTensor", "LocalClient", "local", "prepare", "strided"}
)

_DIFFERENCE_NAMES = frozenset({"assert_close_ulp", "diff", "ulp"})

if not TYPE_CHECKING:  # so that type checkers still report unknown names

    def __getattr__(name: str) -> Any:
        """Imports the clients on first use: they load the HTTP stack, which checking descs does not need."""
        if name in _CLIENT_NAMES:
            from . import client

            return globals().setdefault(name, getattr(client, name))
        if name in _DIFFERENCE_NAMES:
            from . import difference

            return globals().setdefault(name, getattr(difference, name))
        if name == "onnx":
            from importlib import import_module

            return import_module(f"{__name__}.onnx")
        if name == "__version__":
            from .transport.endpoint import package_version

            return package_version()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
