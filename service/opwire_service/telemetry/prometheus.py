"""Exposition of the metrics to Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from .declarations import BOUNDS, Kind, Metric
from .metrics import Metrics, Sample

_BOUNDS = (*(str(bound / 1e6) for bound in BOUNDS), "+Inf")

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


def registry(metrics: Metrics, *, alone: bool) -> CollectorRegistry:
    """Creates the registry to scrape.

    Args:
        metrics: metrics of the server.
        alone: whether there is a single process, whose standard process metrics are then included.
    """
    made = CollectorRegistry()
    made.register(_Cells(metrics))
    if alone:
        ProcessCollector(registry=made)
    return made


class _Cells(Collector):
    """Reads the cells on collection, without keeping copies."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Family]:
        info = GaugeMetricFamily("opwire_info", "The server", labels=["version"])
        info.add_metric([version("opwire")], 1)
        yield info
        for metric, samples in self._metrics.collect():
            yield _family(metric, samples)

    def describe(self) -> Iterator[Family]:
        """Returns nothing, so that registration does not read the cells to compare names."""
        return iter(())


def _family(metric: Metric, samples: list[Sample]) -> Family:
    if metric.kind is Kind.HISTOGRAM:
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for sample in samples:
            cumulated = [
                (bound, float(count)) for bound, count in zip(_BOUNDS, accumulate(sample.buckets), strict=True)
            ]
            histogram.add_metric(sample.labels, cumulated, sample.sum / 1e6)
        return histogram
    make = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family = make(metric.name, metric.help, labels=metric.labels)
    for sample in samples:
        family.add_metric(sample.labels, sample.value)
    return family
