"""Selection of the device that a request asks for."""

from __future__ import annotations

from opwire.check import Plan
from opwire.desc import pointer_to, show
from opwire.errors import NotExecutableError, ProblemCode, RequestError
from opwire.operator import Code, Violation
from opwire.wire import ExecuteRequest

from ..devices import AUTO, CLUSTER
from .dispatcher import Dispatcher


def asked_device(dispatcher: Dispatcher, request: ExecuteRequest) -> str:
    """Returns the device a request asks for: the name of a device, ``auto`` or ``cluster``.

    Raises:
        RequestError: the server has no such device.
    """
    given = request.device
    if given is None or given == AUTO:
        return dispatcher.default
    if given in dispatcher.devices or (given == CLUSTER and dispatcher.has_cluster):
        return given
    known = [AUTO, *([CLUSTER] if dispatcher.has_cluster else ()), *dispatcher.devices]
    message = f"{show(given)} given; this server has {', '.join(known)}"
    at = Violation(Code.UNKNOWN_VALUE, pointer_to(request.pointer, "device"), message, known)
    raise RequestError(ProblemCode.INVALID_REQUEST, message, violations=[at])


def refuse_not_executable(dispatcher: Dispatcher, plan: Plan, device: str) -> None:
    """Refuses a plan that the device cannot run.

    Raises:
        NotExecutableError: the device does not run the plan.
    """
    if dispatcher.runs(plan, device):
        return
    able, operator = dispatcher.devices_for(plan), plan.operator.name
    if able:
        detail = f"the desc is valid, but {device} does not run {operator}; devices that do: {', '.join(able)}"
    else:
        known = ", ".join(dispatcher.devices)
        detail = f"the desc is valid, but no device of this server ({known}) runs {operator}"
    raise NotExecutableError(ProblemCode.OPERATOR_NOT_EXECUTABLE, detail, operator=operator, devices=able)
