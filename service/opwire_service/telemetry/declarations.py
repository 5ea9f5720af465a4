"""The metrics of a server: their names, types, labels and help texts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from opwire.errors import ProblemCode
from opwire.graph import GRAPH
from opwire.schema import CATALOG

TOTAL = "total"
STAGES = ("receive", "parse", "check", "decode", "queue", "run", "encode", TOTAL)

OK = "ok"
CLIENT_GONE = "client_gone"
OUTCOMES = (OK, CLIENT_GONE, *(code.value for code in ProblemCode))
"""Outcomes of a request: answered, abandoned by the client, or a problem code."""

OTHER = "other"
"""Route label of requests that match no route."""

BOUNDS = (
    *(100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000),
    *(1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000),
)
"""Upper bounds of histogram buckets, in microseconds."""


class Kind(Enum):
    """Types of metrics."""

    COUNTER = auto()
    GAUGE = auto()
    HISTOGRAM = auto()


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric.

    Attributes:
        name: name without the suffix that counters get in the exposition format.
        kind: type of the metric; histograms are exposed in seconds.
        help: help text.
        labels: names of its labels.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()

    @property
    def cells(self) -> int:
        """Number of cells per set of label values; those of a histogram are its sum and its buckets."""
        return len(BOUNDS) + 2 if self.kind is Kind.HISTOGRAM else 1


TIMES = Metric("", Kind.HISTOGRAM, "", ("operator", "stage"))
"""What is counted of each stage of each operator. It would have 30,000 series, so the next three are shown instead."""

STAGE_SECONDS = Metric(
    "opwire_stage_seconds", Kind.HISTOGRAM, "Duration of each stage of executed operators", ("stage",)
)
OPERATOR_SECONDS = Metric(
    "opwire_operator_seconds",
    Kind.HISTOGRAM,
    "Duration of executed operators, from arrival to the encoded response",
    ("operator",),
)
OPERATOR_STAGE_SECONDS = Metric(
    "opwire_operator_stage_seconds",
    Kind.COUNTER,
    "Total duration of each stage of each operator",
    ("operator", "stage"),
)
REQUEST_SECONDS = Metric(
    "opwire_request_seconds", Kind.HISTOGRAM, "Time from arrival to the last byte of the response", ("route",)
)
REQUESTS = Metric("opwire_requests", Kind.COUNTER, "Completed requests by outcome", ("route", "code"))
BATCH_RESULTS = Metric("opwire_batch_results", Kind.COUNTER, "Completed requests in batches by outcome", ("code",))
CANCELLATIONS = Metric(
    "opwire_cancellations", Kind.COUNTER, "Operators cancelled because the client disconnected, by stage", ("stage",)
)
PLAN_HITS = Metric("opwire_plan_cache_hits", Kind.COUNTER, "Requests whose operator desc was in the plan cache")
PLAN_MISSES = Metric("opwire_plan_cache_misses", Kind.COUNTER, "Requests whose operator desc had to be checked")
PLANS = Metric("opwire_plan_cache_size", Kind.GAUGE, "Operator descs in the plan cache")
PLANS_LIMIT = Metric("opwire_plan_cache_limit", Kind.GAUGE, "Maximum number of operator descs in the plan cache")
QUEUED = Metric("opwire_queued_operators", Kind.GAUGE, "Queued operators", ("device",))
QUEUED_LIMIT = Metric("opwire_queued_operators_limit", Kind.GAUGE, "Maximum number of queued operators on all devices")
RUNNING = Metric("opwire_running_operators", Kind.GAUGE, "Operators running on threads", ("device",))
RUNNING_LIMIT = Metric(
    "opwire_running_operators_limit", Kind.GAUGE, "Maximum number of operators running on threads", ("device",)
)
WORK = Metric("opwire_pending_work", Kind.GAUGE, "Element visits of queued and running operators", ("device",))
DEVICE_MEMORY = Metric(
    "opwire_device_memory_bytes", Kind.GAUGE, "Device memory held by accepted operators, in bytes", ("device",)
)
DEVICE_MEMORY_LIMIT = Metric(
    "opwire_device_memory_limit_bytes",
    Kind.GAUGE,
    "Limit of device memory held by operators, in bytes; 0 for a device without memory of its own",
    ("device",),
)
DEVICE_KERNELS = Metric("opwire_device_kernels", Kind.GAUGE, "Compiled and loaded kernels", ("device",))
MEMORY = Metric(
    "opwire_request_memory_bytes", Kind.GAUGE, "Memory held by requests for bodies, tensors and responses, in bytes"
)
MEMORY_WAITING = Metric("opwire_requests_waiting_for_memory", Kind.GAUGE, "Requests waiting for memory")
MEMORY_LIMIT = Metric("opwire_request_memory_limit_bytes", Kind.GAUGE, "Limit of memory held by requests, in bytes")
WORKERS = Metric("opwire_workers", Kind.GAUGE, "Serving worker processes")
WORKER_RESTARTS = Metric("opwire_worker_restarts", Kind.COUNTER, "Worker processes replaced after an unexpected exit")

COUNTED = (
    *(TIMES, REQUEST_SECONDS, REQUESTS, BATCH_RESULTS, CANCELLATIONS, PLAN_HITS, PLAN_MISSES, PLANS),
    *(PLANS_LIMIT, QUEUED, QUEUED_LIMIT, RUNNING, RUNNING_LIMIT, WORK, MEMORY, MEMORY_LIMIT, MEMORY_WAITING),
    *(DEVICE_MEMORY, DEVICE_MEMORY_LIMIT, DEVICE_KERNELS, WORKERS, WORKER_RESTARTS),
)

DEVICE_METRICS = tuple(metric for metric in COUNTED if metric.labels == ("device",))
"""Metrics per device, all of them gauges."""

OPERATORS = (*CATALOG, GRAPH.name)
"""Values of the operator label: all operator types, and graphs."""
