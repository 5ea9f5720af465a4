"""A client without a server: the same methods, run by the engine in this process."""

from __future__ import annotations

import time
from collections.abc import Iterable
from copy import copy
from importlib import import_module
from threading import Condition
from types import TracebackType
from typing import Protocol, Self, Unpack, cast

from ..check import Validation, validate
from ..errors import OpwireError
from ..graph import validate_graph
from ..level import HIGHEST, FeatureLevel
from ..wire import Call, Executed, ExecuteRequest, PoolingResult, Result, request_of, result_of
from .calls import AnyGraph, BuiltGraph, checked_calls, is_graph
from .methods import OperatorMethods
from .options import CallOptions, EffectiveOptions
from .requests import with_settings


class Engine(Protocol):
    """Runs requests on the devices of this machine. Safe to share between threads."""

    def run(self, request: ExecuteRequest) -> Executed: ...

    def open(self, device: str | None) -> None: ...


class LocalClient(OperatorMethods[Result, PoolingResult]):
    """Runs operators and graphs in this process, with the methods of ``Client``: the same engine, the same answers.

    It is safe to share between threads and across ``fork``. ``opwire.local()`` makes one.

    >>> opwire.local().argmax(logits, axes=1).output
    """

    def __init__(self, engine: Engine, settings: EffectiveOptions) -> None:
        self._engine = engine
        self._settings = settings
        self._use = _Use()
        self._owns_use = True

    def with_options(self, **options: Unpack[CallOptions]) -> Self:
        """Returns a client with other options that closes with this one."""
        other = copy(self)
        other._settings = self._settings.updated(options)
        other._owns_use = False
        return other

    def _run(self, call: Call, options: CallOptions) -> Result:
        return self._execute(call, self._settings.updated(options))

    def _run_pooling(self, call: Call, options: CallOptions) -> PoolingResult:
        return cast(PoolingResult, self._run(call, options))

    def _execute(self, call: Call, settings: EffectiveOptions) -> Result:
        began = time.perf_counter_ns()
        with self._use:
            executed = self._engine.run(request_of(with_settings(call, settings)))
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
        self,
        operator: AnyGraph,
        feature_level: FeatureLevel | str | int | None = None,
        *,
        strict: bool | None = None,
    ) -> Validation:
        """Checks an operator desc or a graph, as ``opwire.validate`` and ``opwire.validate_graph`` do.

        Args:
            operator: ``{"type": ..., "desc": {...}}``, an ``opwire.Graph``, or a graph as JSON.
            feature_level: the level to check against. Defaults to the client's, or else the highest.
            strict: whether warnings count as violations. Defaults to the client's.
        """
        settings = self._settings.checking(feature_level, strict)
        check = validate_graph if is_graph(operator) else validate
        desc = operator.to_json() if isinstance(operator, BuiltGraph) else operator
        level = HIGHEST if settings.feature_level is None else settings.feature_level
        return check(desc, level, strict=settings.strict)

    def close(self) -> None:
        """Waits for the calls that are running, and prevents further ones.

        The devices stay open for other clients of the process. On a client made by ``with_options`` it does nothing.
        """
        if self._owns_use:
            self._use.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self._settings.device or 'the default device'}>"


class _Use:
    """Counts the calls that are running, so that ``close`` can wait for them."""

    def __init__(self) -> None:
        self._running = 0
        self._closed = False
        self._changed = Condition()

    def __enter__(self) -> None:
        with self._changed:
            if self._closed:
                raise RuntimeError("the client is closed")
            self._running += 1

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._running -= 1
            if self._closed:
                self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not self._running)


def local(
    device: str | None = None,
    *,
    feature_level: FeatureLevel | str | int | None = None,
    strict: bool = False,
    timeout: float | None = None,
) -> LocalClient:
    """Returns a client that runs operators and graphs in this process, without a server.

    Clients of one process share their devices, which stay open, so making one costs nothing after the first.

    Args:
        device: "cpu", "cuda", "cuda:1", ... or "reference". By default the CPU.
        feature_level, strict, timeout: defaults for every call; see CallOptions.

    Raises:
        ImportError: the packages of ``opwire[service]`` are not installed.
        RequestError: this machine has no such device.
        ValueError: an option is invalid.
    """
    settings = EffectiveOptions(feature_level, timeout, device=device, strict=strict)
    engine = _shared_engine()
    engine.open(device)
    return LocalClient(engine, settings)


_ENGINE = "opwire_service.offline.engine"
"""The module of the engine, which the client does not need otherwise, and so imports on first use."""


def _shared_engine() -> Engine:
    try:
        module = import_module(_ENGINE)
    except ModuleNotFoundError as error:
        message = f"running operators in this process needs the package {error.name}: pip install 'opwire[service]'"
        raise ImportError(message, name=error.name) from error
    return cast(Engine, module.shared())
