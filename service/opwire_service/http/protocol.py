"""The HTTP protocol of uvicorn, with problem answers to what is not HTTP."""

from __future__ import annotations

import uuid

from pydantic_core import to_json
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from opwire.errors import ProblemCode, RequestError, to_problem

from .errors import PROBLEM_JSON


class ProblemProtocol(HttpToolsProtocol):
    """Answers a request that cannot be parsed with a problem, and closes the connection."""

    def send_400_response(self, msg: str) -> None:
        identity = uuid.uuid4().hex
        error = RequestError(ProblemCode.INVALID_REQUEST, "the request line or a header is not HTTP")
        body = to_json(to_problem(error, identity))
        head = (
            "HTTP/1.1 400 Bad Request\r\n"
            f"content-type: {PROBLEM_JSON}\r\n"
            f"content-length: {len(body)}\r\n"
            f"x-request-id: {identity}\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        self.transport.close()
