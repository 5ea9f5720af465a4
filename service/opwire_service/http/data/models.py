"""DxDispatch models over HTTP: validated like ``opwire validate``, run like ``opwire run``, but without file access.

The response to a request contains what its model prints.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from opwire.check import Validation, read_level
from opwire.dxdispatch import Model, OperatorDispatchable, SourceFile, WriteFile, lowest_level, read_model
from opwire.errors import ContractViolation, NotExecutableError, ProblemCode, RequestError
from opwire.level import FeatureLevel
from opwire.operator import Code, Violation
from opwire.tensor import Array, BufferTensorDesc, DataType
from opwire.wire import (
    Answer,
    Buffer,
    EncodedOutput,
    ModelRequest,
    Outcome,
    OutputFormat,
    encode_output,
    member_frames,
    parse_model,
    write_outcome,
)

from ...engine.limits import exceeded, refuse_many_numbers
from ...engine.pipeline import Engine
from ...engine.request import Request
from ...engine.targets import asked_device, refuse_not_executable
from ...engine.timed import Ran
from ...execution import Arrays
from ...offline.run import Launch, Show, Step, prepare
from .exchange import Exchange

POINTER = "/model"

_NO_FOLDER = Path()
"""Placeholder for folders: models in requests read and write no files."""


async def read(engine: Engine, exchange: Exchange, body: Buffer, *, runs: bool) -> ModelRequest:
    """Parses a request with a model.

    Raises:
        OpwireError: see ``parse_model`` and ``Engine.read``.
    """
    return await engine.read(partial(parse_model, runs=runs), body, None, exchange.request)


async def validate(engine: Engine, request: ModelRequest) -> dict[str, object]:
    """Validates a model and each of its operators and returns the result as JSON."""
    level = read_level(request.options.feature_level, "/feature_level")
    model = await asyncio.to_thread(_read, engine, request)
    found = await asyncio.to_thread(model.validate, level, strict=request.options.strict)
    in_files = _files(model)
    violations = [*in_files, *(each for validation in found.values() for each in validation.violations)]
    lowest = None if in_files else lowest_level(found.values())
    warnings = [_in_place(each).to_json() for validation in found.values() for each in validation.warnings]
    members = {name: _in_body(validation) for name, validation in found.items()}
    return {
        "valid": not violations,
        "violations": [_in_place(violation).to_json() for violation in violations],
        "warnings": warnings,
        "minimum_feature_level": None if lowest is None else str(lowest),
        "outputs": {},
        "dispatchables": members,
    }


def _in_body(found: Validation) -> dict[str, object]:
    violations, warnings = (tuple(map(_in_place, each)) for each in (found.violations, found.warnings))
    return replace(found, violations=violations, warnings=warnings).to_json()


def _in_place(violation: Violation) -> Violation:
    return replace(violation, pointer=POINTER + violation.pointer)


def _read(engine: Engine, request: ModelRequest) -> Model:
    """Reads the model of a request.

    Raises:
        RequestError: the model is malformed.
        LimitExceededError: the model has more operators or commands than a batch may have.
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
    """Returns a violation for each file that a model names, as a server opens no files for its clients."""
    message = "models in requests cannot read or write files"
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


async def execute(engine: Engine, exchange: Exchange, given: ModelRequest) -> Answer:
    """Runs the commands of a model in order.

    Raises:
        OpwireError: the model is invalid, or there is no time or room for it.
    """
    options, request = given.options, exchange.request
    request.deadline = engine.deadline(request.started, options.timeout_ms)
    device = asked_device(engine.dispatcher, options)
    level = read_level(options.feature_level, "/feature_level")
    model = await asyncio.to_thread(_read, engine, given)
    if refused := [_in_place(violation) for violation in _files(model)]:
        raise ContractViolation(refused)
    for name, dispatchable in model.dispatchables.items():
        if not isinstance(dispatchable, OperatorDispatchable):
            detail = f"dispatchable {name[:60]!r} is not an operator; models in requests may only contain operators"
            raise NotExecutableError(ProblemCode.OPERATOR_NOT_EXECUTABLE, detail, operator=name[:60], devices=[])
    await _take_memory(engine, model, request)
    try:
        preparing = partial(prepare, model, level, _NO_FOLDER, _NO_FOLDER, strict=options.strict)
        steps = await asyncio.to_thread(preparing, plan_of=engine.plans.check)
    except ContractViolation as error:
        raise ContractViolation([_in_place(violation) for violation in error.violations], error.detail) from None
    form = OutputFormat.BINARY if exchange.wants_binary else options.output_format
    if form is OutputFormat.NUMBERS:
        refuse_many_numbers(engine.limits, sum(step.values.size for step in steps if isinstance(step, Show)))
    for step in steps:
        if isinstance(step, Launch):
            refuse_not_executable(engine.dispatcher, step.plan, device)
    request.lap("check")
    shown = await _run(engine, steps, device, options.priority, request)
    return await asyncio.to_thread(_write, shown, level, form, exchange, engine)


async def _take_memory(engine: Engine, model: Model, request: Request) -> None:
    """Takes memory for the buffers, for what is bound before the first command, and for what is printed."""
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
    await request.hold.grow(whole, request.deadline)


async def _run(
    engine: Engine, steps: Sequence[Step], device: str, priority: int | None, request: Request
) -> list[tuple[str, Array]]:
    """Runs the steps and returns what the print commands show, in order."""
    shown: list[tuple[str, Array]] = []
    waited = ran = 0
    for step in steps:
        if isinstance(step, Show):
            shown.append((step.resource, step.values.copy()))
        elif isinstance(step, Launch):
            await _launch(engine, step, device, priority, request)
            waited, ran = waited + request.stages["queue"], ran + request.stages["run"]
    request.ran(Ran(waited, ran))
    return shown


async def _launch(engine: Engine, step: Launch, device: str, priority: int | None, request: Request) -> None:
    plan = step.plan

    async def arrays(chosen: str) -> tuple[Arrays, Arrays]:
        return step.inputs, step.outputs

    # The step may overwrite its own inputs, so only the whole model can be run again.
    request.device = await engine.run(plan, device, priority, arrays, request, reruns=0)
    done = {stage: request.stages[stage] for stage in ("queue", "run")}
    engine.metrics.executed(plan.operator.name, {**done, "total": sum(done.values())})


def _write(
    shown: Sequence[tuple[str, Array]], level: FeatureLevel, form: OutputFormat, exchange: Exchange, engine: Engine
) -> Answer:
    """Encodes the response: the printed values by resource name, with a list for one that is printed repeatedly."""
    printed: dict[str, list[Array]] = {}
    for name, values in shown:
        printed.setdefault(name, []).append(values)
    encoded: list[EncodedOutput] = []
    for name, arrays in printed.items():
        descs = [BufferTensorDesc(DataType.of(each.dtype), (each.size,)) for each in arrays]
        frames = member_frames(name, descs, is_list=len(descs) > 1)
        for frame, desc, values in zip(frames, descs, arrays, strict=True):
            encoded.append(encode_output(frame, desc, values.view(np.uint8), form))
    timing = exchange.request.end("encode")
    device = exchange.request.device or engine.default_device
    return write_outcome(Outcome(encoded, level, device, timing), exchange.request_id)
