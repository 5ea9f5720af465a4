"""Clients for an opwire server: a blocking one and an asynchronous one, thin shells over the same pure core."""

from __future__ import annotations

import ssl
import time
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping
from copy import copy
from functools import partial
from typing import Any, Generic, Literal, Self, TypeVar, Unpack, cast

import httpx

from ..check import Validation
from ..describe import GraphInfo, LevelInfo, OperatorInfo, OperatorSummary, ServerInfo
from ..errors import OpwireError, TransportError, UnavailableError
from ..level import FeatureLevel
from ..transport.attempt import CONNECT_SECONDS, Attempt
from ..transport.connections import AsyncSender, Connections, Sender, open_async, open_blocking
from ..transport.endpoint import Endpoint
from ..transport.request import OutgoingRequest
from ..transport.retry import Patience, Tries
from ..wire import Call, Encoding, PoolingResult, Result
from . import requests
from .calls import AnyGraph, BuiltGraph, HasGraph, checked_calls
from .methods import OperatorMethods, P
from .options import CallOptions, EffectiveOptions, encoding_of
from .typed import R

T = TypeVar("T")
Tr = TypeVar("Tr")
"""An httpx transport."""

S = TypeVar("S")
"""A request sender."""

Make = Callable[[EffectiveOptions], OutgoingRequest[T]]
"""Builds the request for one attempt; each retry has less time left, so each gets its own request."""


class _Shell(OperatorMethods[R, P], Generic[R, P, Tr, S]):
    """Settings and connections, shared by both clients."""

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float | None = 60.0,
        feature_level: FeatureLevel | str | int | None = None,
        strict: bool = False,
        encoding: Encoding | Literal["binary", "base64", "numbers"] = "binary",
        device: str | None = None,
        priority: int | None = None,
        max_retries: int = 2,
        headers: Mapping[str, str] | None = None,
        transport: Tr | None = None,
        verify: ssl.SSLContext | bool = True,
    ) -> None:
        """Creates a client. It does not connect until the first call.

        The default transport pools up to 100 connections; further calls wait for a free one, first come, first served,
        within their timeout. It honors the proxies named by ``HTTP_PROXY``, ``HTTPS_PROXY`` and ``ALL_PROXY``, and
        the exceptions in ``NO_PROXY``.

        Args:
            base_url: URL of the server. Defaults to ``OPWIRE_URL``, or else ``http://127.0.0.1:8000``.
            api_key: sent as a bearer token. Defaults to ``OPWIRE_API_KEY``, if set.
            timeout, feature_level, strict, encoding, device, priority, max_retries: defaults for every call; see
                CallOptions.
            headers: additional headers for every request.
            transport: an httpx transport to use instead of the default one.
            verify: as in httpx: whether to verify the server's certificate, or the SSL context to verify it with. By
                default it is verified, against ``SSL_CERT_FILE`` or ``SSL_CERT_DIR`` if one is set.

        Raises:
            ValueError: an argument or an environment variable is invalid.
        """
        self._settings = EffectiveOptions(
            feature_level, timeout, encoding_of(encoding), device, priority, max_retries, strict
        )
        self._endpoint = Endpoint.of(base_url, api_key, headers)
        self._connections = Connections(self._open(self._endpoint.url, verify, transport))
        self._owns_connections = True

    @abstractmethod
    def _open(self, url: httpx.URL, verify: ssl.SSLContext | bool, transport: Tr | None) -> S:
        """Opens a sender for the server at a URL."""

    def with_options(self, **options: Unpack[CallOptions]) -> Self:
        """Returns a client with other options that shares this client's connections and closes with it."""
        other = copy(self)
        other._settings = self._settings.updated(options)
        other._owns_connections = False
        return other

    @abstractmethod
    def _send(self, make: Make[Any], settings: EffectiveOptions) -> Any:
        """Sends a request, again if that may help, and returns its result."""

    def _run(self, call: Call, options: CallOptions) -> R:
        return cast(R, self._send(partial(requests.execute, call), self._settings.updated(options)))

    def _run_pooling(self, call: Call, options: CallOptions) -> P:
        return cast(P, self._send(partial(requests.execute_pooling, call), self._settings.updated(options)))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._endpoint.base}>"


class Client(_Shell[Result, PoolingResult, httpx.BaseTransport, Sender]):
    """A client for an opwire server. It is safe to share between threads and across ``fork``.

    >>> client = Client("http://127.0.0.1:8000")
    >>> client.argmax(logits, axes=1).output
    """

    def _open(self, url: httpx.URL, verify: ssl.SSLContext | bool, transport: httpx.BaseTransport | None) -> Sender:
        return open_blocking(url, verify, transport)

    def _send(self, make: Make[T], settings: EffectiveOptions) -> T:
        tries = Tries(settings.max_retries, settings.timeout)
        while True:
            try:
                return self._try(make(settings.within(tries.timeout)), tries.retries)
            except OpwireError as error:
                delay = tries.again(error)
            time.sleep(delay)

    def _try(self, request: OutgoingRequest[T], retries: int) -> T:
        attempt = Attempt(self._endpoint, request, retries)
        self._connections.sender.send(attempt)
        return attempt.result()

    def execute_many(self, calls: Iterable[Call], **options: Unpack[CallOptions]) -> list[Result | OpwireError]:
        """Runs several operators in one request.

        Args:
            calls: calls made with the methods of ``opwire.prepare``.
            options: see CallOptions. Options set on a call take precedence. The timeout covers the whole batch.

        Returns:
            One outcome per call, in order: its result, or the error that this call failed with.
        """
        return self._send(partial(requests.execute_many, checked_calls(calls)), self._settings.updated(options))

    def validate(
        self,
        operator: AnyGraph,
        feature_level: FeatureLevel | str | int | None = None,
        *,
        strict: bool | None = None,
    ) -> Validation:
        """Checks an operator desc or a graph on the server. ``opwire.validate`` checks operator descs offline.

        Args:
            operator: ``{"type": ..., "desc": {...}}``, an ``opwire.Graph``, a graph as JSON, or the name of a
                registered graph.
            feature_level: the level to check against. Defaults to the client's, or else the highest; a registered
                graph defaults to its own.
            strict: whether warnings count as violations. Defaults to the client's.
        """
        return self._send(partial(requests.validate, operator), self._settings.checking(feature_level, strict))

    def register_graph(
        self,
        name: str,
        graph: Mapping[str, Any] | BuiltGraph,
        feature_level: FeatureLevel | str | int | None = None,
        *,
        strict: bool | None = None,
    ) -> GraphInfo:
        """Registers a graph on the server, so that ``execute`` accepts its name. Replaces any graph of that name.

        Args:
            name: the name of the graph; it must not be that of an operator type.
            graph: an ``opwire.Graph``, or a graph as JSON.
            feature_level: the level to check it against. Defaults to the client's, or else the highest.
            strict: whether warnings count as violations. Defaults to the client's.

        Raises:
            ContractViolation: the graph is not valid.
            LimitExceededError: the server has no room for it.
        """
        return self._send(partial(requests.register_graph, name, graph), self._settings.checking(feature_level, strict))

    def register(self, name: str, model: HasGraph) -> GraphInfo:
        """Registers an ONNX model, loaded with ``opwire.onnx.load``, as a graph: its weights are sent once.

        Args:
            name: the name of the graph, which ``execute`` then takes.
            model: the model.

        Raises:
            ModelError: some of its nodes have no DirectML operators.
            LimitExceededError: there is no room for it.
        """
        return self.register_graph(name, model.graph)

    def registered_graphs(self) -> list[GraphInfo]:
        """Lists the graphs registered with this client's API key."""
        return self._send(requests.registered_graphs, self._settings)

    def registered_graph(self, name: str) -> GraphInfo:
        """Describes a registered graph.

        Raises:
            NotFoundError: no graph of this name is registered with this client's API key.
        """
        return self._send(partial(requests.registered_graph, name), self._settings)

    def delete_graph(self, name: str) -> None:
        """Removes a registered graph.

        Raises:
            NotFoundError: no graph of this name is registered with this client's API key.
        """
        return self._send(partial(requests.delete_graph, name), self._settings)

    def operators(self) -> list[OperatorSummary]:
        """Lists all operator types of DirectML; ``executable`` marks those that the server runs."""
        return self._send(requests.operators, self._settings)

    def operator(self, name: str) -> OperatorInfo:
        """Describes an operator type: its fields, support rows and worked examples.

        Raises:
            NotFoundError: DirectML has no such operator type.
        """
        return self._send(partial(requests.operator, name), self._settings)

    def feature_levels(self) -> list[LevelInfo]:
        """Lists all feature levels, lowest first, with the operator types introduced at each."""
        return self._send(requests.feature_levels, self._settings)

    def server(self) -> ServerInfo:
        """Describes the server: its version, devices and limits."""
        return self._send(requests.server, self._settings)

    def ready(self) -> bool:
        """Returns whether the server accepts work.

        Raises:
            TransportError: the server did not answer.
        """
        try:
            self._try(requests.readiness(self._settings), 0)
        except UnavailableError:
            return False
        return True

    def wait_ready(self, timeout: float = 30.0) -> None:
        """Waits until the server accepts work.

        Raises:
            TransportTimeout: it was not ready within ``timeout`` seconds; the message says why.
        """
        patience = Patience(timeout, CONNECT_SECONDS)
        while True:
            try:
                return self._try(requests.readiness(self._settings.within(patience.left)), 0)
            except (TransportError, UnavailableError) as reason:
                time.sleep(patience.delay(reason))

    def close(self) -> None:
        """Closes the connections, unless they belong to another client (see ``with_options``)."""
        if self._owns_connections:
            self._connections.close().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class AsyncClient(
    _Shell[Coroutine[Any, Any, Result], Coroutine[Any, Any, PoolingResult], httpx.AsyncBaseTransport, AsyncSender]
):
    """An asyncio client for an opwire server: ``Client`` with awaitable methods.

    It may be used in several event loops, one after another or at once. Each has its own connections.

    >>> client = AsyncClient("http://127.0.0.1:8000")
    >>> (await client.argmax(logits, axes=1)).output
    """

    def _open(
        self, url: httpx.URL, verify: ssl.SSLContext | bool, transport: httpx.AsyncBaseTransport | None
    ) -> AsyncSender:
        return open_async(url, verify, transport)

    async def _send(self, make: Make[T], settings: EffectiveOptions) -> T:
        tries = Tries(settings.max_retries, settings.timeout)
        while True:
            try:
                return await self._try(make(settings.within(tries.timeout)), tries.retries)
            except OpwireError as error:
                delay = tries.again(error)
            await _sleep(delay)

    async def _try(self, request: OutgoingRequest[T], retries: int) -> T:
        attempt = Attempt(self._endpoint, request, retries)
        await self._connections.sender.send(attempt)
        return attempt.result()

    async def execute_many(self, calls: Iterable[Call], **options: Unpack[CallOptions]) -> list[Result | OpwireError]:
        """As ``Client.execute_many``."""
        return await self._send(partial(requests.execute_many, checked_calls(calls)), self._settings.updated(options))

    async def validate(
        self,
        operator: AnyGraph,
        feature_level: FeatureLevel | str | int | None = None,
        *,
        strict: bool | None = None,
    ) -> Validation:
        """As ``Client.validate``."""
        return await self._send(partial(requests.validate, operator), self._settings.checking(feature_level, strict))

    async def register_graph(
        self,
        name: str,
        graph: Mapping[str, Any] | BuiltGraph,
        feature_level: FeatureLevel | str | int | None = None,
        *,
        strict: bool | None = None,
    ) -> GraphInfo:
        """As ``Client.register_graph``."""
        return await self._send(
            partial(requests.register_graph, name, graph), self._settings.checking(feature_level, strict)
        )

    async def register(self, name: str, model: HasGraph) -> GraphInfo:
        """As ``Client.register``."""
        return await self.register_graph(name, model.graph)

    async def registered_graphs(self) -> list[GraphInfo]:
        """As ``Client.registered_graphs``."""
        return await self._send(requests.registered_graphs, self._settings)

    async def registered_graph(self, name: str) -> GraphInfo:
        """As ``Client.registered_graph``."""
        return await self._send(partial(requests.registered_graph, name), self._settings)

    async def delete_graph(self, name: str) -> None:
        """As ``Client.delete_graph``."""
        return await self._send(partial(requests.delete_graph, name), self._settings)

    async def operators(self) -> list[OperatorSummary]:
        """As ``Client.operators``."""
        return await self._send(requests.operators, self._settings)

    async def operator(self, name: str) -> OperatorInfo:
        """As ``Client.operator``."""
        return await self._send(partial(requests.operator, name), self._settings)

    async def feature_levels(self) -> list[LevelInfo]:
        """As ``Client.feature_levels``."""
        return await self._send(requests.feature_levels, self._settings)

    async def server(self) -> ServerInfo:
        """As ``Client.server``."""
        return await self._send(requests.server, self._settings)

    async def ready(self) -> bool:
        """As ``Client.ready``."""
        try:
            await self._try(requests.readiness(self._settings), 0)
        except UnavailableError:
            return False
        return True

    async def wait_ready(self, timeout: float = 30.0) -> None:  # noqa: ASYNC109 - the argument of Client.wait_ready
        """As ``Client.wait_ready``."""
        patience = Patience(timeout, CONNECT_SECONDS)
        while True:
            try:
                return await self._try(requests.readiness(self._settings.within(patience.left)), 0)
            except (TransportError, UnavailableError) as reason:
                await _sleep(patience.delay(reason))

    async def aclose(self) -> None:
        """As ``Client.close``."""
        if self._owns_connections:
            await self._connections.close().aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


async def _sleep(seconds: float) -> None:
    import asyncio  # only this client needs it

    await asyncio.sleep(seconds)
