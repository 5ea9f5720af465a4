"""Requests to register a graph under a name: the graph with its constants, without inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from ..check import Plan
from ..desc import MAX_REPORTED, show
from ..graph import CONSTANT, without_constants
from ..level import HIGHEST
from ..violation import Code, Violation
from .bare_graphs import is_bare_graph
from .framing import Parts
from .inputs import read_inputs
from .payloads import Payload, read_payload
from .request_body import RequestBody
from .requests import ExecuteRequest, read_envelope, read_execute, refuse

_MEMBERS: Mapping[str, None] = dict.fromkeys(("feature_level", "strict", "graph"))


def parse_registration(body: RequestBody) -> ExecuteRequest:
    """Parses the body of a request to register a graph, as a request to run it with its constants as the only inputs.

    Raises:
        RequestError: it is not JSON, does not have this form, or its parts do not fit together.
    """
    return body.read(read_registration)


def read_registration(document: object, parts: Parts) -> ExecuteRequest:
    if isinstance(document, dict) and is_bare_graph(document):
        return _read_bare(document, parts)
    envelope = read_envelope(document, _MEMBERS)
    if "graph" not in envelope:
        refuse([Violation(Code.MISSING_FIELD, "", "graph is required and missing")])
    if isinstance(envelope["graph"], str):
        message = f"{show(envelope['graph'])} given; expected a graph (an object)"
        refuse([Violation(Code.WRONG_TYPE, "/graph", message)])
    return read_execute({**envelope, "inputs": {}}, parts, "")


def _read_bare(document: dict[str, Any], parts: Parts) -> ExecuteRequest:
    """Reads a graph by itself as a request to run it with its constants as the only inputs.

    Raises:
        RequestError: a constant is malformed.
    """
    graph, held = without_constants(document, "")
    inputs = {CONSTANT + name: read_payload(tensor, parts, at) for name, (tensor, at) in held.items()}
    places = {CONSTANT + name: at for name, (_, at) in held.items()}
    violations = [payload for payload in inputs.values() if isinstance(payload, Violation)]
    if violations:
        refuse(violations[:MAX_REPORTED])
    given = cast(dict[str, Payload], inputs)  # a violation would have been raised
    return ExecuteRequest(graph, HIGHEST, given, is_graph=True, places=places, is_bare=True)


def read_constants(plan: Plan, request: ExecuteRequest) -> dict[str, memoryview]:
    """Returns the bytes of a graph's constants, by the names of their nodes, without padding beyond their extent.

    Raises:
        ContractViolation, RequestError: as for ``read_inputs``.
    """
    descs = {name: desc for name, desc in plan.inputs.items() if name.startswith(CONSTANT)}
    arrays = read_inputs(replace(plan, inputs=descs), request)
    return {name.removeprefix(CONSTANT): descs[name].bytes_of(array).data for name, array in arrays.items()}
