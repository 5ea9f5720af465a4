"""The statistics extension: counts and durations by model and version, with every member that its clients read."""

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
"""The protocol's durations, and the stages of the pipeline that they are."""

_STAGES = tuple(_DURATIONS.values())

_LAST, _SUCCEEDED, _FAILED, _FAILING, _FIRST_STAGE = range(5)
_CELLS = _FIRST_STAGE + len(_STAGES)
"""The cells of a model: the last inference in milliseconds since 1970; counts; and times in microseconds."""

_MODELS = [(name, version) for name in CATALOG for version in versions(name)]
_PLACES = {model: number * _CELLS for number, model in enumerate(_MODELS)}

CELLS = len(_PLACES) * _CELLS
"""The cells of the models of all operators that there may be."""

_GRAPH_CELLS = 1 + _CELLS
"""The cells of a graph: the token of the graph that they are about, then those of any model."""


def cells(graphs: int) -> int:
    """The cells of all models.

    Args:
        graphs: that may be registered.
    """
    return CELLS + (graphs + 1) * _GRAPH_CELLS  # one takes the place of another before that has gone


class Statistics:
    """Statistics of the models of a server over this protocol, from all of its processes.

    Args:
        metrics: whose layout has further cells for them, see ``cells``.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._first = metrics.layout.further

    def succeeded(self, model: ServedModel, timing: Mapping[str, int]) -> None:
        """An inference was answered; its timing is in microseconds by stage, with ``total``."""
        cells, place = self._metrics.cells, self._own(model)
        cells[place + _LAST] = int(time.time() * 1000)
        cells[place + _SUCCEEDED] += 1
        place += _FIRST_STAGE
        for stage in _STAGES:
            cells[place] += timing[stage]
            place += 1

    def failed(self, model: ServedModel, microseconds: int) -> None:
        """An inference was refused or failed."""
        cells, place = self._metrics.cells, self._own(model)
        cells[place + _FAILED] += 1
        cells[place + _FAILING] += microseconds

    def to_json(self, models: Iterable[ServedModel]) -> dict[str, list[dict[str, Any]]]:
        """The statistics of some models."""
        rows = self._metrics.rows()
        return {"model_stats": [_stats(model, self._cells_of(model, rows)) for model in models]}

    def _place(self, model: ServedModel) -> int:
        """The first of a model's cells."""
        if model.graph is None:
            return self._first + _PLACES[model.name, model.version]
        return self._first + CELLS + model.graph.slot * _GRAPH_CELLS + 1

    def _own(self, model: ServedModel) -> int:
        """Like ``_place``, in the row of this process, where the cells of a graph may be those of an earlier one."""
        place = self._place(model)
        if model.graph is not None and self._metrics.cells[place - 1] != model.graph.token:
            for cell in range(place, place + _CELLS):
                self._metrics.cells[cell] = 0
            self._metrics.cells[place - 1] = model.graph.token
        return place

    def _cells_of(self, model: ServedModel, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The cells of a model, by process."""
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
