"""The statistics extension: counts and durations by model and version, with every member that its clients read."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opwire.schema import CATALOG

from ..telemetry.metrics import Metrics
from .models import Model, versions

_DURATIONS = {
    "success": "total",
    "queue": "queue",
    "compute_input": "decode",
    "compute_infer": "run",
    "compute_output": "encode",
}
"""The protocol's durations, and the stages of the pipeline that they are."""

_STAGES = tuple(_DURATIONS.values())

_LAST, _SUCCEEDED, _FAILED, _FAILING, _FIRST_STAGE = range(5)
_CELLS = _FIRST_STAGE + len(_STAGES)
"""The cells of a model: the last inference in milliseconds since 1970; counts; and times in microseconds."""

_MODELS = [(name, version) for name in CATALOG for version in versions(name)]
_PLACES = {model: number * _CELLS for number, model in enumerate(_MODELS)}

CELLS = len(_PLACES) * _CELLS
"""The cells of all models that there may be."""


class Statistics:
    """What the models of a server have done so far over this protocol, in all of its processes.

    Args:
        metrics: whose layout has CELLS further cells.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._first = metrics.layout.further

    def succeeded(self, model: Model, timing: Mapping[str, int]) -> None:
        """An inference was answered; its timing is in microseconds by stage, with ``total``."""
        cells, place = self._metrics.cells, self._first + _place(model)
        cells[place + _LAST] = int(time.time() * 1000)
        cells[place + _SUCCEEDED] += 1
        place += _FIRST_STAGE
        for stage in _STAGES:
            cells[place] += timing[stage]
            place += 1

    def failed(self, model: Model, microseconds: int) -> None:
        """An inference was refused or failed."""
        cells, place = self._metrics.cells, self._first + _place(model)
        cells[place + _FAILED] += 1
        cells[place + _FAILING] += microseconds

    def to_json(self, models: Iterable[Model]) -> dict[str, list[dict[str, Any]]]:
        """The statistics of some models."""
        rows = self._metrics.rows()[:, self._first : self._first + CELLS]
        totals: list[int] = rows.sum(axis=0).tolist()
        latest: list[int] = rows.max(axis=0).tolist()
        return {"model_stats": [_stats(model, latest, totals, _place(model)) for model in models]}


def _place(model: Model) -> int:
    return _PLACES[model.operator.name, model.version]


def _stats(model: Model, latest: Sequence[int], totals: Sequence[int], place: int) -> dict[str, Any]:
    succeeded = totals[place + _SUCCEEDED]
    times = totals[place + _FIRST_STAGE : place + _CELLS]
    return {
        "name": model.operator.name,
        "version": model.version,
        "last_inference": latest[place + _LAST],
        "inference_count": succeeded,
        "execution_count": succeeded,
        "inference_stats": {
            **{name: _duration(succeeded, spent) for name, spent in zip(_DURATIONS, times, strict=True)},
            "fail": _duration(totals[place + _FAILED], totals[place + _FAILING]),
            "cache_hit": _duration(0, 0),
            "cache_miss": _duration(0, 0),
        },
        "response_stats": {},
        "batch_stats": [],
        "memory_usage": [],
    }


def _duration(count: int, microseconds: int) -> dict[str, int]:
    return {"count": count, "ns": microseconds * 1000}
