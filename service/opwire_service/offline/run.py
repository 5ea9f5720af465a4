"""Runs DxDispatch models on a device without a server.

Models are prepared first: files are read, operators checked and buffers bound, so that all errors are reported together
before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

from opwire.check import Plan, check
from opwire.desc import Report, show
from opwire.dxdispatch import (
    Buffer,
    Command,
    Dispatch,
    GraphDispatchable,
    Model,
    OperatorDispatchable,
    PlanOf,
    Print,
    WriteFile,
)
from opwire.dxdispatch.opening import IMAGES, load_buffer, open_graphs
from opwire.errors import ContractViolation
from opwire.files import is_npy
from opwire.level import FeatureLevel
from opwire.operator import Code
from opwire.tensor import Array, DataType, rounded

from ..devices.base import Device
from ..execution import Arrays
from .bindings import Piece, bind, require_all, require_apart
from .engine import refuse_not_executable, run_plan
from .tensor_files import write_array


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """A dispatch command, ready to run."""

    dispatchable: str
    plan: Plan
    inputs: Arrays
    outputs: Arrays


@dataclass(frozen=True, slots=True, eq=False)
class Show:
    """A print command. ``values`` is a view of the buffer: it changes as later commands run."""

    resource: str
    values: Array
    verbose: bool


@dataclass(frozen=True, slots=True, eq=False)
class Save:
    """A command that writes a file. ``values`` is a view of the buffer, of the shape that a ``.npy`` file gets."""

    resource: str
    path: Path
    values: Array


Step = Launch | Show | Save


def prepare(
    model: Model,
    level: FeatureLevel,
    folder: Path,
    output_folder: Path,
    *,
    strict: bool = False,
    plan_of: PlanOf = check,
) -> list[Step]:
    """Prepares a model to run.

    Args:
        model: model as read from its file.
        level: feature level to check its operators against.
        folder: folder to look for its input files in, before the current one, as in DxDispatch.
        output_folder: folder for the files it writes.
        strict: whether what the documentation forbids is a violation even if DirectML accepts it.
        plan_of: checks its operators.

    Raises:
        ContractViolation: the model is invalid; lists all violations.
        OSError: a file cannot be read.
    """
    report = Report()
    model = open_graphs(model, folder)
    buffers = {name: load_buffer(buffer, folder, report) for name, buffer in model.resources.items()}
    plans: dict[str, Plan] = {}
    for name, dispatchable in model.dispatchables.items():
        try:
            plans[name] = (
                dispatchable.check(level, strict=strict, plan_of=plan_of)
                if isinstance(dispatchable, OperatorDispatchable)
                else dispatchable.check(level, strict=strict)
            )
        except ContractViolation as error:
            report.violations.extend(error.violations)
    _refuse(report)
    session = _Session(buffers, {name: buffer.allocate() for name, buffer in buffers.items()}, plans, output_folder)
    for name, dispatchable in model.dispatchables.items():
        if isinstance(dispatchable, OperatorDispatchable | GraphDispatchable):
            session.initialize(name, dispatchable, report)
    steps = [session.step(command, report) for command in model.commands]
    _refuse(report)
    return [step for step in steps if step is not None]


def execute(steps: Iterable[Step], device: Device) -> Iterator[tuple[Step, int]]:
    """Runs the steps in order and yields each with its microseconds as it completes.

    Raises:
        NotExecutableError: the device does not support an operator; raised before anything runs.
        OSError: a file cannot be written.
    """
    steps = list(steps)
    refuse_not_executable((step.plan for step in steps if isinstance(step, Launch)), device)
    for step in steps:
        microseconds = 0
        if isinstance(step, Launch):
            microseconds = run_plan(step.plan, step.inputs, step.outputs, device)
        elif isinstance(step, Save):
            write_array(step.path, step.values)
        yield step, microseconds


def _refuse(report: Report) -> None:
    if report.violations:
        count = len(report.violations)
        detail = f"the model cannot be run: {count} violation{'s' if count != 1 else ''}"
        raise ContractViolation(report.violations, detail)


class _Session:
    """The memory of a model's buffers, and the preparation of its commands on it."""

    def __init__(
        self, buffers: Mapping[str, Buffer], memory: Mapping[str, Array], plans: Mapping[str, Plan], output_folder: Path
    ) -> None:
        self.buffers = buffers
        self.memory = memory
        self.plans = plans
        self.output_folder = output_folder
        self.initialized: dict[str, dict[str, Array]] = {}

    def initialize(self, name: str, dispatchable: OperatorDispatchable | GraphDispatchable, report: Report) -> None:
        """Binds the inputs that the dispatchable itself binds, copying their current values."""
        plan = self.plans[name]
        at = dispatchable.pointer + "/bindings"
        pieces = bind(dispatchable.bindings, plan, plan.inputs, self.buffers, at, report)
        self.initialized[name] = {
            tensor: piece.desc.view(self.memory[piece.resource][piece.start : piece.end].copy())
            for tensor, piece in pieces.items()
        }
        if isinstance(dispatchable, GraphDispatchable):
            for tensor, data in dispatchable.kept.items():
                self._keep(name, tensor, data, dispatchable, report)

    def _keep(self, name: str, tensor: str, data: bytes, dispatchable: GraphDispatchable, report: Report) -> None:
        """Binds a constant, padding its bytes to the multiple of 4 that its tensor has."""
        desc = self.plans[name].inputs[tensor]
        if rounded(len(data)) < desc.data_size_in_bytes:
            message = f"the constant {show(tensor)} has {len(data)} bytes; its tensor takes {desc.data_size_in_bytes}"
            report.add(Code.BYTE_COUNT_MISMATCH, dispatchable.pointer + "/sourcePath", message)
            return
        self.initialized[name][tensor] = desc.view(data + bytes(-len(data) % 4))

    def step(self, command: Command, report: Report) -> Step | None:
        """Prepares a command, or reports what is wrong with it and returns None."""
        if isinstance(command, Dispatch):
            return self._launch(command, report)
        if isinstance(command, Print):
            return self._show(command, report)
        return self._save(command, report)

    def _launch(self, command: Dispatch, report: Report) -> Launch | None:
        plan = self.plans[command.dispatchable]
        known = {**plan.inputs, **plan.outputs}
        at = command.pointer + "/bindings"
        found = len(report.violations)
        pieces = bind(command.bindings, plan, known, self.buffers, at, report)
        kept = self.initialized[command.dispatchable]
        require_all(plan, known, {*command.bindings, *kept}, at, report)
        require_apart(pieces, plan, report)
        if len(report.violations) > found:
            return None
        inputs = {name: self._view(pieces[name]) if name in pieces else kept[name] for name in plan.inputs}
        outputs = {name: self._view(pieces[name]) for name in plan.outputs}
        return Launch(command.dispatchable, plan, inputs, outputs)

    def _view(self, piece: Piece) -> Array:
        return piece.desc.view(self.memory[piece.resource], piece.start)

    def _show(self, command: Print, report: Report) -> Show | None:
        data_type = self._data_type(command, report)
        if data_type is None:
            return None
        values = self._elements(command.resource, data_type, self.buffers[command.resource].value_end_in_bytes)
        return Show(command.resource, values, command.verbose)

    def _save(self, command: WriteFile, report: Report) -> Save | None:
        path = self.output_folder / command.target
        memory = self.memory[command.resource]
        if path.suffix.lower() in IMAGES:
            message = f"{show(command.target)} is an image; opwire writes .npy files and raw bytes"
            report.add(Code.UNKNOWN_VALUE, command.pointer + "/targetPath", message)
            return None
        if not is_npy(path):
            return Save(command.resource, path, memory)
        data_type = self._data_type(command, report)
        if data_type is None:
            return None
        declared = self.buffers[command.resource].declared_size_in_bytes
        end = self.buffers[command.resource].value_end_in_bytes if declared is None else declared
        values = self._elements(command.resource, data_type, end)
        if not command.dimensions:
            return Save(command.resource, path, values)
        values = self._elements(command.resource, data_type, memory.size)
        count = prod(command.dimensions)
        if count > values.size:
            message = f"{count} elements given; the buffer holds {values.size} of {data_type.name}"
            report.add(Code.SIZES_MISMATCH, command.pointer + "/dimensions", message)
            return None
        return Save(command.resource, path, values[:count].reshape(command.dimensions))

    def _elements(self, resource: str, data_type: DataType, end: int) -> Array:
        """Returns the whole elements of a buffer up to byte ``end``."""
        size = end - end % data_type.dtype.itemsize
        return self.memory[resource][:size].view(data_type.dtype)

    def _data_type(self, command: Print | WriteFile, report: Report) -> DataType | None:
        data_type = self.buffers[command.resource].data_type
        if data_type is None:
            message = f"{show(command.resource)} has no initialValuesDataType, so the type of its elements is unknown"
            report.add(Code.MISSING_FIELD, command.pointer + "/resource", message)
        return data_type
