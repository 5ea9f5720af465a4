"""Cache of plans, so that an operator desc seen again at the same feature level is not checked again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic_core import to_json

from opwire.check import Plan, check, read_level
from opwire.errors import LimitExceededError, ProblemCode
from opwire.graph import GRAPH, check_graph
from opwire.tensor import Array, BufferTensorDesc
from opwire.wire import ExecuteRequest, OutputFrame, output_frames

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
    """The key of a plan: everything it is made from."""

    desc: bytes
    level: object
    is_graph: bool
    strict: bool


@dataclass(slots=True)
class PlanCache:
    """LRU cache of plans, keyed by desc and feature level.

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

    def __len__(self) -> int:
        return len(self._plans)

    def plan(self, request: ExecuteRequest) -> Prepared:
        """Returns the plan of a request, from the cache if it is there.

        Raises:
            ContractViolation: the desc or the level is invalid.
        """
        key, found = self.find(request)
        return found or self.keep(key, self.prepare(request))

    def find(self, request: ExecuteRequest) -> tuple[Key, Prepared | None]:
        """Returns the key of a request's plan, and the plan if it is cached.

        Raises:
            LimitExceededError: the desc is too large.
        """
        level = request.feature_level
        desc = to_json(request.operator, inf_nan_mode="constants")
        if self.most_bytes is not None and len(desc) > self.most_bytes:
            what = "graph (without constants)" if request.is_graph else "operator desc"
            detail = f"{len(desc)} bytes of JSON in the {what}; this server takes at most {self.most_bytes}"
            raise LimitExceededError(ProblemCode.BODY_TOO_LARGE, detail, limit=self.most_bytes, size=len(desc))
        key = Key(desc, level if isinstance(level, int | str) else None, request.is_graph, request.strict)
        found = self._plans.get(key)
        if found is None:
            self.misses += 1
        else:
            self.hits += 1
            self._plans.move_to_end(key)
        return key, found

    def keep(self, key: Key, made: Prepared) -> Prepared:
        """Caches a plan, unless its desc is very large, and returns it."""
        if len(key.desc) > _MAX_KEY_BYTES:
            return made
        if key not in self._plans:
            self._bytes += len(key.desc)
        self._plans[key] = made
        while len(self._plans) > self.size or self._bytes > _MAX_CACHED_BYTES:
            oldest, _ = self._plans.popitem(last=False)
            self._bytes -= len(oldest.desc)
        return made

    def prepare(self, request: ExecuteRequest) -> Prepared:
        """Makes the plan of a request without using the cache. Thread-safe.

        Raises:
            ContractViolation: the desc or the level is invalid.
        """
        level = read_level(request.feature_level, f"{request.pointer}/feature_level")
        checked = check_graph if request.is_graph else check
        plan = checked(request.operator, level, strict=request.strict, pointer=request.plan_pointer)
        self.admit(plan)
        inputs, outputs = _bytes_of(plan.inputs), _bytes_of(plan.outputs)
        between = sum(plan.attributes.between) if plan.operator is GRAPH else 0
        return Prepared(plan, output_frames(plan.outputs), inputs, outputs, between)


def _bytes_of(descs: Mapping[str, BufferTensorDesc]) -> int:
    return sum([desc.data_size_in_bytes for desc in descs.values()])
