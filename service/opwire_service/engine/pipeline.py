"""Request processing below HTTP: parse, check, decode, queue, run, encode, with each stage timed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from traceback import clear_frames
from typing import TypeVar

from opwire.check import Plan, read_level, validate
from opwire.errors import (
    InternalError,
    OpwireError,
    ProblemCode,
    UnavailableError,
)
from opwire.graph import GRAPH, operator_plans
from opwire.wire import (
    Answer,
    Buffer,
    ExecuteRequest,
    RequestBody,
    are_views,
    encoded_inputs,
    parse_validate_unless_model,
    read_inputs,
)

from ..devices.base import DeviceLost, Inputs
from ..settings import Limits
from ..telemetry.metrics import Metrics
from .batches import Guard
from .coders import INLINE_BYTES, Coders
from .dialect import Completed, Dialect
from .dispatcher import Dispatcher
from .graph_registry import GraphRegistry
from .limits import Allowance, refuse_large_block, refuse_large_json, refuse_large_plan, refuse_many_numbers
from .memory import Hold, Memory
from .plan_cache import PlanCache, Prepared
from .progress import Progress
from .registered_graph import RegisteredGraph
from .targets import asked_device, refuse_not_executable

T = TypeVar("T")
R = TypeVar("R")

DEFAULT_PRIORITY = 5

RERUNS = 2
"""Maximum number of reruns of a plan whose device was lost."""

log = logging.getLogger(__name__)


class Engine:
    """Answers requests on a dispatcher's devices, within the limits.

    Attributes:
        dispatcher: runs the plans.
        metrics: metrics of this process.
        limits: limits of the server.
        memory: memory budget shared by all requests.
        plans: cache of plans of recent operator descs.
        coders: threads that parse, decode and encode.
        graphs: registered graphs.
        default_device: device of requests that name none.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        limits: Limits,
        cached_plans: int,
        metrics: Metrics,
        graphs: GraphRegistry | None = None,
    ) -> None:
        self.dispatcher = dispatcher
        self.metrics = metrics
        self.limits = limits
        self.memory = Memory(limits.memory_bytes, limits.queued, limits.max_wait_ms / 1000)
        self.plans = PlanCache(cached_plans, partial(refuse_large_plan, limits))
        self.graphs = graphs or GraphRegistry(None, limits)
        self.coders = Coders(dispatcher.places)
        self.default_device = dispatcher.default

    async def answer(
        self,
        dialect: Dialect[R],
        body: Buffer,
        head_length: str | None,
        progress: Progress,
        hold: Hold,
        guard: Guard,
    ) -> Answer:
        """Answers a request for one operator.

        Args:
            dialect: protocol of the request.
            body: body as received.
            head_length: length of its JSON head if a binary tail follows.
            progress: timing of the request so far.
            hold: memory held by the request, including its body.
            guard: awaits work that does not complete immediately.

        Raises:
            ModelGiven: the body holds a model, and the protocol has models.
            OpwireError: the request is invalid, or there is no time or room for it.
        """
        request = await self.read(dialect.parse, body, head_length, progress, hold)
        request = await dialect.fetch(request, progress, hold)
        done, writing = await self._execute(dialect, request, progress, hold, guard)
        return await self._answer(dialect, request, done, writing, progress)

    async def answer_part(
        self, dialect: Dialect[R], request: R, progress: Progress, hold: Hold, guard: Guard, room: Allowance
    ) -> Answer | OpwireError:
        """Answers one parsed request of a batch; other arguments as for ``answer``.

        Args:
            hold: memory held by the batch.
            room: memory budget for the outputs of the batch.
        """
        try:
            done, writing = await self._execute(dialect, request, progress, hold, guard, room)
            return await self._answer(dialect, request, done, writing, progress)
        except OpwireError as error:
            return error
        except Exception:  # a bug must not fail the other requests of the batch
            log.exception("unhandled exception in a request of a batch")
            return InternalError(ProblemCode.INTERNAL_ERROR, "the server failed to process this request")

    async def read(
        self,
        parse: Callable[[RequestBody], T],
        body: Buffer,
        head_length: str | None,
        progress: Progress,
        hold: Hold,
    ) -> T:
        """Parses a body with ``parse``, after checking the amount of JSON in it.

        Raises:
            LimitExceededError: there is too much JSON besides base64 tensors.
            OpwireError: as for ``answer``.
        """
        progress.deadline = self.deadline(progress.started, None)
        is_large = _json_bytes(body, head_length) > INLINE_BYTES
        split = RequestBody.split
        taken = await self.coders.parse(split, body, head_length) if is_large else split(body, head_length)
        if len(taken.text) > _FEW_BYTES:
            refuse_large_json(self.limits, taken, INLINE_BYTES)
            await hold.grow(taken.objects_bytes, progress.deadline)
        parsed = await self.coders.parse(parse, taken) if len(taken.text) > INLINE_BYTES else parse(taken)
        progress.lap("parse")
        return parsed

    async def validate(
        self, body: Buffer, head_length: str | None, progress: Progress, hold: Hold, owner: str | None
    ) -> dict[str, object]:
        """Validates an operator desc or a graph and returns the result as JSON; other arguments as for ``answer``.

        Args:
            owner: owner of the registered graphs that the request may name.

        Raises:
            ModelGiven: the body holds a model.
            ContractViolation: the feature level does not exist.
            OpwireError: as for ``read``.
        """
        request = await self.read(parse_validate_unless_model, body, head_length, progress, hold)
        progress.operator = GRAPH.name if request.is_graph else request.operator
        if request.is_graph:
            return (await self.coders.parse(self.graphs.validate, request, owner)).to_json()
        level = read_level(request.feature_level, "/feature_level")
        return validate(request.operator, level, strict=request.strict, pointer="/operator").to_json()

    async def close(self) -> None:
        """Stops accepting work and waits for running work."""
        await self.dispatcher.close()
        self.graphs.close()
        self.coders.close()

    def deadline(self, started: float, timeout_ms: int | None) -> float:
        """Returns the deadline of a request: its own timeout, at most that of the server."""
        longest = self.limits.timeout_ms
        return started + min(longest, longest if timeout_ms is None else timeout_ms) / 1000

    async def _execute(
        self,
        dialect: Dialect[R],
        request: R,
        progress: Progress,
        hold: Hold,
        guard: Guard,
        room: Allowance | None = None,
    ) -> tuple[Completed, int]:
        """Runs the operator of a request. Also returns the memory needed to encode the response, in bytes."""
        try:
            execute = dialect.operator(request, self.plans)
            device = self._begin(execute, progress)
            prepared = await self.plan(execute)
            refuse_not_executable(self.dispatcher, prepared.plan, device)
            writing, numbers = dialect.answer_bytes(request, prepared)
            refuse_many_numbers(self.limits, numbers)
            if room is not None:
                room.take(prepared.output_bytes)
            progress.lap("check")
            done = await self._run(execute, prepared, device, writing, progress, hold, guard, is_part=room is not None)
        except BaseException as error:
            if isinstance(error, OpwireError):
                dialect.relocate(error, request)
            _clear_error_frames(error)
            raise
        return done, writing

    def _begin(self, execute: ExecuteRequest, progress: Progress) -> str:
        """Records operator and deadline of a request and returns the device it asks for."""
        progress.operator = GRAPH.name if execute.is_graph else execute.operator
        progress.deadline = self.deadline(progress.started, execute.timeout_ms)
        return asked_device(self.dispatcher, execute)

    async def _answer(
        self, dialect: Dialect[R], request: R, done: Completed, writing: int, progress: Progress
    ) -> Answer:
        """Encodes the response to a completed run, on another thread if it is large."""
        progress.device = done.device
        await dialect.store(request, done)
        if writing > INLINE_BYTES:
            answer = await self.coders.code(writing, dialect.write, request, done, progress)
        else:
            answer = dialect.write(request, done, progress)
        self.metrics.executed(done.prepared.plan.operator.name, progress.timing)
        return answer

    async def plan(self, request: ExecuteRequest) -> Prepared:
        """Returns the plan of a request. Checking a graph may take long and is done on another thread."""
        if not request.is_graph:
            return self.plans.plan(request)
        graph = request.operator
        if isinstance(graph, RegisteredGraph):
            if (made := graph.plan_for(request)) is not None:
                return made
            return await self.coders.parse(self.graphs.plan, graph, request, self.plans.prepare)
        key, found = self.plans.find(request)
        return found or self.plans.keep(key, await self.coders.parse(self.plans.prepare, request))

    async def _run(
        self,
        request: ExecuteRequest,
        prepared: Prepared,
        device: str,
        writing: int,
        progress: Progress,
        hold: Hold,
        guard: Guard,
        *,
        is_part: bool,
    ) -> Completed:
        plan, deadline = prepared.plan, progress.deadline
        is_small = prepared.input_bytes + prepared.between_bytes <= INLINE_BYTES
        is_inline = is_small and self.dispatcher.fits_inline(plan, device)
        scratch = 0 if is_inline else await self._scratch_bytes(plan, device)
        refuse_large_block(self.limits, plan, scratch)
        size = prepared.bytes + writing + scratch
        if not hold.grow_now(size):
            await hold.grow(size, deadline)
        if is_inline:
            inputs = read_inputs(plan, request)
            buffers, outputs = prepared.allocate()
            progress.lap("decode")
            runner = self.dispatcher.inline_device(device)
            ran = self.dispatcher.run_inline(plan, partial(runner.run, plan, inputs, outputs), deadline)
            if ran is None:  # the plan now counts as slow
                return await self._run(request, prepared, device, writing, progress, hold, guard, is_part=is_part)
            progress.ran(ran)
            return Completed(request, prepared, buffers, runner.name)
        return await self._run_somewhere(request, prepared, device, progress, guard, is_part=is_part)

    async def _run_somewhere(
        self,
        request: ExecuteRequest,
        prepared: Prepared,
        device: str,
        progress: Progress,
        guard: Guard,
        *,
        is_part: bool,
    ) -> Completed:
        """Runs a plan on a device of the dispatcher's choice, and on another one if that device is lost."""
        plan, lost = prepared.plan, list[str]()
        priority = DEFAULT_PRIORITY if request.priority is None else request.priority
        while True:
            with self.dispatcher.place(plan, device, lost) as chosen:
                is_small = prepared.input_bytes + prepared.between_bytes <= INLINE_BYTES
                given = read_inputs(plan, request) if is_small else await self._inputs(prepared, request, chosen)
                buffers, outputs = prepared.allocate()
                progress.lap("decode")
                work = self.dispatcher.run(
                    plan, given, outputs, device=chosen, priority=priority, deadline=progress.deadline, part=is_part
                )
                try:
                    progress.ran(await guard(work))
                except DeviceLost:
                    progress.lap("queue")
                    lost.append(chosen)
                else:
                    return Completed(request, prepared, buffers, chosen)
            log.info("device %s was lost while running %s", chosen, plan.operator.name)
            if len(lost) > RERUNS:
                message = f"the devices that ran the operator were lost: {', '.join(lost)}"
                raise UnavailableError(ProblemCode.NOT_READY, message, retry_after=1)

    async def _scratch_bytes(self, plan: Plan, device: str) -> int:
        """Returns the scratch memory of a plan on a device. A long graph is prepared for it on another thread."""
        if len(operator_plans(plan)) <= _FEW_STEPS:
            return self.dispatcher.scratch_bytes(plan, device)
        return await self.coders.parse(self.dispatcher.scratch_bytes, plan, device)

    async def _inputs(self, prepared: Prepared, request: ExecuteRequest, device: str) -> Inputs:
        """Reads large inputs, decoding them on another thread unless the device does that or they need no decoding."""
        plan = prepared.plan
        encoded = encoded_inputs(plan, request) if self.dispatcher.decodes(device) else None
        if encoded is not None:
            return encoded
        if are_views(plan, request):
            return read_inputs(plan, request)
        return await self.coders.code(prepared.input_bytes, read_inputs, plan, request)


_FEW_STEPS = 32
"""Maximum number of steps of a graph that is prepared on the event loop's thread."""

_FEW_BYTES = 4096
"""Size of JSON below which the number of values in it is not checked, in bytes."""


def _clear_error_frames(error: BaseException | None) -> None:
    """Clears the frames of an error's tracebacks, and with them the tensors they hold.

    The frames, the error and its tasks form reference cycles, which would keep the tensors until the next collection.
    """
    while error is not None:
        clear_frames(error.__traceback__)
        error = error.__context__


def _json_bytes(body: Buffer, head_length: str | None) -> int:
    """Returns the size of the JSON in a body: its head if ``head_length`` is given; 0 if that is not a number."""
    if head_length is None:
        return len(body)
    return min(int(head_length[-9:]), len(body)) if head_length.isdecimal() else 0
