"""HTTP load generator: each connection sends its next request as soon as the previous one is answered."""

from __future__ import annotations

import asyncio
import ssl
import time
from array import array
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

import httptools

_RECONNECT_SECONDS = 0.01
_TICK_SECONDS = 0.2
_FIRST_ANSWER_SECONDS = 60.0
"""Maximum time to the first response, which for large tensors may exceed the whole measurement, in seconds."""

BUSY = 0.9
"""Share of a core above which the client may be the bottleneck rather than the server."""

NextBody = Callable[[], bytes]
"""Returns the next request, head and body."""

Progress = Callable[[float, int], None]
"""Called periodically with the elapsed seconds and the number of responses so far."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a server."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None

    @classmethod
    def of(cls, url: str) -> Address:
        """Parses a URL.

        Raises:
            ValueError: the URL is not an HTTP URL with a host.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not a URL such as http://127.0.0.1:8000")
        secure = parts.scheme == "https"
        return cls(
            parts.hostname, parts.port or (443 if secure else 80), ssl.create_default_context() if secure else None
        )


def write_request(url: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """Returns an HTTP/1.1 POST request."""
    parts = urlsplit(url)
    fields = {"Host": parts.netloc, **headers, "Content-Length": str(len(body))}
    lines = [f"POST {parts.path or '/'} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


@dataclass(slots=True)
class LoadResult:
    """The result of one load.

    Attributes:
        connections: number of connections, each with one request in flight.
        seconds: duration of the load.
        cpu: share of a core used by this program.
        latencies: seconds from sending a request to receiving the last byte of its 2xx response, sorted.
        errors: counts of failures by status or reason.
    """

    connections: int
    seconds: float = 0.0
    cpu: float = 0.0
    latencies: array[float] = field(default_factory=lambda: array("d"))
    errors: Counter[str] = field(default_factory=Counter)

    @property
    def rate(self) -> float:
        """Responses per second."""
        return len(self.latencies) / self.seconds if self.seconds else 0.0

    @property
    def client_bound(self) -> bool:
        """Whether this program may have been the bottleneck rather than the server."""
        return self.cpu > BUSY

    def percentile(self, percent: float) -> float:
        """Returns a percentile of the latencies, or NaN without responses."""
        if not self.latencies:
            return float("nan")
        rank = -int(-len(self.latencies) * percent // 100)
        return self.latencies[max(rank, 1) - 1]


class _LoadConnection(asyncio.Protocol):
    """A connection that sends the next request whenever a response is complete."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._sent = 0.0
        self._waits = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's do not inherit from it

    def send(self) -> None:
        """Sends a request."""
        if self._transport is not None:
            request = self._run.source()
            self._waits = True
            self._sent = time.perf_counter()
            self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._fail("not HTTP")
            self.close()

    def on_message_complete(self) -> None:
        """Called by the parser when a response is complete."""
        run = self._run
        if not run.going:
            return
        self._waits = False
        status = self._parser.get_status_code()
        if 200 <= status < 300:
            run.load.latencies.append(time.perf_counter() - self._sent)
        else:
            run.load.errors[str(status)] += 1
        if self._parser.should_keep_alive():
            self.send()
        else:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._run.going:
            self._fail("connection lost")
            self._run.replace(self)

    def _fail(self, reason: str) -> None:
        if self._waits:
            self._waits = False
            self._run.load.errors[reason] += 1

    def close(self) -> None:
        """Aborts the connection."""
        if self._transport is not None:
            self._transport.abort()


class _Run:
    """One measurement."""

    def __init__(self, address: Address, source: NextBody, connections: int) -> None:
        self.source = source
        self.load = LoadResult(connections)
        self.going = False
        self._address = address
        self._connections: set[_LoadConnection] = set()
        self._replacing: set[asyncio.Task[None]] = set()

    async def measure(self, seconds: float, progress: Progress | None) -> LoadResult:
        for _ in range(self.load.connections):
            await self._connect()
        self.going = True
        began, used = time.perf_counter(), time.process_time()
        for connection in self._connections:
            connection.send()
        try:
            while (passed := time.perf_counter() - began) < seconds or self._waits(passed):
                await asyncio.sleep(min(_TICK_SECONDS, max(seconds - passed, 0.01)))
                if progress is not None:
                    progress(min(passed, seconds), len(self.load.latencies))
        finally:
            self.going = False
            self.load.seconds = time.perf_counter() - began
            self.load.cpu = (time.process_time() - used) / self.load.seconds
            await self._close()
        self.load.latencies = array("d", sorted(self.load.latencies))
        return self.load

    def _waits(self, passed: float) -> bool:
        """Whether to keep waiting for the first response."""
        return not self.load.latencies and not self.load.errors and passed < _FIRST_ANSWER_SECONDS

    async def _connect(self) -> _LoadConnection:
        loop = asyncio.get_running_loop()
        address = self._address
        _, made = await loop.create_connection(
            lambda: _LoadConnection(self), address.host, address.port, ssl=address.tls
        )
        self._connections.add(made)
        return made

    def replace(self, lost: _LoadConnection) -> None:
        """Replaces a lost connection."""
        self._connections.discard(lost)
        task = asyncio.ensure_future(self._reconnect())
        self._replacing.add(task)
        task.add_done_callback(self._replacing.discard)

    async def _reconnect(self) -> None:
        while self.going:
            await asyncio.sleep(_RECONNECT_SECONDS)
            try:
                (await self._connect()).send()
            except OSError:
                self.load.errors["no connection"] += 1
            else:
                return

    async def _close(self) -> None:
        for task in self._replacing:
            task.cancel()
        for connection in self._connections:
            connection.close()
        await asyncio.sleep(0)  # the transports close in the next iteration of the loop


def measure(
    address: Address, source: NextBody, connections: int, seconds: float, progress: Progress | None = None
) -> LoadResult:
    """Puts load on a server and measures it.

    Args:
        address: address of the server.
        source: returns the requests.
        connections: number of concurrent connections, each with one request in flight.
        seconds: duration; longer if no response has arrived by then.
        progress: see Progress.

    Raises:
        OSError: a connection cannot be opened.
    """
    try:
        import uvloop
    except ImportError:  # not available on Windows
        loop_factory = None
    else:
        loop_factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(_Run(address, source, connections).measure(seconds, progress))
