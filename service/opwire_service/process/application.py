"""Assembles the application of a server from its protocols and metrics."""

from __future__ import annotations

from pathlib import Path

from ..http.app import Application, route_labels
from ..oip.routes import LABELS, OpenInference
from ..oip.statistics import cells
from ..settings import Settings
from ..telemetry.metrics import Layout, Metrics
from ..telemetry.seats import SEATS


def layout(settings: Settings) -> Layout:
    """Returns the layout of a server's metrics."""
    return Layout(settings.devices, route_labels(LABELS), cells(settings.limits.graphs), SEATS if settings.ray else 0)


def create_app(settings: Settings, metrics: Metrics | None = None, folder: Path | None = None) -> Application:
    """Creates the application of a server. Its service is created at startup and closed at shutdown.

    Args:
        settings: settings of the server.
        metrics: metrics of this process; by default new ones.
        folder: folder shared by the server's worker processes; None for a single process.

    Raises:
        OSError, ValueError: as for ``Application``.
    """
    counted = Metrics(layout(settings)) if metrics is None else metrics
    return Application(settings, counted, [OpenInference(settings, counted)], folder)
