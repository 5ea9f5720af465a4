"""The statistics extension: counts and durations per model and version, with every member that clients read."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opwire.schema import CATALOG

from ..telemetry.metrics import Metrics
from .models import ServedModel, versions

_DURATIONS = {
    "success": "total",
    "queue": "queue",
    "compute_input": "decode",
    "compute_infer": "run",
    "compute_output": "encode",
}
"""The pipeline stage behind each of the protocol's durations."""

_STAGES = tuple(_DURATIONS.values())

_LAST, _SUCCEEDED, _FAILED, _FAILING, _FIRST_STAGE = range(5)
_CELLS = _FIRST_STAGE + len(_STAGES)
"""Number of cells per model: time of the last inference in Unix milliseconds, counts, and durations in microseconds."""

_MODELS = [(name, version) for name in CATALOG for version in versions(name)]
_PLACES = {model: number * _CELLS for number, model in enumerate(_MODELS)}

CELLS = len(_PLACES) * _CELLS
"""Number of cells for the models of all operators."""

_GRAPH_CELLS = 1 + _CELLS
"""Number of cells per graph: the token of the graph they belong to, then the cells of a model."""


def cells(graphs: int) -> int:
    """Returns the number of cells for all models.

    Args:
        graphs: maximum number of registered graphs.
    """
    return CELLS + (graphs + 1) * _GRAPH_CELLS  # one more, as a replacement briefly coexists with the old graph


class Statistics:
    """Statistics of a server's models for this protocol, summed over all worker processes.

    Args:
        metrics: metrics with further cells for the statistics, see ``cells``.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._first = metrics.layout.further

    def succeeded(self, model: ServedModel, timing: Mapping[str, int]) -> None:
        """Counts a successful inference; ``timing`` has the microseconds per stage and ``total``."""
        cells, place = self._metrics.cells, self._own(model)
        cells[place + _LAST] = int(time.time() * 1000)
        cells[place + _SUCCEEDED] += 1
        place += _FIRST_STAGE
        for stage in _STAGES:
            cells[place] += timing[stage]
            place += 1

    def failed(self, model: ServedModel, microseconds: int) -> None:
        """Counts an inference that was refused or failed."""
        cells, place = self._metrics.cells, self._own(model)
        cells[place + _FAILED] += 1
        cells[place + _FAILING] += microseconds

    def to_json(self, models: Iterable[ServedModel]) -> dict[str, list[dict[str, Any]]]:
        """Returns the statistics of some models as JSON."""
        rows = self._metrics.rows()
        return {"model_stats": [_stats(model, self._cells_of(model, rows)) for model in models]}

    def _place(self, model: ServedModel) -> int:
        """Returns the index of a model's first cell."""
        if model.graph is None:
            return self._first + _PLACES[model.name, model.version]
        return self._first + CELLS + model.graph.slot * _GRAPH_CELLS + 1

    def _own(self, model: ServedModel) -> int:
        """Returns ``_place`` after clearing cells of this process that belong to an earlier graph."""
        place = self._place(model)
        if model.graph is not None and self._metrics.cells[place - 1] != model.graph.token:
            for cell in range(place, place + _CELLS):
                self._metrics.cells[cell] = 0
            self._metrics.cells[place - 1] = model.graph.token
        return place

    def _cells_of(self, model: ServedModel, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the cells of a model, one row per process."""
        place = self._place(model)
        if model.graph is not None:
            rows = rows[rows[:, place - 1] == model.graph.token]
        return rows[:, place : place + _CELLS]


def _stats(model: ServedModel, cells: NDArray[np.int64]) -> dict[str, Any]:
    totals: list[int] = cells.sum(axis=0).tolist()
    succeeded, times = totals[_SUCCEEDED], totals[_FIRST_STAGE:]
    return {
        "name": model.name,
        "version": model.version,
        "last_inference": int(cells[:, _LAST].max(initial=0)),
        "inference_count": succeeded,
        "execution_count": succeeded,
        "inference_stats": {
            **{name: _duration(succeeded, spent) for name, spent in zip(_DURATIONS, times, strict=True)},
            "fail": _duration(totals[_FAILED], totals[_FAILING]),
            "cache_hit": _duration(0, 0),
            "cache_miss": _duration(0, 0),
        },
        "response_stats": {},
        "batch_stats": [],
        "memory_usage": [],
    }


def _duration(count: int, microseconds: int) -> dict[str, int]:
    return {"count": count, "ns": microseconds * 1000}
