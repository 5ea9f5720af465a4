"""Inference requests as a dialect of the common request path; their tensors may be in shared memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from opwire.errors import ContractViolation, OpwireError, ProblemCode, RequestError
from opwire.tensor_names import split
from opwire.wire import NODE_BYTES, Answer, ExecuteRequest, RequestBody

from ..engine.coders import INLINE_BYTES
from ..engine.dialect import Dialect, Result
from ..engine.limits import exceeded
from ..engine.plan_cache import PlanCache, Prepared
from ..engine.request import Request
from .answer import numbers_in, pack, write_infer
from .infer import (
    InferRequest,
    parse_infer,
    refuse_small_ranges,
    refuse_unknown_outputs,
    with_optional_outputs,
    with_shared_inputs,
)
from .models import ServedModel
from .pointers import relocate
from .shared_memory import SharedMemoryRange, Window

T = TypeVar("T")

Open = Callable[[SharedMemoryRange], Window]
"""Opens a range of shared memory for the duration of the request."""


class Inference(Dialect[InferRequest]):
    """Dialect of one inference request.

    Args:
        model: model to run.
        parameters: value of the parameters header, a JSON object.
        open_place: opens ranges of shared memory.
        limit: maximum size of all inputs in shared memory, in bytes.
    """

    def __init__(self, model: ServedModel, parameters: str, open_place: Open, limit: int) -> None:
        self._model = model
        self._parameters = parameters
        self._open = open_place
        self._limit = limit
        self._windows: dict[str, Window] = {}

    def parse(self, body: RequestBody) -> InferRequest:
        """See ``Dialect``."""
        return parse_infer(body, self._model, self._parameters)

    async def fetch(self, parsed: InferRequest, request: Request) -> InferRequest:
        """See ``Dialect``. Tensors in shared memory count as part of the body."""
        places = {output.name: output.place for output in parsed.outputs if output.place is not None}
        self._windows = {name: self._open(place) for name, place in {**places, **parsed.shared}.items()}
        if not parsed.shared:
            return parsed
        size = sum(place.byte_size for place in parsed.shared.values())
        if size > self._limit:
            raise exceeded(ProblemCode.BODY_TOO_LARGE, "bytes of shared memory", size, self._limit)
        await request.hold.grow(size, request.deadline)
        read = {name: await _copy(self._windows[name].read, at.byte_size) for name, at in parsed.shared.items()}
        request.lap("receive")
        return replace(parsed, execute=with_shared_inputs(parsed.execute, read))

    def operator(self, parsed: InferRequest, plans: PlanCache) -> ExecuteRequest:
        """See ``Dialect``."""
        execute = parsed.execute
        if self._model.graph is not None:
            refuse_small_ranges(parsed, self._model.graph.outputs)
            return execute
        if parsed.optional:
            execute = self._with_optional_outputs(parsed, plans)
        if parsed.optional or any(self._model.outputs[split(output.name)[0]] for output in parsed.outputs):
            refuse_unknown_outputs(parsed, plans.plan(execute).plan)
        if any(output.place for output in parsed.outputs):
            refuse_small_ranges(parsed, plans.plan(execute).plan.outputs)
        return execute

    def _with_optional_outputs(self, parsed: InferRequest, plans: PlanCache) -> ExecuteRequest:
        """Adds the requested optional outputs; if no outputs are named, all optional ones, provided that is valid."""
        described = with_optional_outputs(parsed)
        if parsed.outputs:
            return described
        with suppress(ContractViolation):
            plans.plan(described)
            return described
        return parsed.execute

    def relocate(self, error: OpwireError, parsed: InferRequest) -> None:
        """See ``Dialect``."""
        if isinstance(error, ContractViolation | RequestError):
            relocate(error, list(parsed.execute.inputs), parsed.parameters)

    def answer_bytes(self, parsed: InferRequest, prepared: Prepared) -> tuple[int, int]:
        """See ``Dialect``."""
        numbers = numbers_in(parsed, prepared.plan.outputs)
        return numbers * NODE_BYTES, numbers

    def write(self, parsed: InferRequest, done: Result, request: Request) -> Answer:
        """See ``Dialect``."""
        answer = write_infer(parsed, self._model, done.prepared.plan.outputs, done.buffers)
        request.end("encode")
        return answer

    async def store(self, parsed: InferRequest, done: Result) -> None:
        """See ``Dialect``."""
        for output in parsed.outputs:
            if output.place is not None:
                data = pack(done.prepared.plan.outputs[output.name], done.buffers[output.name]).data
                await _copy(partial(self._windows[output.name].write, data), data.nbytes)


async def _copy(copy: Callable[[], T], size: int) -> T:
    """Copies bytes, on another thread if there are many."""
    return copy() if size <= INLINE_BYTES else await asyncio.to_thread(copy)
