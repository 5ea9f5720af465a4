"""The native protocol: reading of its operator requests and writing of their responses."""

from __future__ import annotations

from collections.abc import Callable

from opwire.wire import (
    NODE_BYTES,
    Answer,
    ExecuteRequest,
    Outcome,
    OutputFormat,
    RequestBody,
    encode_output,
    parse_execute_unless_model,
    write_outcome,
)

from ...engine.dialect import Dialect, Result
from ...engine.plan_cache import PlanCache, Prepared
from ...engine.registered_graph import RegisteredGraph
from ...engine.request import Request


class Native(Dialect[ExecuteRequest]):
    """Dialect of one request in the native protocol.

    Args:
        request_id: ID to repeat in the response.
        binary: whether the client accepts tensors in a binary tail.
        find: finds the client's registered graph of a name; None if there are no registered graphs.
    """

    def __init__(self, request_id: str, *, binary: bool, find: Callable[[str], RegisteredGraph] | None = None) -> None:
        self._request_id = request_id
        self._binary = binary
        self._find = find

    def parse(self, body: RequestBody) -> ExecuteRequest:
        """See ``Dialect``."""
        return parse_execute_unless_model(body)

    def operator(self, parsed: ExecuteRequest, plans: PlanCache) -> ExecuteRequest:
        """See ``Dialect``."""
        named = parsed.operator
        if self._find is None or not parsed.is_graph or not isinstance(named, str):
            return parsed
        return self._find(named).request(parsed)

    def answer_bytes(self, parsed: ExecuteRequest, prepared: Prepared) -> tuple[int, int]:
        """See ``Dialect``."""
        output_format = self._format(parsed)
        if output_format is OutputFormat.BINARY:
            return 0, 0
        if output_format is OutputFormat.NUMBERS:
            count = sum(desc.element_count for desc in prepared.plan.outputs.values())
            return count * NODE_BYTES, count
        return prepared.output_bytes * 4 // 3, 0

    def write(self, parsed: ExecuteRequest, done: Result, request: Request) -> Answer:
        """See ``Dialect``."""
        plan, frames, output_format = done.prepared.plan, done.prepared.frames, self._format(parsed)
        encoded = [
            encode_output(frames[name], plan.outputs[name], buffer, output_format)
            for name, buffer in done.buffers.items()
        ]
        return write_outcome(Outcome(encoded, plan.level, done.device, request.end("encode")), self._request_id)

    def _format(self, parsed: ExecuteRequest) -> OutputFormat:
        return OutputFormat.BINARY if self._binary else parsed.output_format
