"""Requests to register a graph under a name: the graph with its constants, without inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..check import Plan
from ..desc import show
from ..graph import CONSTANT
from ..violation import Code, Violation
from .framing import Parts
from .request_body import RequestBody
from .requests import ExecuteRequest, read_envelope, read_execute, read_inputs, refuse

_MEMBERS: Mapping[str, None] = dict.fromkeys(("feature_level", "strict", "graph"))


def parse_registration(body: RequestBody) -> ExecuteRequest:
    """Parses the body of a request to register a graph, as a request to run it with its constants as the only inputs.

    Raises:
        RequestError: it is not JSON, does not have this form, or its parts do not fit together.
    """
    return body.read(_read)


def _read(document: object, parts: Parts) -> ExecuteRequest:
    envelope = read_envelope(document, _MEMBERS)
    if "graph" not in envelope:
        refuse([Violation(Code.MISSING_FIELD, "", "graph is required and missing")])
    if isinstance(envelope["graph"], str):
        message = f"{show(envelope['graph'])} given; expected a graph (an object)"
        refuse([Violation(Code.WRONG_TYPE, "/graph", message)])
    return read_execute({**envelope, "inputs": {}}, parts, "")


def read_constants(plan: Plan, request: ExecuteRequest) -> dict[str, memoryview]:
    """Returns the bytes of a graph's constants, by the names of their nodes, without padding beyond their extent.

    Raises:
        ContractViolation, RequestError: as for ``read_inputs``.
    """
    descs = {name: desc for name, desc in plan.inputs.items() if name.startswith(CONSTANT)}
    arrays = read_inputs(replace(plan, inputs=descs), request)
    return {name.removeprefix(CONSTANT): descs[name].bytes_of(array).data for name, array in arrays.items()}
