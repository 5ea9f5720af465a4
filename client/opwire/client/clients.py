"""The clients of an opwire server: two shells, with and without ``await``, over one pure core."""

from __future__ import annotations

import ssl
import time
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping
from copy import copy
from functools import partial
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar, Unpack

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
from .calls import AnyGraph, BuiltGraph, checked_calls
from .methods import OperatorMethods, P
from .options import CallOptions, EffectiveOptions, encoding_of
from .typed import R

T = TypeVar("T")
Tr = TypeVar("Tr")
"""A transport of httpx."""

S = TypeVar("S")
"""What sends requests."""

Make = Callable[[EffectiveOptions], OutgoingRequest[T]]
"""Makes a request anew for each try, since each has less time."""

_NOT_READY = (TransportError, UnavailableError)


class _Shell(OperatorMethods[R, P], Generic[R, P, Tr, S]):
    """What both clients share: their settings and their connections."""

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float | None = 60.0,
        feature_level: FeatureLevel | str | int | None = None,
        encoding: Encoding | Literal["binary", "base64", "numbers"] = "binary",
        device: str | None = None,
        priority: int | None = None,
        max_retries: int = 2,
        headers: Mapping[str, str] | None = None,
        transport: Tr | None = None,
        verify: ssl.SSLContext | bool = True,
    ) -> None:
        """Connects to nothing yet.

        The client's own transport keeps up to 100 connections; further calls wait for one, first come, first served,
        within their timeout. It goes over the proxy that ``HTTP_PROXY``, ``HTTPS_PROXY`` or ``ALL_PROXY`` names, unless
        ``NO_PROXY`` names the server.

        Args:
            base_url: of the server; left out, ``OPWIRE_URL`` or else ``http://127.0.0.1:8000``.
            api_key: sent as a bearer token; left out, ``OPWIRE_API_KEY`` if that is set.
            timeout, feature_level, encoding, device, priority, max_retries: see CallOptions; each call may change them.
            headers: further ones for every request.
            transport: of httpx, in place of the client's own.
            verify: of httpx: whether, or by which context, the server's certificate is checked. Left out, it is checked
                against ``SSL_CERT_FILE`` or ``SSL_CERT_DIR`` if one is set.

        Raises:
            ValueError: an argument, or a variable of the environment, has no such value.
        """
        self._settings = EffectiveOptions(feature_level, timeout, encoding_of(encoding), device, priority, max_retries)
        self._endpoint = Endpoint.of(base_url, api_key, headers)
        self._connections = Connections(self._open(self._endpoint.url, verify, transport))
        self._owns_connections = True

    @abstractmethod
    def _open(self, url: httpx.URL, verify: ssl.SSLContext | bool, transport: Tr | None) -> S:
        """What sends requests to a server."""

    def with_options(self, **options: Unpack[CallOptions]) -> Self:
        """A client with other options that uses the connections of this one, and lives no longer."""
        other = copy(self)
        other._settings = self._settings.updated(options)
        other._owns_connections = False
        return other

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._endpoint.base}>"


class Client(_Shell[Result, PoolingResult, httpx.BaseTransport, Sender]):
    """A client of an opwire server. It may be shared by threads, and by processes that are forked.

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

    def _run(self, call: Call, options: CallOptions) -> Result:
        return self._send(partial(requests.execute, call), self._settings.updated(options))

    def _run_pooling(self, call: Call, options: CallOptions) -> PoolingResult:
        return self._send(partial(requests.execute_pooling, call), self._settings.updated(options))

    def execute_many(self, calls: Iterable[Call], **options: Unpack[CallOptions]) -> list[Result | OpwireError]:
        """Runs several operators by one request.

        Args:
            calls: made by the methods of ``opwire.prepare``.
            options: see CallOptions; a call's own options come first. The timeout is that of all of them together.

        Returns:
            For each call, in their order, its result, or the error that it alone ended with.
        """
        return self._send(partial(requests.execute_many, checked_calls(calls)), self._settings.updated(options))

    def validate(self, operator: AnyGraph, feature_level: FeatureLevel | str | int | None = None) -> Validation:
        """Checks an operator desc or a graph on the server; ``opwire.validate`` does the former without one.

        Args:
            operator: ``{"type": ..., "desc": {...}}``; or an ``opwire.Graph``, a graph as JSON, or the name of a
                registered one.
            feature_level: left out, the client's, or else the highest; of a registered graph its own.
        """
        return self._send(partial(requests.validate, operator), self._settings.at_level(feature_level))

    def register_graph(
        self,
        name: str,
        graph: Mapping[str, Any] | BuiltGraph,
        feature_level: FeatureLevel | str | int | None = None,
    ) -> GraphInfo:
        """Registers a graph on the server, in the place of that of the same name: ``execute`` then takes its name.

        Args:
            name: for the graph; none that an operator type has.
            graph: an ``opwire.Graph``, or a graph as JSON.
            feature_level: to check it against; left out, the client's, or else the highest.

        Raises:
            ContractViolation: the graph is not valid.
            LimitExceededError: the server has no room for it.
        """
        return self._send(partial(requests.register_graph, name, graph), self._settings.at_level(feature_level))

    def registered_graphs(self) -> list[GraphInfo]:
        """The graphs that are registered with this client's API key."""
        return self._send(requests.registered_graphs, self._settings)

    def registered_graph(self, name: str) -> GraphInfo:
        """A registered graph.

        Raises:
            NotFoundError: none of this name is registered with this client's API key.
        """
        return self._send(partial(requests.registered_graph, name), self._settings)

    def delete_graph(self, name: str) -> None:
        """Removes a registered graph.

        Raises:
            NotFoundError: none of this name is registered with this client's API key.
        """
        return self._send(partial(requests.delete_graph, name), self._settings)

    def operators(self) -> list[OperatorSummary]:
        """All operator types of DirectML; ``executable`` marks those that the server runs."""
        return self._send(requests.operators, self._settings)

    def operator(self, name: str) -> OperatorInfo:
        """The fields, support rows and worked examples of an operator type.

        Raises:
            NotFoundError: DirectML has no such operator type.
        """
        return self._send(partial(requests.operator, name), self._settings)

    def feature_levels(self) -> list[LevelInfo]:
        """All feature levels, lowest first, with the operator types that each brought."""
        return self._send(requests.feature_levels, self._settings)

    def server(self) -> ServerInfo:
        """What the server is: its version, devices and limits."""
        return self._send(requests.server, self._settings)

    def ready(self) -> bool:
        """Whether the server takes work.

        Raises:
            TransportError: there is no answer.
        """
        try:
            self._try(requests.readiness(self._settings), 0)
        except UnavailableError:
            return False
        return True

    def wait_ready(self, timeout: float = 30.0) -> None:
        """Returns as soon as the server takes work.

        Raises:
            TransportTimeout: it did not within ``timeout`` seconds; the message tells why not.
        """
        patience = Patience(timeout, CONNECT_SECONDS)
        while True:
            try:
                return self._try(requests.readiness(self._settings.within(patience.left)), 0)
            except _NOT_READY as reason:
                time.sleep(patience.delay(reason))

    def close(self) -> None:
        """Closes the connections, unless they are those of another client."""
        if self._owns_connections:
            self._connections.close().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


class AsyncClient(
    _Shell[Coroutine[Any, Any, Result], Coroutine[Any, Any, PoolingResult], httpx.AsyncBaseTransport, AsyncSender]
):
    """The client for asyncio: ``Client`` with awaitable methods.

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

    async def _run(self, call: Call, options: CallOptions) -> Result:
        return await self._send(partial(requests.execute, call), self._settings.updated(options))

    async def _run_pooling(self, call: Call, options: CallOptions) -> PoolingResult:
        return await self._send(partial(requests.execute_pooling, call), self._settings.updated(options))

    async def execute_many(self, calls: Iterable[Call], **options: Unpack[CallOptions]) -> list[Result | OpwireError]:
        """As ``Client.execute_many``."""
        return await self._send(partial(requests.execute_many, checked_calls(calls)), self._settings.updated(options))

    async def validate(self, operator: AnyGraph, feature_level: FeatureLevel | str | int | None = None) -> Validation:
        """As ``Client.validate``."""
        return await self._send(partial(requests.validate, operator), self._settings.at_level(feature_level))

    async def register_graph(
        self,
        name: str,
        graph: Mapping[str, Any] | BuiltGraph,
        feature_level: FeatureLevel | str | int | None = None,
    ) -> GraphInfo:
        """As ``Client.register_graph``."""
        return await self._send(partial(requests.register_graph, name, graph), self._settings.at_level(feature_level))

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
            except _NOT_READY as reason:
                await _sleep(patience.delay(reason))

    async def aclose(self) -> None:
        """As ``Client.close``."""
        if self._owns_connections:
            await self._connections.close().aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.aclose()


async def _sleep(seconds: float) -> None:
    import asyncio  # the other client has no use for it

    await asyncio.sleep(seconds)
