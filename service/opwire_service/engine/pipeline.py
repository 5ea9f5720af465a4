"""Request processing below HTTP: parse, check, decode, queue, run, encode, with each stage timed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
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
from opwire.tensor import Array
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
from ..execution import Arrays
from ..settings import Limits
from ..telemetry.metrics import Metrics
from .coders import INLINE_BYTES, Coders
from .dialect import Dialect, Result
from .dispatcher import Dispatcher
from .graph_registry import GraphRegistry
from .limits import refuse_large_block, refuse_large_json, refuse_large_plan, refuse_many_numbers
from .memory import Memory
from .plan_cache import PlanCache, Prepared
from .request import Request
from .targets import asked_device, refuse_not_executable

T = TypeVar("T")
R = TypeVar("R")

DEFAULT_PRIORITY = 5

RERUNS = 2
"""Maximum number of reruns of a plan whose device was lost."""

Arrange = Callable[[str], Awaitable[tuple[Inputs, Arrays]]]
"""Returns the inputs and outputs of a plan for the device that is to run it."""

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

    async def answer(self, dialect: Dialect[R], body: Buffer, head_length: str | None, request: Request) -> Answer:
        """Answers a request for one operator.

        Args:
            dialect: protocol of the request.
            body: body as received.
            head_length: length of its JSON head if a binary tail follows.
            request: the request.

        Raises:
            ModelGiven: the body holds a model, and the protocol has models.
            OpwireError: the request is invalid, or there is no time or room for it.
        """
        parsed = await self.read(dialect.parse, body, head_length, request)
        return await self._answer(dialect, await dialect.fetch(parsed, request), request)

    async def answer_part(self, dialect: Dialect[R], parsed: R, request: Request) -> Answer | OpwireError:
        """Answers one parsed request of a batch."""
        try:
            return await self._answer(dialect, parsed, request)
        except OpwireError as error:
            return error
        except Exception:  # a bug must not fail the other requests of the batch
            log.exception("unhandled exception in a request of a batch")
            return InternalError(ProblemCode.INTERNAL_ERROR, "the server failed to process this request")

    async def read(
        self, parse: Callable[[RequestBody], T], body: Buffer, head_length: str | None, request: Request
    ) -> T:
        """Parses a body with ``parse``, after checking the amount of JSON in it.

        Raises:
            LimitExceededError: there is too much JSON besides base64 tensors.
            OpwireError: as for ``answer``.
        """
        request.deadline = self.deadline(request.started, None)
        is_large = _json_bytes(body, head_length) > INLINE_BYTES
        split = RequestBody.split
        taken = await self.coders.parse(split, body, head_length) if is_large else split(body, head_length)
        if len(taken.text) > _FEW_BYTES:
            refuse_large_json(self.limits, taken, INLINE_BYTES)
            await request.hold.grow(taken.objects_bytes, request.deadline)
        parsed = await self.coders.parse(parse, taken) if len(taken.text) > INLINE_BYTES else parse(taken)
        request.lap("parse")
        return parsed

    async def validate(
        self, body: Buffer, head_length: str | None, request: Request, owner: str | None
    ) -> dict[str, object]:
        """Validates an operator desc or a graph and returns the result as JSON; other arguments as for ``answer``.

        Args:
            owner: owner of the registered graphs that the request may name.

        Raises:
            ModelGiven: the body holds a model.
            ContractViolation: the feature level does not exist.
            OpwireError: as for ``read``.
        """
        parsed = await self.read(parse_validate_unless_model, body, head_length, request)
        request.operator = GRAPH.name if parsed.is_graph else parsed.operator
        if parsed.is_graph:
            return (await self.coders.parse(self.graphs.validate, parsed, owner)).to_json()
        level = read_level(parsed.feature_level, "/feature_level")
        return validate(parsed.operator, level, strict=parsed.strict, pointer="/operator").to_json()

    async def close(self) -> None:
        """Stops accepting work and waits for running work."""
        await self.dispatcher.close()
        self.graphs.close()
        self.coders.close()

    def deadline(self, started: float, timeout_ms: int | None) -> float:
        """Returns the deadline of a request: its own timeout, at most that of the server."""
        longest = self.limits.timeout_ms
        return started + (longest if timeout_ms is None or timeout_ms > longest else timeout_ms) / 1000

    async def plan(self, execute: ExecuteRequest) -> Prepared:
        """Returns the plan of an operator. Checking a graph may take long and is done on another thread."""
        if not execute.is_graph:
            return self.plans.plan(execute)
        key, found = self.plans.find(execute)
        return found or self.plans.keep(key, await self.coders.parse(self.plans.prepare, execute))

    async def _answer(self, dialect: Dialect[R], parsed: R, request: Request) -> Answer:
        """Runs the operator of a request and encodes the response, on another thread if it is large."""
        done, writing = await self._execute(dialect, parsed, request)
        request.device = done.device
        await dialect.store(parsed, done)
        if writing > INLINE_BYTES:
            answer = await self.coders.code(writing, dialect.write, parsed, done, request)
        else:
            answer = dialect.write(parsed, done, request)
        self.metrics.executed(done.prepared.plan.operator.name, request.timing)
        return answer

    async def _execute(self, dialect: Dialect[R], parsed: R, request: Request) -> tuple[Result, int]:
        """Runs the operator of a request. Also returns the memory needed to encode the response, in bytes."""
        try:
            execute = dialect.operator(parsed, self.plans)
            request.operator = GRAPH.name if execute.is_graph else execute.operator
            request.deadline = self.deadline(request.started, execute.timeout_ms)
            device = asked_device(self.dispatcher, execute)
            prepared = await self.plan(execute)
            refuse_not_executable(self.dispatcher, prepared.plan, device)
            writing, numbers = dialect.answer_bytes(parsed, prepared)
            refuse_many_numbers(self.limits, numbers)
            if request.room is not None:
                request.room.take(prepared.output_bytes)
            request.lap("check")
            return await self._run(execute, prepared, device, writing, request), writing
        except BaseException as error:
            if isinstance(error, OpwireError):
                dialect.relocate(error, parsed)
            _clear_error_frames(error)
            raise

    async def _run(
        self, execute: ExecuteRequest, prepared: Prepared, device: str, writing: int, request: Request
    ) -> Result:
        plan, size = prepared.plan, prepared.bytes + writing
        is_small = prepared.input_bytes + prepared.between_bytes <= INLINE_BYTES
        if is_small and self.dispatcher.fits_inline(plan, device):
            if not request.hold.grow_now(size):
                await request.hold.grow(size, request.deadline)
            if (done := self._run_inline(execute, prepared, device, request)) is not None:
                return done
            size = 0
        buffers = dict[str, Array]()

        async def arrays(chosen: str) -> tuple[Inputs, Arrays]:
            given = read_inputs(plan, execute) if is_small else await self._inputs(prepared, execute, chosen)
            allocated, outputs = prepared.allocate()
            buffers.update(allocated)
            request.lap("decode")
            return given, outputs

        chosen = await self.run(plan, device, execute.priority, arrays, request, size=size)
        return Result(execute, prepared, buffers, chosen)

    def _run_inline(self, execute: ExecuteRequest, prepared: Prepared, device: str, request: Request) -> Result | None:
        """Runs a short plan on the event loop's thread; returns None if it takes too long there."""
        plan, runner = prepared.plan, self.dispatcher.inline_device(device)
        inputs = read_inputs(plan, execute)
        buffers, outputs = prepared.allocate()
        request.lap("decode")
        ran = self.dispatcher.run_inline(plan, partial(runner.run, plan, inputs, outputs), request.deadline)
        if ran is None:
            return None
        request.ran(ran)
        return Result(execute, prepared, buffers, runner.name)

    async def run(
        self,
        plan: Plan,
        device: str,
        priority: int | None,
        arrays: Arrange,
        request: Request,
        *,
        size: int = 0,
        reruns: int = RERUNS,
    ) -> str:
        """Runs a plan on another thread, once there is memory for it, and on another device if one is lost.

        Args:
            plan: the plan.
            device: name of the device, ``auto`` or ``cluster``.
            priority: 0 is the most urgent; None for the default.
            arrays: returns the arrays of the plan for a device.
            request: the request that it belongs to.
            size: bytes that the request needs from now on besides those for computing the plan.
            reruns: maximum number of reruns on other devices if devices are lost; 0 if a run may change what the plan
                reads.

        Returns:
            The name of the device that ran it.

        Raises:
            OpwireError: there is no time or room for it, or too many devices were lost.
        """
        scratch = await self._scratch_bytes(plan, device)
        refuse_large_block(self.limits, plan, scratch)
        await request.hold.grow(size + scratch, request.deadline)
        try:
            return await self._run_on_thread(plan, device, priority, arrays, request, reruns)
        finally:
            request.hold.give_back(scratch)

    async def _run_on_thread(
        self, plan: Plan, device: str, priority: int | None, arrays: Arrange, request: Request, reruns: int
    ) -> str:
        """Runs a plan on a device of the dispatcher's choice, and on another one if that device is lost."""
        lost = list[str]()
        while True:
            with self.dispatcher.place(plan, device, lost) as chosen:
                inputs, outputs = await arrays(chosen)
                work = self.dispatcher.run(
                    plan,
                    inputs,
                    outputs,
                    device=chosen,
                    priority=DEFAULT_PRIORITY if priority is None else priority,
                    deadline=request.deadline,
                    part=request.room is not None,
                )
                try:
                    request.ran(await request.guard(work))
                    return chosen
                except DeviceLost:
                    request.lap("queue")
                    lost.append(chosen)
            log.info("device %s was lost while running %s", chosen, plan.operator.name)
            if len(lost) > reruns:
                message = f"the devices that ran the operator were lost: {', '.join(lost)}"
                raise UnavailableError(ProblemCode.NOT_READY, message, retry_after=1)

    async def _scratch_bytes(self, plan: Plan, device: str) -> int:
        """Returns the scratch memory of a plan on a device. A long graph is prepared for it on another thread."""
        if len(operator_plans(plan)) <= _FEW_STEPS:
            return self.dispatcher.scratch_bytes(plan, device)
        return await self.coders.parse(self.dispatcher.scratch_bytes, plan, device)

    async def _inputs(self, prepared: Prepared, execute: ExecuteRequest, device: str) -> Inputs:
        """Reads large inputs, decoding them on another thread unless the device does that or they need no decoding."""
        plan = prepared.plan
        encoded = encoded_inputs(plan, execute) if self.dispatcher.decodes(device) else None
        if encoded is not None:
            return encoded
        if are_views(plan, execute):
            return read_inputs(plan, execute)
        return await self.coders.code(prepared.input_bytes, read_inputs, plan, execute)


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
