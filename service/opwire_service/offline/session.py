"""What a client without a server has of its own: the graphs that it registered, and the count of its running calls."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Condition
from typing import Any, NamedTuple, cast

import numpy as np

from opwire.check import Validation, read_level, validate
from opwire.desc import show
from opwire.describe import GraphInfo
from opwire.dxdispatch import Model
from opwire.errors import ContractViolation, NotFoundError, ProblemCode, RequestError
from opwire.graph import CONSTANT, validate_graph, with_constants
from opwire.violation import Violation
from opwire.wire import Executed, ExecuteRequest, Payload, ValidateRequest, read_constants

from ..engine.graph_registry import refuse_name
from ..engine.plan_cache import Prepared
from ..engine.registered_graph import StoredGraph, as_named
from ..execution import Arrays, FixedMemory
from .documents import read_document
from .engine import OfflineEngine, shared


class PreparedGraph(NamedTuple):
    """A graph that is checked once for all its runs.

    Attributes:
        stored: the graph.
        prepared: its plan.
        constants: the arrays of its constants, by input of the plan.
        strict: whether it was checked strictly.
    """

    stored: StoredGraph
    prepared: Prepared
    constants: Arrays
    strict: bool

    def info(self, name: str) -> GraphInfo:
        return cast(GraphInfo, {"name": name, **self.stored.describe(), "byte_size": self.stored.size})


class OfflineSession:
    """Runs the requests of one client. Safe to share between threads."""

    def __init__(self, engine: OfflineEngine) -> None:
        self._engine = engine
        self._graphs: dict[str, PreparedGraph] = {}
        self._running = 0
        self._closed = False
        self._changed = Condition()

    def run(self, request: ExecuteRequest, graph: PreparedGraph | None = None) -> Executed:
        """Runs a request, which may name a registered graph.

        Args:
            request: the request.
            graph: the graph that it runs, if that is prepared; the request then has any name for it.

        Raises:
            OpwireError: see ``OfflineEngine.run``; or there is no graph of that name.
            RuntimeError: the session is closed.
        """
        with self._call():
            if request.is_graph and isinstance(request.operator, str):
                return self._run_prepared(graph or self._find(request.operator), request)
            return self._engine.run(request)

    def _run_prepared(self, graph: PreparedGraph, request: ExecuteRequest) -> Executed:
        stored, level = graph.stored, graph.stored.plan.level
        given = level if request.feature_level is None else request.feature_level
        if (graph.strict or not request.strict) and read_level(given, "/feature_level") is level:
            return self._engine.run(request, graph.prepared, graph.constants)
        constants = {CONSTANT + name: data for name, data in stored.constants.items()}
        whole = request._replace(
            operator=stored.graph,
            feature_level=given,
            inputs={**request.inputs, **constants},
            places=dict.fromkeys(constants, request.plan_pointer),
        )
        try:
            prepared = self._engine.prepare(whole)
        except ContractViolation as error:
            raise ContractViolation(as_named(error.violations, request.plan_pointer)) from None
        return self._engine.run(whole, prepared)

    def run_document(self, data: bytes, folder: Path, options: Mapping[str, Any]) -> Executed:
        """Runs the operator or graph of a document, with the inputs that it contains.

        Args:
            data: the document, see ``read_document``.
            folder: folder to look for referenced files in, before the current one.
            options: members of a request that override those of the document.

        Raises:
            OpwireError: as for ``run``; or the document is no request to run one operator or graph.
            OSError: a file cannot be read.
        """
        with self._call():
            document = read_document(data, folder)
            if isinstance(document, Model):
                detail = "the document is a DxDispatch model, which has no result of its own; opwire run runs it"
                raise RequestError(ProblemCode.INVALID_REQUEST, detail)
            request = document.request._replace(**options)
            level, strict = read_level(request.feature_level, "/feature_level"), request.strict
            plan = document.dispatchable.check(level, strict=strict)
            device = self._engine.device(request.device, "/device")
            return self._engine.execute(plan, document.read_inputs(plan, {}), device, request.timeout_ms)

    def register(self, name: str, request: ExecuteRequest) -> GraphInfo:
        """Registers a graph. Constants that could change are copied.

        Raises:
            ContractViolation: the graph is not valid at its level, or a constant does not match its desc.
            RequestError: the request or the name is invalid.
        """
        with self._call():
            refuse_name(name)
            graph = self._graphs[name] = self._prepare(request, _kept)
            return graph.info(name)

    def prepare(self, request: ExecuteRequest) -> PreparedGraph:
        """Prepares a graph, given as for ``register``, whose constants never change.

        Raises:
            ContractViolation, RequestError: as for ``register``.
        """
        with self._call():
            return self._prepare(request, lambda data, given: data)

    def _prepare(self, request: ExecuteRequest, keep: Callable[[memoryview, Payload], memoryview]) -> PreparedGraph:
        prepared = self._engine.prepare(request)
        found = read_constants(prepared.plan, request)
        kept = {node: FixedMemory.fix(keep(data, request.inputs[CONSTANT + node])) for node, data in found.items()}
        arrays = {CONSTANT + node: prepared.plan.inputs[CONSTANT + node].view(data) for node, data in kept.items()}
        return PreparedGraph(StoredGraph(request.operator, prepared.plan, kept), prepared, arrays, request.strict)

    def registered(self) -> list[GraphInfo]:
        """Describes the registered graphs, sorted by name."""
        return [graph.info(name) for name, graph in sorted(self._graphs.items())]

    def describe(self, name: str) -> GraphInfo:
        """Describes a registered graph, with the graph itself.

        Raises:
            NotFoundError: there is no graph of that name.
        """
        found = self._find(name)
        sizes = {node: {"binary_data_size": data.nbytes} for node, data in found.stored.constants.items()}
        return {**found.info(name), "graph": with_constants(cast(dict[str, Any], found.stored.graph), sizes)}

    def remove(self, name: str) -> None:
        """Removes a registered graph; calls that use it continue.

        Raises:
            NotFoundError: there is no graph of that name.
        """
        self._find(name)
        self._graphs.pop(name, None)

    def validate(self, request: ValidateRequest) -> Validation:
        """Checks an operator desc or a graph, which may be the name of a registered one.

        Raises:
            ContractViolation: the feature level does not exist.
            NotFoundError: there is no graph of that name.
        """
        operator, strict, pointer = request.operator, request.strict, request.plan_pointer
        if not (request.is_graph and isinstance(operator, str)):
            level = read_level(request.feature_level, "/feature_level")
            return (validate_graph if request.is_graph else validate)(operator, level, strict=strict, pointer=pointer)
        stored = self._find(operator).stored
        given = stored.plan.level if request.feature_level is None else request.feature_level
        level = read_level(given, "/feature_level")
        found = validate_graph(stored.graph, level, strict=strict, pointer=pointer)

        def named(violations: Iterable[Violation]) -> tuple[Violation, ...]:
            return as_named(violations, pointer)

        return replace(found, violations=named(found.violations), warnings=named(found.warnings))

    def close(self) -> None:
        """Waits for the running calls, refuses further ones, and drops the registered graphs."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not self._running)
        self._graphs.clear()

    def _find(self, name: str) -> PreparedGraph:
        found = self._graphs.get(name)
        if found is None:
            raise NotFoundError(ProblemCode.NOT_FOUND, f"no graph {show(name)} is registered with this client")
        return found

    @contextmanager
    def _call(self) -> Generator[None]:
        with self._changed:
            if self._closed:
                raise RuntimeError("the client is closed")
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()


def open_session(device: str | None) -> OfflineSession:
    """Opens a session on the engine that all clients of the process share, and the device that it uses by default.

    Raises:
        ModuleNotFoundError: a package of the service extra is not installed, such as that of the CPU, the default.
        RequestError: this machine has no such device.
    """
    engine = shared()
    engine.device(device or "cpu", "/device")
    return OfflineSession(engine)


def _kept(data: memoryview, given: Payload) -> memoryview:
    """Returns the bytes of a constant, copied if they are those of an array, which the caller may change."""
    return np.frombuffer(data, np.uint8).copy().data if isinstance(given, memoryview) else data
