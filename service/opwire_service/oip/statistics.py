"""The statistics extension: counts and durations by model and version, with every member that its clients read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from opwire.operators import OPERATORS

from .models import Model, levels_of

_STAGES = {"queue": ("queue",), "compute_input": ("decode",), "compute_infer": ("run",), "compute_output": ("encode",)}
"""The protocol's durations, and the stages of the pipeline that each is the sum of."""


@dataclass(slots=True)
class Duration:
    """How often, and how long altogether in nanoseconds."""

    count: int = 0
    ns: int = 0

    def add(self, microseconds: int) -> None:
        self.count += 1
        self.ns += microseconds * 1000

    def to_json(self) -> dict[str, int]:
        return {"count": self.count, "ns": self.ns}


@dataclass(slots=True)
class _Record:
    last_inference: int = 0
    success: Duration = field(default_factory=Duration)
    fail: Duration = field(default_factory=Duration)
    stages: dict[str, Duration] = field(default_factory=lambda: {name: Duration() for name in _STAGES})


class Statistics:
    """What the models of a server have done so far over this protocol."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, str], _Record] = {}

    def succeeded(self, model: Model, timing: Mapping[str, int]) -> None:
        """An inference was answered; its timing is in microseconds by stage, with ``total``."""
        record = self._record(model)
        record.last_inference = int(time.time() * 1000)
        record.success.add(timing["total"])
        for name, stages in _STAGES.items():
            record.stages[name].add(sum(timing.get(stage, 0) for stage in stages))

    def failed(self, model: Model, microseconds: int) -> None:
        """An inference was refused or failed."""
        self._record(model).fail.add(microseconds)

    def _record(self, model: Model) -> _Record:
        return self._records.setdefault((model.operator.name, model.version), _Record())

    def to_json(self, name: str | None = None, version: str | None = None) -> dict[str, object]:
        """The statistics of all models, of one, or of one version."""
        return {
            "model_stats": [
                self._stats(model)
                for operator in OPERATORS.values()
                for model in (Model(operator, level) for level in levels_of(operator))
                if name in (None, operator.name) and version in (None, model.version)
            ]
        }

    def _stats(self, model: Model) -> dict[str, object]:
        record = self._records.get((model.operator.name, model.version)) or _Record()
        nothing = Duration().to_json()
        return {
            "name": model.operator.name,
            "version": model.version,
            "last_inference": record.last_inference,
            "inference_count": record.success.count,
            "execution_count": record.success.count,
            "inference_stats": {
                "success": record.success.to_json(),
                "fail": record.fail.to_json(),
                **{name: duration.to_json() for name, duration in record.stages.items()},
                "cache_hit": nothing,
                "cache_miss": nothing,
            },
            "response_stats": {},
            "batch_stats": [],
            "memory_usage": [],
        }
