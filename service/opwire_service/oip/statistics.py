"""The statistics extension: counts and durations by model and version, with every member that its clients read."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .models import MODELS, Model

_DURATIONS = {
    "success": "total",
    "queue": "queue",
    "compute_input": "decode",
    "compute_infer": "run",
    "compute_output": "encode",
}
"""The protocol's durations, and the stages of the pipeline that they are."""


@dataclass(slots=True)
class _Record:
    """What a model has done; times in microseconds."""

    last_inference: int = 0
    succeeded: int = 0
    stages: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_DURATIONS.values(), 0))
    failed: int = 0
    failing: int = 0


class Statistics:
    """What the models of a server have done so far over this protocol."""

    def __init__(self) -> None:
        self._records = {model: _Record() for versions in MODELS.values() for model in versions.values()}

    def succeeded(self, model: Model, timing: Mapping[str, int]) -> None:
        """An inference was answered; its timing is in microseconds by stage, with ``total``."""
        record = self._records[model]
        record.last_inference = int(time.time() * 1000)
        record.succeeded += 1
        stages = record.stages
        for stage in stages:
            stages[stage] += timing[stage]

    def failed(self, model: Model, microseconds: int) -> None:
        """An inference was refused or failed."""
        record = self._records[model]
        record.failed += 1
        record.failing += microseconds

    def to_json(self, models: Iterable[Model]) -> dict[str, list[dict[str, Any]]]:
        """The statistics of some models."""
        return {"model_stats": [_stats(model, self._records[model]) for model in models]}


def _stats(model: Model, record: _Record) -> dict[str, Any]:
    return {
        "name": model.operator.name,
        "version": model.version,
        "last_inference": record.last_inference,
        "inference_count": record.succeeded,
        "execution_count": record.succeeded,
        "inference_stats": {
            **{name: _duration(record.succeeded, record.stages[stage]) for name, stage in _DURATIONS.items()},
            "fail": _duration(record.failed, record.failing),
            "cache_hit": _duration(0, 0),
            "cache_miss": _duration(0, 0),
        },
        "response_stats": {},
        "batch_stats": [],
        "memory_usage": [],
    }


def _duration(count: int, microseconds: int) -> dict[str, int]:
    return {"count": count, "ns": microseconds * 1000}
