"""DxDispatch models over HTTP: checked as ``opwire validate`` does it, run as ``opwire run`` does, without any file.

What a model prints is what its request is answered with.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from opwire.check import read_level
from opwire.dxdispatch import Model, OperatorDispatchable, SourceFile, WriteFile, lowest_level, read_model
from opwire.errors import ContractViolation, NotExecutableError, ProblemCode, RequestError
from opwire.level import FeatureLevel
from opwire.operator import Code, Violation
from opwire.tensor import Array, BufferTensorDesc, DataType
from opwire.tensor_names import element
from opwire.wire import (
    Answer,
    Buffer,
    ExecuteRequest,
    ModelRequest,
    Outcome,
    OutputFormat,
    encode_output,
    output_frames,
    parse_model,
    write_outcome,
)

from ..engine.batches import Guard
from ..engine.limits import exceeded
from ..engine.memory import Hold
from ..engine.pipeline import DEFAULT_PRIORITY, Engine
from ..engine.progress import Ran
from ..offline.run import Launch, Show, Step, prepare
from .exchange import Exchange

POINTER = "/model"

_NOWHERE = Path()
"""No model that comes here reads or writes a file."""

_LOOKED_AT = 64 * 1024
"""Bytes at the beginning of a body in which its member ``model`` is looked for, as cheaply as can be."""


def may_hold_model(body: Buffer, head_length: str | None) -> bool:
    """Whether a body may be a request with a model; if not, it is none. Models stand in bodies of JSON alone."""
    return head_length is None and b'"model"' in bytes(memoryview(body)[:_LOOKED_AT])


async def read(engine: Engine, exchange: Exchange, body: Buffer, hold: Hold, *, runs: bool) -> ModelRequest | None:
    """The request in a body; None if it has no model.

    Raises:
        OpwireError: see ``parse_model`` and ``Engine.read``.
    """
    return await engine.read(partial(parse_model, runs=runs), body, None, exchange.progress, hold)


async def validate(engine: Engine, request: ModelRequest) -> dict[str, object]:
    """What is known of each operator of a model and of the whole, as JSON."""
    level = read_level(request.options.feature_level, "/feature_level")
    model = await asyncio.to_thread(_read, engine, request)
    found = await asyncio.to_thread(model.validate, level)
    in_files = _files(model)
    violations = [*in_files, *(each for validation in found.values() for each in validation.violations)]
    lowest = None if in_files else lowest_level(found.values())
    members = {name: _in_body(validation.to_json(), validation.violations) for name, validation in found.items()}
    return {
        "valid": not violations,
        "violations": [_in_place(violation).to_json() for violation in violations],
        "minimum_feature_level": None if lowest is None else str(lowest),
        "outputs": {},
        "dispatchables": members,
    }


def _in_body(found: dict[str, object], violations: Iterable[Violation]) -> dict[str, object]:
    return {**found, "violations": [_in_place(violation).to_json() for violation in violations]}


def _in_place(violation: Violation) -> Violation:
    return replace(violation, pointer=POINTER + violation.pointer)


def _read(engine: Engine, request: ModelRequest) -> Model:
    """
    Raises:
        RequestError: it is malformed.
        LimitExceededError: it has more operators or commands than a batch may have.
    """
    try:
        model = read_model(request.model)
    except RequestError as error:
        violations = [_in_place(violation) for violation in error.violations]
        raise RequestError(error.code or ProblemCode.INVALID_REQUEST, error.detail, violations=violations) from None
    most = engine.limits.batch_requests
    for what, count in (("dispatchables", len(model.dispatchables)), ("commands", len(model.commands))):
        if count > most:
            raise exceeded(ProblemCode.BATCH_TOO_LARGE, f"{what} in the model", count, most)
    return model


def _files(model: Model) -> list[Violation]:
    """Violations where a model names a file: a server opens none for its clients."""
    message = "a model in a request reads and writes no files"
    found = [
        Violation(Code.VALUE_NOT_ALLOWED, buffer.pointer + "/initialValues/sourcePath", message)
        for buffer in model.resources.values()
        if isinstance(buffer.initial, SourceFile)
    ]
    found += [
        Violation(Code.VALUE_NOT_ALLOWED, command.pointer + "/targetPath", message)
        for command in model.commands
        if isinstance(command, WriteFile)
    ]
    return found


async def execute(engine: Engine, exchange: Exchange, request: ModelRequest, hold: Hold, guard: Guard) -> Answer:
    """Runs the commands of a model, one after the other.

    Raises:
        OpwireError: whatever is wrong with it, or with the time or the room for it.
    """
    options, progress = request.options, exchange.progress
    progress.deadline = engine.deadline(progress.started, options.timeout_ms)
    level = read_level(options.feature_level, "/feature_level")
    model = await asyncio.to_thread(_read, engine, request)
    if refused := [_in_place(violation) for violation in _files(model)]:
        raise ContractViolation(refused)
    for name, dispatchable in model.dispatchables.items():
        if not isinstance(dispatchable, OperatorDispatchable):
            detail = f"the dispatchable {name[:60]!r} is no operator; a model in a request holds operators alone"
            raise NotExecutableError(ProblemCode.OPERATOR_NOT_EXECUTABLE, detail, operator=name[:60], devices=[])
    await _take_memory(engine, model, hold, progress.deadline)
    try:
        steps = await asyncio.to_thread(prepare, model, level, _NOWHERE, _NOWHERE)
    except ContractViolation as error:
        raise ContractViolation([_in_place(violation) for violation in error.violations], error.detail) from None
    for step in steps:
        if isinstance(step, Launch):
            engine.plans.admit(step.plan)
    progress.lap("check")
    shown = await _run(engine, steps, options, exchange, hold, guard)
    return await asyncio.to_thread(_write, shown, level, options, exchange, engine)


async def _take_memory(engine: Engine, model: Model, hold: Hold, deadline: float) -> None:
    """Takes the memory of the buffers, of what is bound before the first command, and of what is printed."""
    limit = engine.limits.output_bytes
    sizes = {name: buffer.size_in_bytes for name, buffer in model.resources.items() if buffer.is_loaded}
    printed = [getattr(command, "resource", None) for command in model.commands]
    bound = [
        binding.resource
        for dispatchable in model.dispatchables.values()
        if isinstance(dispatchable, OperatorDispatchable)
        for bindings in dispatchable.bindings.values()
        for binding in bindings
    ]
    whole = sum(sizes.values()) + sum(sizes.get(name, 0) for name in (*printed, *bound) if name is not None)
    if whole > limit:
        raise exceeded(ProblemCode.TENSOR_TOO_LARGE, "bytes in the resources of the model", whole, limit)
    await hold.grow(whole, deadline)


async def _run(
    engine: Engine, steps: Sequence[Step], options: ExecuteRequest, exchange: Exchange, hold: Hold, guard: Guard
) -> list[tuple[str, Array]]:
    """What the print commands showed, in their order."""
    shown: list[tuple[str, Array]] = []
    waited = ran = 0
    for step in steps:
        if isinstance(step, Show):
            shown.append((step.resource, step.values.copy()))
        elif isinstance(step, Launch):
            done = await _launch(engine, step, options, exchange, hold, guard)
            waited, ran = waited + done.queue, ran + done.run
    exchange.progress.ran(Ran(waited, ran))
    return shown


async def _launch(
    engine: Engine, step: Launch, options: ExecuteRequest, exchange: Exchange, hold: Hold, guard: Guard
) -> Ran:
    plan, progress, dispatcher = step.plan, exchange.progress, engine.dispatcher
    device = options.device or engine.default_device
    if device != "auto" and device not in dispatcher.devices:
        known = ["auto", *dispatcher.devices]
        message = f"{device[:60]!r} given; this server has {', '.join(known)}"
        at = Violation(Code.UNKNOWN_VALUE, "/device", message, known)
        raise RequestError(ProblemCode.INVALID_REQUEST, message, violations=[at])
    scratch = dispatcher.scratch_bytes(plan, device)
    await hold.grow(scratch, progress.deadline)
    priority = DEFAULT_PRIORITY if options.priority is None else options.priority
    try:
        with dispatcher.place(plan, device) as chosen:
            work = dispatcher.run(
                plan,
                step.inputs,
                step.outputs,
                device=chosen,
                priority=priority,
                deadline=progress.deadline,
                part=False,
            )
            done = await guard(work)
    finally:
        hold.give_back(scratch)
    progress.device = chosen
    engine.metrics.executed(plan.operator.name, {"queue": done.queue, "run": done.run, "total": done.queue + done.run})
    return done


def _write(
    shown: Sequence[tuple[str, Array]], level: FeatureLevel, options: ExecuteRequest, exchange: Exchange, engine: Engine
) -> Answer:
    """The answer: what was printed, by the names of the resources; what was printed again is a list."""
    form = OutputFormat.BINARY if exchange.wants_binary else options.output_format
    count = sum(values.size for _, values in shown)
    most = engine.limits.output_numbers
    if form is OutputFormat.NUMBERS and count > most:
        raise exceeded(ProblemCode.TENSOR_TOO_LARGE, "elements of output as numbers", count, most)
    often = Counter(name for name, _ in shown)
    seen: Counter[str] = Counter()
    named: dict[str, Array] = {}
    for name, values in sorted(shown, key=lambda each: list(often).index(each[0])):
        named[element(name, seen[name]) if often[name] > 1 else name] = values
        seen[name] += 1
    descs = {name: BufferTensorDesc(DataType.of(values.dtype), (values.size,)) for name, values in named.items()}
    frames = output_frames(descs)
    encoded = [encode_output(frames[name], descs[name], values.view(np.uint8), form) for name, values in named.items()]
    timing = exchange.progress.end("encode")
    device = exchange.progress.device or engine.default_device
    return write_outcome(Outcome(encoded, level, device, timing), exchange.request_id)
