"""Cache of plans: an operator or a graph seen again at the same feature level is not checked again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import NamedTuple

from pydantic_core import to_json

from opwire.check import Plan, check, read_level
from opwire.errors import ContractViolation, LimitExceededError, ProblemCode
from opwire.graph import GRAPH, check_graph
from opwire.level import FeatureLevel
from opwire.tensor import Array, BufferTensorDesc
from opwire.wire import ExecuteRequest, OutputFrame, output_frames

from .registered_graph import RegisteredGraph, as_named

MAX_DESC_BYTES = 2**20
"""Maximum size of an operator desc, in bytes of JSON."""

_MAX_KEY_BYTES = 256 * 1024
"""Maximum size of a desc whose plan is cached, in bytes of JSON."""

_MAX_CACHED_BYTES = 8 * 2**20
"""Maximum total size of the descs of cached plans, in bytes of JSON. The memory of plans is proportional to it."""


@dataclass(slots=True, eq=False)
class Prepared:
    """A plan, with everything that its responses have in common.

    Attributes:
        plan: the checked desc.
        frames: the JSON around the data of each output.
        input_bytes, output_bytes: total size of the inputs, and of the outputs.
        between_bytes: total size of the intermediate tensors of a graph; they do not all exist at once.
    """

    plan: Plan
    frames: Mapping[str, OutputFrame]
    input_bytes: int
    output_bytes: int
    between_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Total size of the inputs and outputs."""
        return self.input_bytes + self.output_bytes

    def allocate(self) -> tuple[dict[str, Array], dict[str, Array]]:
        """Allocates the outputs and returns their buffers and their arrays, which are views of the buffers."""
        buffers: dict[str, Array] = {}
        outputs: dict[str, Array] = {}
        for name, desc in self.plan.outputs.items():
            buffers[name], outputs[name] = desc.allocate()
        return buffers, outputs


class Key(NamedTuple):
    """The key of a plan: everything it is made from.

    Attributes:
        desc: JSON of the desc, or the token of a registered graph.
        size: size of the JSON, in bytes.
    """

    desc: bytes | int
    size: int
    level: object
    is_graph: bool
    strict: bool


@dataclass(slots=True)
class PlanCache:
    """LRU cache of plans, keyed by desc and feature level. Thread-safe.

    Attributes:
        size: maximum number of plans.
        admit: called with each new plan; raises to refuse it.
        most_bytes: maximum size of a desc, in bytes of JSON; None for no limit.
        hits, misses: number of lookups that found a plan, and that did not.
    """

    size: int
    admit: Callable[[Plan], None]
    most_bytes: int | None = MAX_DESC_BYTES
    hits: int = 0
    misses: int = 0
    _plans: OrderedDict[Key, Prepared] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _lock: Lock = field(default_factory=Lock)

    def __len__(self) -> int:
        return len(self._plans)

    def plan(self, request: ExecuteRequest) -> Prepared:
        """Returns the plan of a request, from the cache if it is there.

        Raises:
            ContractViolation: the desc or the level is invalid.
        """
        key, found = self.find(request)
        return found or self.keep(key, self.prepare(request))

    def check(self, operator: object, level: FeatureLevel, *, strict: bool, pointer: str) -> Plan:
        """Returns the plan of an operator, as ``opwire.check.check`` does, from the cache if it is there."""
        return self.plan(ExecuteRequest(operator, str(level), {}, pointer=pointer, strict=strict, is_bare=True)).plan

    def find(self, request: ExecuteRequest) -> tuple[Key, Prepared | None]:
        """Returns the key of a request's plan, and the plan if it is cached.

        Raises:
            LimitExceededError: the desc is too large.
        """
        key = self._key(request)
        with self._lock:
            found = self._plans.get(key)
            if found is None:
                self.misses += 1
            else:
                self.hits += 1
                self._plans.move_to_end(key)
        return key, found

    def _key(self, request: ExecuteRequest) -> Key:
        level, operator = request.feature_level, request.operator
        about = level if isinstance(level, int | str) else None, request.is_graph, request.strict
        if isinstance(operator, RegisteredGraph):
            return Key(operator.token, operator.json_size, *about)
        desc = to_json(operator, inf_nan_mode="constants")
        size = len(desc)
        if self.most_bytes is not None and size > self.most_bytes:
            what = "graph (without constants)" if request.is_graph else "operator desc"
            detail = f"{size} bytes of JSON in the {what}; this server takes at most {self.most_bytes}"
            raise LimitExceededError(ProblemCode.BODY_TOO_LARGE, detail, limit=self.most_bytes, size=size)
        return Key(desc, size, *about)

    def keep(self, key: Key, made: Prepared) -> Prepared:
        """Caches a plan, unless its desc is very large, and returns it. Registered graphs may be large."""
        if key.size > _MAX_KEY_BYTES and isinstance(key.desc, bytes):
            return made
        with self._lock:
            if key not in self._plans:
                self._bytes += key.size
            self._plans[key] = made
            while len(self._plans) > self.size or self._bytes > _MAX_CACHED_BYTES:
                oldest, _ = self._plans.popitem(last=False)
                self._bytes -= oldest.size
        return made

    def keep_registered(self, graph: RegisteredGraph, request: ExecuteRequest, made: Prepared) -> None:
        """Caches the plan of a graph that has just been registered with a request."""
        self.keep(self._key(graph.request(request)), replace(made, input_bytes=made.input_bytes - graph.constant_bytes))

    def prepare(self, request: ExecuteRequest) -> Prepared:
        """Makes the plan of a request without using the cache.

        Raises:
            ContractViolation: the desc or the level is invalid.
        """
        level = read_level(request.feature_level, f"{request.pointer}/feature_level")
        named = request.operator if isinstance(request.operator, RegisteredGraph) else None
        checked = check_graph if request.is_graph else check
        operator, pointer = request.operator if named is None else named.graph, request.plan_pointer
        try:
            plan = checked(operator, level, strict=request.strict, pointer=pointer)
        except ContractViolation as error:
            raise error if named is None else ContractViolation(as_named(error.violations, pointer)) from None
        self.admit(plan)
        inputs, outputs = _bytes_of(plan.inputs), _bytes_of(plan.outputs)
        if named is not None:
            inputs -= named.constant_bytes  # they are mapped already: requests need no memory for them
        between = sum(plan.attributes.between) if plan.operator is GRAPH else 0
        return Prepared(plan, output_frames(plan.outputs), inputs, outputs, between)


def _bytes_of(descs: Mapping[str, BufferTensorDesc]) -> int:
    return sum([desc.data_size_in_bytes for desc in descs.values()])
