"""Exposition of the metrics to Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Exposed
from prometheus_client.registry import Collector

from .declarations import BOUNDS, Kind, Metric
from .metrics import Metrics, Sample

_BOUNDS = (*(str(bound / 1e6) for bound in BOUNDS), "+Inf")

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


def registry(metrics: Metrics) -> CollectorRegistry:
    """Creates the registry to scrape: the metrics of the server, and those of its processes."""
    made = CollectorRegistry()
    made.register(_Cells(metrics))
    made.register(_Processes(metrics))
    return made


class _Processes(Collector):
    """The standard metrics of each process. Those of several have their name as a label."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Exposed]:
        families: dict[str, Exposed] = {}
        for name, pid in self._processes():
            for found in ProcessCollector(pid=partial(str, pid), registry=None).collect():
                family = families.setdefault(found.name, Exposed(found.name, found.documentation, found.type))
                for sample in found.samples:
                    family.add_sample(sample.name, {"process": name} if name else {}, sample.value)
        yield from families.values()

    def describe(self) -> Iterator[Exposed]:
        """Returns nothing; see ``_Cells``."""
        return iter(())

    def _processes(self) -> Iterator[tuple[str, int]]:
        *workers, last = self._metrics.processes()
        yield from ((f"worker-{row}", pid) for row, pid in enumerate(workers) if pid)
        yield "supervisor" if workers else "", last


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
