"""The path of a request below HTTP: check, decode, queue, run, encode; each stage is timed and trusts the last one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple

from opwire.check import Plan, read_level, validate
from opwire.desc import pointer_to, show
from opwire.errors import (
    InternalError,
    LimitExceededError,
    OpwireError,
    ProblemCode,
    RequestError,
)
from opwire.operator import Code, Violation
from opwire.tensor import Array
from opwire.wire import (
    EncodedOutput,
    ExecuteRequest,
    Outcome,
    OutputFormat,
    ValidateRequest,
    are_views,
    encode_output,
    encoded_inputs,
    read_inputs,
    read_place,
)

from ..devices import AUTO
from ..devices.base import Inputs
from ..settings import Limits
from ..telemetry.metrics import Metrics
from .dispatcher import Dispatcher, Ran
from .memory import Budget, Hold
from .patience import Patience
from .plan_cache import PlanCache, Prepared
from .request_templates import Ready, Repeat, Repeats

DEFAULT_PRIORITY = 5

INLINE_BYTES = 256 * 1024
"""More bytes than this take longer to decode or encode than handing them to another thread."""

_KEPT_BYTES = 16 * 1024
"""Bytes of tensors up to which the arrays of a request are kept for when it comes again."""

log = logging.getLogger(__name__)


Guard = Callable[[Coroutine[Any, Any, Ran]], Awaitable[Ran]]
"""Awaits work and cancels it once nobody wants the answer any more."""


class Stopwatch:
    """Times the stages of a request, in microseconds.

    Attributes:
        started: when the request arrived, on the clock of ``time.monotonic``.
        stages: microseconds by stage.
    """

    __slots__ = ("_first", "_last", "stages", "started")

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.stages: dict[str, int] = {}
        self._first = self._last = time.perf_counter_ns()

    def lap(self, stage: str) -> None:
        """The time since the last lap belongs to this stage."""
        now = time.perf_counter_ns()
        self.stages[stage] = (now - self._last) // 1000
        self._last = now

    def ran(self, ran: Ran) -> None:
        """The time since the last lap was spent on waiting and running."""
        self.stages["queue"], self.stages["run"] = ran.queue, ran.run
        self._last = time.perf_counter_ns()

    def total(self) -> dict[str, int]:
        """All stages, and the time since the request arrived as ``total``."""
        return {**self.stages, "total": self.elapsed}

    @property
    def elapsed(self) -> int:
        """Microseconds since the request arrived."""
        return (time.perf_counter_ns() - self._first) // 1000

    def fork(self) -> Stopwatch:
        """A watch for one of several requests that arrived together."""
        copy = Stopwatch()
        copy.started, copy.stages = self.started, dict(self.stages)
        copy._first, copy._last = self._first, self._last
        return copy


class Completed(NamedTuple):
    """An operator that has run: its plan, the bytes of each output, and the device that ran it."""

    prepared: Prepared
    buffers: Mapping[str, Array]
    device: str


class Pipeline:
    """Runs parsed requests on a dispatcher's devices, within the limits."""

    def __init__(self, dispatcher: Dispatcher, limits: Limits, cached_plans: int, metrics: Metrics) -> None:
        self.dispatcher = dispatcher
        self.metrics = metrics
        self.limits = limits
        self.memory = Budget(limits.memory_bytes, Patience(limits.burst_ms / 1000, limits.wait_ms / 1000))
        self.plans = PlanCache(cached_plans, self._bound)
        self.repeats = Repeats[Repeat](cached_plans)
        self.default_device = dispatcher.default

    async def execute(
        self,
        request: ExecuteRequest,
        watch: Stopwatch,
        output_format: OutputFormat,
        hold: Hold,
        guard: Guard | None = None,
        *,
        part: bool = False,
    ) -> Outcome:
        """Runs one operator and encodes its outputs.

        Args:
            watch: has timed what came before; the outcome's timing includes that.
            output_format: of the tensors in the outcome.
            hold: of the memory that the request takes.
            guard: through which the work is awaited that does not end at once.
            part: whether it belongs to a batch.

        Raises:
            OpwireError: whatever is wrong with the request, or with the time or the room for it.
        """
        prepared = self.prepare(request, watch, hold, numbers=output_format is OutputFormat.NUMBERS)
        done = await self.run(request, prepared, watch, hold, guard, part=part)
        return await self.encode(done, watch, output_format)

    async def encode(self, done: Completed, watch: Stopwatch, output_format: OutputFormat) -> Outcome:
        """The outcome of an operator that has run."""
        if done.prepared.output_bytes <= INLINE_BYTES:
            return self.encode_now(done, watch, output_format)
        return self._outcome(done, await asyncio.to_thread(_encode, done, output_format), watch)

    def encode_now(self, done: Completed, watch: Stopwatch, output_format: OutputFormat) -> Outcome:
        """Like ``encode``, in the thread of the caller."""
        return self._outcome(done, _encode(done, output_format), watch)

    def execute_again(
        self, repeat: Repeat, body: bytes, watch: Stopwatch, output_format: OutputFormat
    ) -> Outcome | None:
        """Runs a request that was kept, on the tensors in its new body, and encodes its outputs.

        Returns:
            None if it must go the long way: it is not done at once, or a tensor is not what it should be. The next run
            of the same request writes over what a binary outcome holds.

        Raises:
            OpwireError: as for ``execute``.
        """
        done = self.run_again(repeat, body, watch)
        return None if done is None else self.encode_now(done, watch, output_format)

    def run_again(self, repeat: Repeat, body: bytes, watch: Stopwatch) -> Completed | None:
        """Runs a request that was kept; see ``execute_again``."""
        ready = repeat.ready or self._make_ready(repeat)
        if ready is None:
            return None
        watch.lap("parse")
        watch.stages["check"] = 0
        for place, sizes, memory in ready.inputs:
            data = read_place(body, place)
            if data is None or len(data) not in sizes:
                return None
            memory[:] = data[: len(memory)]
        watch.lap("decode")
        deadline = self.deadline(watch.started, repeat.request.timeout_ms)
        watch.ran(self.dispatcher.run_inline(ready.run, deadline=deadline))
        self.plans.hits += 1
        return Completed(repeat.prepared, ready.buffers, ready.device)

    def _make_ready(self, repeat: Repeat) -> Ready | None:
        """A request that was kept, on arrays for it alone; None if it is not done at once."""
        plan, device = repeat.prepared.plan, self._device(repeat.request)
        if not self.dispatcher.fits_inline(plan, device):
            return None
        buffers, outputs = repeat.prepared.allocate()
        inputs, given = {}, []
        for place in repeat.places:
            desc = plan.inputs[place.name]
            memory, inputs[place.name] = desc.allocate()
            given.append((place, desc.accepted_sizes_in_bytes, memory.data))
        run = self.dispatcher.bind(plan, inputs, outputs, device=device)
        ready = Ready(given, buffers, run, self.dispatcher.inline_name if device == AUTO else device)
        if repeat.prepared.bytes <= _KEPT_BYTES:
            repeat.ready = ready
        return ready

    def _outcome(self, done: Completed, encoded: Sequence[EncodedOutput], watch: Stopwatch) -> Outcome:
        plan = done.prepared.plan
        watch.lap("encode")
        timing = watch.total()
        self.metrics.executed(plan.operator.name, timing)
        return Outcome(encoded, plan.level, done.device, timing)

    def prepare(self, request: ExecuteRequest, watch: Stopwatch, hold: Hold, *, numbers: bool = False) -> Prepared:
        """Checks a request and takes the memory for its tensors; the errors are those of ``execute``.

        Args:
            numbers: whether outputs are to be written as JSON numbers.
        """
        self._device(request)  # it may name one that is not here
        prepared = self.plans.plan(request)
        if numbers:
            self._bound_numbers(prepared.plan)
        hold.take(prepared.bytes)
        watch.lap("check")
        return prepared

    async def run(
        self,
        request: ExecuteRequest,
        prepared: Prepared,
        watch: Stopwatch,
        hold: Hold,
        guard: Guard | None = None,
        *,
        part: bool = False,
    ) -> Completed:
        """Runs a request that is prepared; the arguments and errors are those of ``execute``."""
        plan, large = prepared.plan, prepared.input_bytes > INLINE_BYTES
        # Of a batch there may be many, which the caller would not let others between.
        done = None if part and large else self.run_now(request, prepared, watch, hold)
        if done is not None:
            return done
        deadline = self.deadline(watch.started, request.timeout_ms)
        priority = DEFAULT_PRIORITY if request.priority is None else request.priority
        with self.dispatcher.place(plan, self._device(request)) as device:
            given = await self._inputs(plan, request, device) if large else read_inputs(plan, request)
            buffers, outputs = prepared.allocate()
            hold.settle()
            watch.lap("decode")
            work = self.dispatcher.run(
                plan, given, outputs, device=device, priority=priority, deadline=deadline, part=part
            )
            ran = await (work if guard is None else guard(work))
        watch.ran(ran)
        return Completed(prepared, buffers, device)

    def is_short(self, request: ExecuteRequest, prepared: Prepared) -> bool:
        """Whether a request is over sooner than another thread could take it, or as soon as its body was received."""
        plan, device = prepared.plan, self._device(request)
        if prepared.input_bytes <= INLINE_BYTES:
            return self.dispatcher.fits_inline(plan, device)
        return self.dispatcher.fits_inline_received(plan, device) and are_views(plan, request)

    def run_now(self, request: ExecuteRequest, prepared: Prepared, watch: Stopwatch, hold: Hold) -> Completed | None:
        """Like ``run``, for what is short; None if it is not."""
        if not self.is_short(request, prepared):
            return None
        plan, device = prepared.plan, self._device(request)
        inputs = read_inputs(plan, request)
        buffers, outputs = prepared.allocate()
        hold.settle()
        watch.lap("decode")
        bound = self.dispatcher.bind(plan, inputs, outputs, device=device)
        watch.ran(self.dispatcher.run_inline(bound, deadline=self.deadline(watch.started, request.timeout_ms)))
        return Completed(prepared, buffers, self.dispatcher.inline_name if device == AUTO else device)

    async def batch(
        self, requests: Sequence[ExecuteRequest | RequestError], watch: Stopwatch, hold: Hold, binary: bool
    ) -> list[Outcome | OpwireError]:
        """Runs several operators, as many at a time as the devices take; each has its own outcome.

        Raises:
            LimitExceededError: too many requests.
        """
        if len(requests) > self.limits.batch_requests:
            raise _exceeded(ProblemCode.BATCH_TOO_LARGE, "requests", len(requests), self.limits.batch_requests)
        guard = _few_at_a_time(self.dispatcher.places)
        outcomes = (self._result(request, watch.fork(), hold, binary, guard) for request in requests)
        return list(await asyncio.gather(*outcomes))

    async def _result(
        self, request: ExecuteRequest | RequestError, watch: Stopwatch, hold: Hold, binary: bool, guard: Guard
    ) -> Outcome | OpwireError:
        if isinstance(request, RequestError):
            return request
        try:
            output_format = OutputFormat.BINARY if binary else request.output_format
            return await self.execute(request, watch, output_format, hold, guard, part=True)
        except OpwireError as error:
            return error
        except Exception:  # a defect; it must not take the other requests of the batch with it
            log.exception("a request of a batch failed")
            return InternalError(ProblemCode.INTERNAL_ERROR, "the server failed at this request")

    def validate(self, request: ValidateRequest) -> dict[str, object]:
        """What is known of an operator desc at a level, as JSON.

        Raises:
            ContractViolation: there is no such feature level.
        """
        level = read_level(request.feature_level, "/feature_level")
        return validate(request.operator, level, pointer="/operator").to_json()

    def deadline(self, started: float, timeout_ms: int | None) -> float:
        """When a request's time is over."""
        longest = self.limits.timeout_ms
        return started + min(longest, longest if timeout_ms is None else timeout_ms) / 1000

    async def _inputs(self, plan: Plan, request: ExecuteRequest, device: str) -> Inputs:
        """Large inputs: decoded in another thread, unless the device does that or there is nothing to decode."""
        encoded = encoded_inputs(plan, request) if self.dispatcher.decodes(device) else None
        if encoded is not None:
            return encoded
        if are_views(plan, request):
            return read_inputs(plan, request)
        return await asyncio.to_thread(read_inputs, plan, request)

    def _device(self, request: ExecuteRequest) -> str:
        given = request.device
        if given is None or given == AUTO:
            return self.default_device
        if given in self.dispatcher.devices:
            return given
        known = [AUTO, *self.dispatcher.devices]
        message = f"{show(given)} given; this server has {', '.join(known)}"
        at = Violation(Code.UNKNOWN_VALUE, pointer_to(request.pointer, "device"), message, known)
        raise RequestError(ProblemCode.INVALID_REQUEST, message, violations=[at])

    def _bound(self, plan: Plan) -> None:
        """Refuses what is too large, before any memory is taken for it."""
        limits = self.limits
        for name, desc in (*plan.inputs.items(), *plan.outputs.items()):
            if desc.element_count > limits.tensor_elements:
                raise _exceeded(
                    ProblemCode.TENSOR_TOO_LARGE, f"elements in {name}", desc.element_count, limits.tensor_elements
                )
        size = sum(desc.data_size_in_bytes for desc in plan.outputs.values())
        if size > limits.output_bytes:
            raise _exceeded(ProblemCode.TENSOR_TOO_LARGE, "bytes of output", size, limits.output_bytes)
        if plan.work > limits.work:
            raise _exceeded(ProblemCode.WORK_TOO_LARGE, "element visits", plan.work, limits.work)

    def _bound_numbers(self, plan: Plan) -> None:
        count = sum(desc.element_count for desc in plan.outputs.values())
        if count > self.limits.output_numbers:
            what = "elements of output as numbers"
            raise _exceeded(ProblemCode.TENSOR_TOO_LARGE, what, count, self.limits.output_numbers)


def _encode(done: Completed, output_format: OutputFormat) -> list[EncodedOutput]:
    plan, heads = done.prepared.plan, done.prepared.heads
    return [
        encode_output(heads[name], plan.outputs[name], buffer, output_format) for name, buffer in done.buffers.items()
    ]


def _few_at_a_time(most: int) -> Guard:
    """Keeps the work of a batch from filling the queue, where that of others has to wait for it."""
    gate = asyncio.Semaphore(most)

    async def guard(work: Coroutine[Any, Any, Ran]) -> Ran:
        began = time.monotonic()
        try:
            async with gate:
                waited = round((time.monotonic() - began) * 1e6)
                ran = await work
        finally:
            work.close()  # it has not begun if the client went away before
        return ran._replace(queue=ran.queue + waited)

    return guard


def _exceeded(code: ProblemCode, what: str, size: int, limit: int) -> LimitExceededError:
    return LimitExceededError(code, f"{size} {what}; this server takes at most {limit}", limit=limit, size=size)
