"""The engine without a server: runs requests on the devices of this machine, on the thread that asks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from threading import Lock
from typing import Self
from weakref import WeakSet

from opwire.check import Plan
from opwire.desc import show
from opwire.errors import NotExecutableError, ProblemCode, RequestError
from opwire.graph import operator_plans
from opwire.operator import Code, Violation
from opwire.wire import Executed, ExecuteRequest, read_inputs

from ..devices import AUTO, DEVICES, is_device, load, resolve
from ..devices.base import Device, DeviceUnavailable
from ..engine.plan_cache import PlanCache, Prepared
from ..engine.timed import run_timed
from ..execution import Arrays, Stop
from .room import Room, machine_bytes

_PLANS = 4096
"""Maximum number of plans that are kept."""


def _never() -> bool:
    return False


class OfflineEngine:
    """Runs requests in this process. Safe to share between threads, and across a fork if told of it.

    Devices are opened when they are first used.

    Args:
        memory_bytes: memory for the outputs of all calls and for computing them; by default that of the machine.
    """

    def __init__(self, memory_bytes: int | None = None) -> None:
        self._memory_bytes = memory_bytes or machine_bytes()
        self.forget()

    def forget(self) -> None:
        """Starts afresh in the child of a fork, where the devices have no threads."""
        self._devices: dict[str, Device] = {}
        self._executable: dict[Device, WeakSet[Plan]] = {}
        self._plans = PlanCache(_PLANS, lambda plan: None, most_bytes=None)
        self._room = Room(self._memory_bytes)
        self._opening = Lock()

    def run(
        self, request: ExecuteRequest, prepared: Prepared | None = None, constants: Arrays | None = None
    ) -> Executed:
        """Runs a request.

        Args:
            request: the request.
            prepared: its plan, if it is known.
            constants: inputs of the plan that are not among those of the request.

        Raises:
            OpwireError: the request is invalid, no device runs it, or its time has run out.
        """
        deadline = _deadline(request.timeout_ms)
        device = self.device(request.device, f"{request.pointer}/device")
        prepared = prepared or self._plans.plan(request)
        plan = prepared.plan
        self._refuse(plan, device)  # before the inputs are read, as a server does
        inputs = read_inputs(plan, request) if constants is None else _with_constants(plan, request, constants)
        return self._execute(plan, inputs, device, deadline)

    def execute(self, plan: Plan, inputs: Arrays, device: Device, timeout_ms: int | None = None) -> Executed:
        """Runs a plan, once there is memory for its outputs and for computing them.

        Raises:
            DeadlineExceededError: the time is up.
            LimitExceededError: the plan needs more memory than there is.
            NotExecutableError: the device does not support an operator of the plan.
        """
        self._refuse(plan, device)
        return self._execute(plan, inputs, device, _deadline(timeout_ms))

    def _refuse(self, plan: Plan, device: Device) -> None:
        """Refuses a plan that the device cannot run, see ``refuse_not_executable``; asks once for each plan."""
        executable = self._executable.setdefault(device, WeakSet())
        if plan not in executable:
            refuse_not_executable([plan], device)
            executable.add(plan)

    def _execute(self, plan: Plan, inputs: Arrays, device: Device, deadline: float | None) -> Executed:
        outputs_bytes = sum(desc.data_size_in_bytes for desc in plan.outputs.values())
        with self._room.hold(outputs_bytes + device.scratch_bytes(plan), deadline):
            allocated = {name: desc.allocate() for name, desc in plan.outputs.items()}
            outputs = {name: view for name, (_, view) in allocated.items()}
            microseconds = run_plan(plan, inputs, outputs, device, _stop(deadline))
        buffers = {name: buffer for name, (buffer, _) in allocated.items()}
        return Executed(plan, buffers, device.name, microseconds)

    def prepare(self, request: ExecuteRequest) -> Prepared:
        """Checks a request and returns its plan, which is not kept.

        Raises:
            ContractViolation: the desc or the level is invalid.
        """
        return self._plans.prepare(request)

    def device(self, given: str | None, pointer: str = "") -> Device:
        """Returns a device: the one that is named, or the CPU, whose packages are those of the service extra.

        Raises:
            RequestError: this machine has no such device.
        """
        name = _default_device() if given is None or given == AUTO else given
        found = self._devices.get(name)
        return self._open(name, pointer) if found is None else found

    def _open(self, name: str, pointer: str) -> Device:
        if not is_device(name):
            raise _no_device(f"{show(name)} given; the devices are {', '.join((AUTO, *DEVICES))}", pointer)
        with self._opening:
            try:
                own = resolve([name])[0]
                opened = self._devices.get(own) or load(own)
            except DeviceUnavailable as reason:
                raise _no_device(str(reason), pointer) from None
            self._devices[own] = self._devices[name] = opened
            return opened

    def close(self) -> None:
        """Closes the devices. No ``run`` may be in progress."""
        with self._opening:
            opened, self._devices, self._executable = {*self._devices.values()}, {}, {}
        for each in opened:
            each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@cache
def shared() -> OfflineEngine:
    """Returns the engine that all clients of the process share."""
    engine = OfflineEngine()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=engine.forget)
    return engine


def run_plan(plan: Plan, inputs: Arrays, outputs: Arrays, device: Device, stop: Stop = _never) -> int:
    """Runs a plan on given arrays and returns the microseconds taken.

    Raises:
        DeadlineExceededError: it was told to stop.
    """
    return run_timed(partial(device.run, plan, inputs, outputs), stop)


def refuse_not_executable(plans: Iterable[Plan], device: Device) -> None:
    """Refuses plans that a device cannot run.

    Raises:
        NotExecutableError: the device does not support an operator of a plan.
    """
    for name in dict.fromkeys(each.operator.name for plan in plans for each in (plan, *operator_plans(plan))):
        if not device.executes(name):
            detail = f"the desc is valid, but device {device.name} does not run {name}"
            raise NotExecutableError(ProblemCode.OPERATOR_NOT_EXECUTABLE, detail, operator=name, devices=[])


def _with_constants(plan: Plan, request: ExecuteRequest, constants: Arrays) -> Arrays:
    given = {name: desc for name, desc in plan.inputs.items() if name not in constants}
    return {**constants, **read_inputs(replace(plan, inputs=given), request)}


def _deadline(timeout_ms: int | None) -> float | None:
    return None if timeout_ms is None else time.monotonic() + timeout_ms / 1000


def _stop(deadline: float | None) -> Stop:
    return _never if deadline is None else (lambda: time.monotonic() > deadline)


@cache
def _default_device() -> str:
    return "cpu" if find_spec("numba") else "reference"


def _no_device(message: str, pointer: str) -> RequestError:
    at = Violation(Code.UNKNOWN_VALUE, pointer, message, [AUTO, *DEVICES])
    return RequestError(ProblemCode.INVALID_REQUEST, message, violations=[at])
