"""Both clients behind one interface, and a fake server for them."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from opwire import AsyncClient, Client

KINDS = ("sync", "async")


class Blocking:
    """Runs an AsyncClient's calls to completion, so that one test covers both clients."""

    def __init__(self, client: AsyncClient, runner: asyncio.Runner) -> None:
        self._client = client
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, "aclose" if name == "close" else name)

        def call(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            if isinstance(result, AsyncClient):
                return Blocking(result, self._runner)
            return self._runner.run(result) if inspect.iscoroutine(result) else result

        return call

    def __repr__(self) -> str:
        return repr(self._client)

    def __enter__(self) -> Blocking:
        self._runner.run(self._client.__aenter__())
        return self

    def __exit__(self, *error: Any) -> None:
        self._runner.run(self._client.__aexit__(*error))


MakeClient = Callable[..., Any]
"""Makes a client of one kind from the arguments that both kinds take."""


@contextmanager
def clients(kind: str) -> Iterator[MakeClient]:
    """Yields a factory for clients of one kind, and closes them at the end."""
    made: list[Any] = []
    with asyncio.Runner() as runner:

        def make(*args: Any, **kwargs: Any) -> Any:
            made.append(Client(*args, **kwargs) if kind == "sync" else Blocking(AsyncClient(*args, **kwargs), runner))
            return made[-1]

        try:
            yield make
        finally:
            for client in made:
                client.close()


class FakeServer:
    """Records requests and answers them in turn with the given responses, repeating the last one."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.transport = httpx.MockTransport(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

    @property
    def request(self) -> httpx.Request:
        """The last request."""
        return self.requests[-1]

    @property
    def head(self) -> dict[str, Any]:
        """The JSON of the last request."""
        return self.parts[0]

    @property
    def parts(self) -> tuple[dict[str, Any], bytes]:
        """The JSON and the tail of the last request."""
        length = self.request.headers.get("Inference-Header-Content-Length")
        body = self.request.content
        cut = len(body) if length is None else int(length)
        return json.loads(body[:cut]), body[cut:]


def result_answer(**changes: Any) -> httpx.Response:
    """Returns a valid response to a sum of FLOAT32 [2,3] along axis 0: three sevens."""
    data = base64.b64encode(struct.pack("<3f", 7, 7, 7)).decode()
    outputs = {"OutputTensor": {"desc": {"DataType": "FLOAT32", "Sizes": [1, 3]}, "data": data}}
    return httpx.Response(200, json=outcome(outputs) | changes)


def pooling_answer() -> httpx.Response:
    """Returns a valid response to a pooling of UINT8 [1,1,1,1] with indices: 7 at index 0."""
    sizes = [1, 1, 1, 1]
    return httpx.Response(
        200,
        json=outcome(
            {
                "OutputTensor": {"desc": {"DataType": "UINT8", "Sizes": sizes}, "data": "Bw=="},
                "OutputIndicesTensor": {"desc": {"DataType": "UINT32", "Sizes": sizes}, "data": "AAAAAA=="},
            }
        ),
    )


def outcome(outputs: dict[str, Any]) -> dict[str, Any]:
    rest = {"feature_level": "DML_FEATURE_LEVEL_6_4", "device": "fake", "timing": {"total": 1}, "request_id": "r1"}
    return {"outputs": outputs, **rest}


def problem_answer(status: int, code: str, headers: dict[str, str] | None = None, **members: Any) -> httpx.Response:
    """Returns an error response as the server writes it."""
    problem = {"type": "about:blank", "title": "t", "status": status, "detail": "d", "code": code, **members}
    content = json.dumps(problem).encode()
    return httpx.Response(
        status, headers={"Content-Type": "application/problem+json", **(headers or {})}, content=content
    )
