"""Plans that were made before: an operator desc seen again at the same level is not checked again."""

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

from .inline_run import InlineRun

LARGEST_DESC = 2**20
"""Bytes of JSON in an operator desc."""

_LARGEST_KEY = 256 * 1024
"""Bytes of JSON of a desc whose plan is kept."""

_MOST_KEYS = 8 * 2**20
"""Bytes of JSON of all plans that are kept, to which the memory of the plans is in proportion."""


@dataclass(slots=True, eq=False)
class Prepared:
    """A plan with what every answer to it repeats.

    Attributes:
        plan: the checked desc.
        frames: for each output the JSON around its data.
        input_bytes, output_bytes: of all inputs, and of all outputs.
        between_bytes: of all that the nodes of a graph hand on; they are not needed all at a time.
        is_repeated: whether its desc came more than once.
        inline: what runs it in the thread of the event loop, by the device that was asked for.
    """

    plan: Plan
    frames: Mapping[str, OutputFrame]
    input_bytes: int
    output_bytes: int
    between_bytes: int = 0
    is_repeated: bool = False
    inline: dict[str, InlineRun] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """The size of all tensors."""
        return self.input_bytes + self.output_bytes

    def allocate(self) -> tuple[dict[str, Array], dict[str, Array]]:
        """New outputs: the buffer of each, and its array over that."""
        buffers: dict[str, Array] = {}
        outputs: dict[str, Array] = {}
        for name, desc in self.plan.outputs.items():
            buffers[name], outputs[name] = desc.allocate()
        return buffers, outputs


class Key(NamedTuple):
    """What a plan is made from."""

    desc: bytes
    level: object
    is_graph: bool


@dataclass(slots=True)
class PlanCache:
    """The plans used last, by desc and level.

    Attributes:
        size: plans that it keeps.
        admit: called with each new plan; what it raises keeps the plan out.
        hits, misses: how often a plan was there, and how often not.
    """

    size: int
    admit: Callable[[Plan], None]
    hits: int = 0
    misses: int = 0
    _plans: OrderedDict[Key, Prepared] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def __len__(self) -> int:
        return len(self._plans)

    def plan(self, request: ExecuteRequest) -> Prepared:
        """The plan of a request.

        Raises:
            ContractViolation: the desc or the level is not valid.
        """
        key, found = self.find(request)
        return found or self.keep(key, self.prepare(request))

    def find(self, request: ExecuteRequest) -> tuple[Key, Prepared | None]:
        """The key of a request's plan, and the plan if it is kept.

        Raises:
            LimitExceededError: the desc is too large.
        """
        level = request.feature_level
        desc = to_json(request.operator, inf_nan_mode="constants")
        if len(desc) > LARGEST_DESC:
            what = "graph, its constants apart" if request.is_graph else "operator desc"
            detail = f"{len(desc)} bytes of JSON in the {what}; this server takes at most {LARGEST_DESC}"
            raise LimitExceededError(ProblemCode.BODY_TOO_LARGE, detail, limit=LARGEST_DESC, size=len(desc))
        key = Key(desc, level if isinstance(level, int | str) else None, request.is_graph)
        found = self._plans.get(key)
        if found is None:
            self.misses += 1
        else:
            self.hits += 1
            found.is_repeated = True
            self._plans.move_to_end(key)
        return key, found

    def keep(self, key: Key, made: Prepared) -> Prepared:
        """Keeps a plan, unless its desc is very large."""
        if len(key.desc) > _LARGEST_KEY:
            return made
        if key not in self._plans:
            self._bytes += len(key.desc)
        self._plans[key] = made
        while len(self._plans) > self.size or self._bytes > _MOST_KEYS:
            oldest, _ = self._plans.popitem(last=False)
            self._bytes -= len(oldest.desc)
        return made

    def prepare(self, request: ExecuteRequest) -> Prepared:
        """The plan of a request that was not seen before; may be called on any thread.

        Raises:
            ContractViolation: the desc or the level is not valid.
        """
        level = read_level(request.feature_level, f"{request.pointer}/feature_level")
        plan = (check_graph if request.is_graph else check)(request.operator, level, pointer=request.plan_pointer)
        self.admit(plan)
        inputs, outputs = _bytes_of(plan.inputs), _bytes_of(plan.outputs)
        between = sum(plan.attributes.between) if plan.operator is GRAPH else 0
        return Prepared(plan, output_frames(plan.outputs), inputs, outputs, between)


def _bytes_of(descs: Mapping[str, BufferTensorDesc]) -> int:
    return sum([desc.data_size_in_bytes for desc in descs.values()])
