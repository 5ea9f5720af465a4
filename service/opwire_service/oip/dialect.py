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
from ..engine.dialect import Completed, Dialect
from ..engine.limits import exceeded
from ..engine.memory import Hold
from ..engine.plan_cache import PlanCache, Prepared
from ..engine.progress import Progress
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

    async def fetch(self, request: InferRequest, progress: Progress, hold: Hold) -> InferRequest:
        """See ``Dialect``. Tensors in shared memory count as part of the body."""
        places = {output.name: output.place for output in request.outputs if output.place is not None}
        self._windows = {name: self._open(place) for name, place in {**places, **request.shared}.items()}
        if not request.shared:
            return request
        size = sum(place.byte_size for place in request.shared.values())
        if size > self._limit:
            raise exceeded(ProblemCode.BODY_TOO_LARGE, "bytes of shared memory", size, self._limit)
        await hold.grow(size, progress.deadline)
        read = {name: await _copy(self._windows[name].read, at.byte_size) for name, at in request.shared.items()}
        progress.lap("receive")
        return replace(request, execute=with_shared_inputs(request.execute, read))

    def operator(self, request: InferRequest, plans: PlanCache) -> ExecuteRequest:
        """See ``Dialect``."""
        execute = request.execute
        if self._model.graph is not None:
            refuse_small_ranges(request, self._model.graph.outputs)
            return execute
        if request.optional:
            execute = self._with_optional_outputs(request, plans)
        if request.optional or any(self._model.outputs[split(output.name)[0]] for output in request.outputs):
            refuse_unknown_outputs(request, plans.plan(execute).plan)
        if any(output.place for output in request.outputs):
            refuse_small_ranges(request, plans.plan(execute).plan.outputs)
        return execute

    def _with_optional_outputs(self, request: InferRequest, plans: PlanCache) -> ExecuteRequest:
        """Adds the requested optional outputs; if no outputs are named, all optional ones, provided that is valid."""
        described = with_optional_outputs(request)
        if request.outputs:
            return described
        with suppress(ContractViolation):
            plans.plan(described)
            return described
        return request.execute

    def relocate(self, error: OpwireError, request: InferRequest) -> None:
        """See ``Dialect``."""
        if isinstance(error, ContractViolation | RequestError):
            relocate(error, list(request.execute.inputs), request.parameters)

    def answer_bytes(self, request: InferRequest, prepared: Prepared) -> tuple[int, int]:
        """See ``Dialect``."""
        numbers = numbers_in(request, prepared.plan.outputs)
        return numbers * NODE_BYTES, numbers

    def write(self, request: InferRequest, done: Completed, progress: Progress) -> Answer:
        """See ``Dialect``."""
        answer = write_infer(request, self._model, done.prepared.plan.outputs, done.buffers)
        progress.end("encode")
        return answer

    async def store(self, request: InferRequest, done: Completed) -> None:
        """See ``Dialect``."""
        for output in request.outputs:
            if output.place is not None:
                data = pack(done.prepared.plan.outputs[output.name], done.buffers[output.name]).data
                await _copy(partial(self._windows[output.name].write, data), data.nbytes)


async def _copy(copy: Callable[[], T], size: int) -> T:
    """Copies bytes, on another thread if there are many."""
    return copy() if size <= INLINE_BYTES else await asyncio.to_thread(copy)
