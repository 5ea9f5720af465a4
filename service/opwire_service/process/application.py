"""The application of a server: every protocol that it speaks, and what it counts."""

from __future__ import annotations

from pathlib import Path

from ..http.app import Application, route_labels
from ..oip.routes import LABELS, OpenInference
from ..oip.statistics import cells
from ..settings import Settings
from ..telemetry.metrics import Layout, Metrics
from ..telemetry.seats import SEATS


def layout(settings: Settings) -> Layout:
    """What a server counts."""
    return Layout(settings.devices, route_labels(LABELS), cells(settings.limits.graphs), SEATS if settings.ray else 0)


def create_app(settings: Settings, metrics: Metrics | None = None, folder: Path | None = None) -> Application:
    """The application of a server; its service is made when the server starts, and closed when it ends.

    Args:
        metrics: what it counts in; without that it counts for itself.
        folder: that the processes of the server share; None if it is one alone.

    Raises:
        OSError, ValueError: as for ``Application``.
    """
    counted = Metrics(layout(settings)) if metrics is None else metrics
    return Application(settings, counted, [OpenInference(settings, counted)], folder)
