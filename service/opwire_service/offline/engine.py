"""The engine without a server: runs requests on the devices of this machine, on the thread that asks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from functools import cache, partial
from importlib.util import find_spec
from threading import Lock
from typing import Self

from opwire.check import Plan
from opwire.desc import show
from opwire.errors import NotExecutableError, ProblemCode, RequestError
from opwire.graph import operator_plans
from opwire.operator import Code, Violation
from opwire.wire import Executed, ExecuteRequest, read_inputs

from ..devices import AUTO, DEVICES, is_device, load, resolve
from ..devices.base import Device, DeviceUnavailable
from ..engine.plan_cache import PlanCache
from ..engine.running import run_timed
from ..execution import Arrays, Stop

_PLANS = 4096
"""Maximum number of plans that are kept."""


def _never() -> bool:
    return False


class OfflineEngine:
    """Runs requests in this process. It may be used by several threads at once, and after a fork.

    Devices are opened when they are first used.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Starts afresh in the child of a fork, where the devices have no threads."""
        self._devices: dict[str, Device] = {}
        self._plans = PlanCache(_PLANS, lambda plan: None, most_bytes=None)
        self._opening = Lock()
        self._planning = Lock()

    def run(self, request: ExecuteRequest) -> Executed:
        """Runs a request.

        Raises:
            OpwireError: the request is invalid, no device runs it, or its time has run out.
        """
        deadline = None if request.timeout_ms is None else time.monotonic() + request.timeout_ms / 1000
        device = self.device(request.device, f"{request.pointer}/device")
        plan = self._plan(request)
        refuse_not_executable([plan], device)  # before the inputs are read, as a server does
        return execute_plan(plan, read_inputs(plan, request), device, _stop(deadline))

    def open(self, device: str | None) -> None:
        """Opens a device, which otherwise happens when it is first used.

        Raises:
            RequestError: this machine has no such device.
        """
        self.device(device, "/device")

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
                device = self._devices.get(own) or self._devices.setdefault(own, load(own))
                return self._devices.setdefault(name, device)
            except DeviceUnavailable as reason:
                raise _no_device(str(reason), pointer) from None

    def _plan(self, request: ExecuteRequest) -> Plan:
        with self._planning:
            key, found = self._plans.find(request)
        if found is None:
            made = self._plans.prepare(request)
            with self._planning:
                found = self._plans.keep(key, made)
        return found.plan

    def close(self) -> None:
        """Closes the devices. No ``run`` may be in progress."""
        with self._opening:
            opened, self._devices = {*self._devices.values()}, {}
        for device in opened:
            device.close()

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


def execute_plan(plan: Plan, inputs: Arrays, device: Device, stop: Stop = _never) -> Executed:
    """Runs a plan and returns its outputs.

    Raises:
        DeadlineExceededError: it was told to stop.
    """
    buffers, outputs = {}, {}
    for name, desc in plan.outputs.items():
        buffers[name], outputs[name] = desc.allocate()
    return Executed(plan, buffers, device.name, run_plan(plan, inputs, outputs, device, stop))


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


def _stop(deadline: float | None) -> Stop:
    return _never if deadline is None else (lambda: time.monotonic() > deadline)


def _default_device() -> str:
    return "cpu" if find_spec("numba") else "reference"


def _no_device(message: str, pointer: str) -> RequestError:
    at = Violation(Code.UNKNOWN_VALUE, pointer, message, [AUTO, *DEVICES])
    return RequestError(ProblemCode.INVALID_REQUEST, message, violations=[at])
