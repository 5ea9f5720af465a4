"""Plans that were made before: an operator desc seen again at the same level is not checked again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pydantic_core import to_json

from opwire.check import Plan, check, read_level
from opwire.errors import LimitExceededError, ProblemCode
from opwire.tensor import Array
from opwire.wire import ExecuteRequest, OutputFrame, output_frames

LARGEST_DESC = 2**20
"""Bytes of JSON in an operator desc."""

_LARGEST_KEY = 16 * 1024


@dataclass(slots=True, eq=False)
class Prepared:
    """A plan with what every answer to it repeats.

    Attributes:
        plan: the checked desc.
        frames: for each output the JSON around its data.
        input_bytes, output_bytes: of all inputs, and of all outputs.
    """

    plan: Plan
    frames: Mapping[str, OutputFrame]
    input_bytes: int
    output_bytes: int

    @property
    def bytes(self) -> int:
        """Of all tensors."""
        return self.input_bytes + self.output_bytes

    def allocate(self) -> tuple[dict[str, Array], dict[str, Array]]:
        """New outputs: the buffer of each, and its array over that."""
        buffers: dict[str, Array] = {}
        outputs: dict[str, Array] = {}
        for name, desc in self.plan.outputs.items():
            buffers[name], outputs[name] = desc.allocate()
        return buffers, outputs


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
    _plans: OrderedDict[tuple[bytes, object], Prepared] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self._plans)

    def plan(self, request: ExecuteRequest) -> Prepared:
        """The plan of a request.

        Raises:
            ContractViolation: the desc or the level is not valid.
        """
        level = request.feature_level
        desc = to_json(request.operator, inf_nan_mode="constants")
        if len(desc) > LARGEST_DESC:
            detail = f"{len(desc)} bytes of JSON in the operator desc; this server takes at most {LARGEST_DESC}"
            raise LimitExceededError(ProblemCode.BODY_TOO_LARGE, detail, limit=LARGEST_DESC, size=len(desc))
        key = (desc, level if isinstance(level, int | str) else None)
        found = self._plans.get(key)
        if found is not None:
            self.hits += 1
            self._plans.move_to_end(key)
            return found
        self.misses += 1
        made = self._prepare(request)
        if len(key[0]) <= _LARGEST_KEY:
            self._plans[key] = made
            if len(self._plans) > self.size:
                self._plans.popitem(last=False)
        return made

    def _prepare(self, request: ExecuteRequest) -> Prepared:
        level = read_level(request.feature_level, f"{request.pointer}/feature_level")
        plan = check(request.operator, level, pointer=f"{request.pointer}/operator")
        self.admit(plan)
        inputs, outputs = (
            sum(desc.data_size_in_bytes for desc in descs.values()) for descs in (plan.inputs, plan.outputs)
        )
        return Prepared(plan, output_frames(plan.outputs), inputs, outputs)
