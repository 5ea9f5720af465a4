"""A client without a server: the same methods, run by the engine in this process."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from importlib import import_module
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, Unpack, cast
from weakref import WeakKeyDictionary

from ..check import Validation
from ..describe import GraphInfo
from ..errors import OpwireError
from ..level import FeatureLevel
from ..wire import (
    Call,
    Executed,
    ExecuteRequest,
    PoolingResult,
    Result,
    ValidateRequest,
    registration_of,
    request_of,
    result_of,
    validation_of,
    write_json,
)
from .arrays import with_type_names
from .calls import AnyGraph, BuiltGraph, HasGraph, checked_calls, checked_name, is_graph
from .methods import OperatorMethods
from .options import CallOptions, EffectiveOptions
from .requests import with_settings


class Session(Protocol):
    """Runs the requests of a client in this process, and keeps its registered graphs. Safe to share between threads."""

    def run(self, request: ExecuteRequest, graph: Any = None) -> Executed: ...

    def prepare(self, request: ExecuteRequest) -> Any: ...

    def run_document(self, data: bytes, folder: Path, options: Mapping[str, object]) -> Executed: ...

    def validate(self, request: ValidateRequest) -> Validation: ...

    def register(self, name: str, request: ExecuteRequest) -> GraphInfo: ...

    def registered(self) -> list[GraphInfo]: ...

    def describe(self, name: str) -> GraphInfo: ...

    def remove(self, name: str) -> None: ...

    def close(self) -> None: ...


class LocalClient(OperatorMethods[Result, PoolingResult]):
    """Runs operators and graphs in this process, with the methods of ``Client``: the same engine, the same answers.

    It is safe to share between threads and across ``fork``. ``opwire.local`` makes one.

    >>> opwire.local().argmax(logits, axes=1).output
    """

    def __init__(self, session: Session, settings: EffectiveOptions) -> None:
        self._session = session
        self._settings = settings
        self._owns_session = True
        self._fixed: WeakKeyDictionary[object, dict[str, Any]] = WeakKeyDictionary()

    def with_options(self, **options: Unpack[CallOptions]) -> Self:
        """Returns a client with other options that shares this client's registered graphs and closes with it."""
        other = copy(self)
        other._settings = self._settings.updated(options)
        other._owns_session = False
        return other

    def _run(self, call: Call, options: CallOptions) -> Result:
        return self._execute(call, self._settings.updated(options))

    def _run_pooling(self, call: Call, options: CallOptions) -> PoolingResult:
        return cast(PoolingResult, self._run(call, options))

    def _execute(self, call: Call, settings: EffectiveOptions) -> Result:
        began = time.perf_counter_ns()
        call, graph = with_settings(call, settings), None
        if call.fixed is not None:
            graph = self._prepared(call)
            call = replace(call, graph_name="", constants={})
        executed = self._session.run(request_of(call), graph)
        return result_of(executed, (time.perf_counter_ns() - began) // 1000)

    def _prepared(self, call: Call) -> Any:
        """Returns a graph that never changes, prepared for the options of a call."""
        options = {name: call.options[name] for name in ("feature_level", "strict") if name in call.options}
        prepared, key = self._fixed.setdefault(call.fixed, {}), str(options)
        if key not in prepared:
            prepared[key] = self._session.prepare(registration_of(call.operator, call.constants, options))
        return prepared[key]

    def run(self, document: Mapping[str, Any] | str | PathLike[str], **options: Unpack[CallOptions]) -> Result:
        """Runs a document as ``opwire run`` does: a request with its inputs, or a graph without any.

        Args:
            document: the path of a JSON file, or the JSON itself as a dict.
            options: see CallOptions. Those given, here or to the client, override those of the document.

        Raises:
            OSError: a file cannot be read.
        """
        settings = self._settings.updated(options)
        began = time.perf_counter_ns()
        if isinstance(document, Mapping):
            data, folder = write_json(document), Path()
        else:
            data, folder = Path(document).read_bytes(), Path(document).parent
        executed = self._session.run_document(data, folder, settings.members())
        return result_of(executed, (time.perf_counter_ns() - began) // 1000)

    def execute_many(self, calls: Iterable[Call], **options: Unpack[CallOptions]) -> list[Result | OpwireError]:
        """Runs several operators, one after the other.

        Args:
            calls: calls made with the methods of ``opwire.prepare``.
            options: see CallOptions. Options set on a call take precedence. The timeout is that of each call.

        Returns:
            One outcome per call, in order: its result, or the error that this call failed with.
        """
        settings = self._settings.updated(options)
        return [self._outcome(call, settings) for call in checked_calls(calls)]

    def _outcome(self, call: Call, settings: EffectiveOptions) -> Result | OpwireError:
        try:
            return self._execute(call, settings)
        except OpwireError as error:
            return error

    def validate(
        self, operator: AnyGraph, feature_level: FeatureLevel | str | int | None = None, *, strict: bool | None = None
    ) -> Validation:
        """As ``Client.validate``."""
        options = self._settings.checking(feature_level, strict).contract()
        desc = operator.to_json() if isinstance(operator, BuiltGraph) else with_type_names(operator)
        return self._session.validate(validation_of(desc, options, is_graph=is_graph(operator)))

    def register_graph(
        self,
        name: str,
        graph: Mapping[str, Any] | BuiltGraph,
        feature_level: FeatureLevel | str | int | None = None,
        *,
        strict: bool | None = None,
    ) -> GraphInfo:
        """Registers a graph with this client, so that ``execute`` accepts its name and does not check it again.

        Args:
            name: the name of the graph; it must not be that of an operator type.
            graph: an ``opwire.Graph``, or a graph as JSON. Its constants are copied, except from read-only arrays.
            feature_level: the level to check it against. Defaults to the client's, or else the highest.
            strict: whether warnings count as violations. Defaults to the client's.

        Raises:
            ContractViolation: the graph is not valid.
        """
        options = self._settings.checking(feature_level, strict).contract()
        constants = graph.constants if isinstance(graph, BuiltGraph) else {}
        plain = graph.to_json() if isinstance(graph, BuiltGraph) else with_type_names(graph)
        return self._session.register(checked_name(name), registration_of(plain, constants, options))

    def register(self, name: str, model: HasGraph) -> GraphInfo:
        """As ``Client.register``."""
        return self.register_graph(name, model.graph)

    def registered_graphs(self) -> list[GraphInfo]:
        """Lists the graphs registered with this client."""
        return self._session.registered()

    def registered_graph(self, name: str) -> GraphInfo:
        """Describes a registered graph.

        Raises:
            NotFoundError: no graph of this name is registered with this client.
        """
        return self._session.describe(checked_name(name))

    def delete_graph(self, name: str) -> None:
        """Removes a registered graph.

        Raises:
            NotFoundError: no graph of this name is registered with this client.
        """
        self._session.remove(checked_name(name))

    def close(self) -> None:
        """Waits for running calls, prevents further ones, and drops the registered graphs.

        The devices stay open for other clients of the process. On a client made by ``with_options`` it does nothing.
        """
        if self._owns_session:
            self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self._settings.device or 'the default device'}>"


def local(
    device: str | None = None,
    *,
    feature_level: FeatureLevel | str | int | None = None,
    strict: bool = False,
    timeout: float | None = None,
) -> LocalClient:
    """Returns a client that runs operators and graphs in this process, without a server.

    All clients of a process share its devices, which stay open, so a further one costs next to nothing.

    Args:
        device: "cpu", "cuda", "cuda:1", ... or "reference". By default the CPU.
        feature_level, strict, timeout: defaults for every call; see CallOptions.

    Raises:
        ImportError: the packages of ``opwire[service]`` are not installed.
        RequestError: this machine has no such device.
        ValueError: an option is invalid.
    """
    settings = EffectiveOptions(feature_level, timeout, device=device, strict=strict)
    return LocalClient(_open_session(device), settings)


_SESSIONS = "opwire_service.offline.session"
"""The module of sessions. It is the client's only way to the service, which it does not need otherwise."""


def _open_session(device: str | None) -> Session:
    try:
        return cast(Session, import_module(_SESSIONS).open_session(device))
    except ModuleNotFoundError as error:
        message = f"running operators in this process needs the package {error.name}: pip install 'opwire[service]'"
        raise ImportError(message, name=error.name) from error
