"""Generates the dashboard: python3 docker/grafana/dashboard.py > docker/grafana/dashboards/opwire.json."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

SOURCE = {"type": "prometheus", "uid": "prometheus"}
WIDTH, HEIGHT = 24, 8
HERE = 'instance=~"$instance"'
USED = f'{HERE},route!~"/metrics|/livez|/readyz"'
BY_OPERATOR = f'{HERE},operator=~"$operator"'


@dataclass(frozen=True)
class Panel:
    """A panel with a line for each series; its queries map legends to expressions."""

    title: str
    unit: str
    queries: dict[str, str]
    width: int = 8
    kind: str = "timeseries"
    help: str = ""


def rate(metric: str, labels: str = HERE) -> str:
    return f"rate({metric}{{{labels}}}[$__rate_interval])"


def quantile(q: float, metric: str, by: str, labels: str) -> str:
    return f"histogram_quantile({q}, sum by (le, {by}) ({rate(f'{metric}_bucket', labels)}))"


GROUPS: dict[str, tuple[Panel, ...]] = {
    "Now": (
        Panel("Worker processes", "none", {"": f"sum(opwire_workers{{{HERE}}})"}, 4, "stat"),
        Panel("Requests", "reqps", {"": f"sum({rate('opwire_requests_total', USED)})"}, 4, "stat"),
        Panel(
            "Success rate",
            "percentunit",
            {
                "": f'sum({rate("opwire_requests_total", f"""{USED},code="ok" """.strip())})'
                f" / sum({rate('opwire_requests_total', USED)})"
            },
            4,
            "stat",
        ),
        Panel("Request latency, p99", "s", {"": quantile(0.99, "opwire_request_seconds", "job", USED)}, 4, "stat"),
        Panel("Queued operators", "none", {"": f"sum(opwire_queued_operators{{{HERE}}})"}, 4, "stat"),
        Panel(
            "Worker restarts, last hour",
            "none",
            {"": f"sum(increase(opwire_worker_restarts_total{{{HERE}}}[1h]))"},
            4,
            "stat",
        ),
    ),
    "Rate and outcomes": (
        Panel("Requests by route", "reqps", {"{{route}}": f"sum by (route) ({rate('opwire_requests_total', USED)})"}),
        Panel(
            "Outcomes",
            "reqps",
            {"{{code}}": f"sum by (code) ({rate('opwire_requests_total', USED)})"},
            help="ok, or the code of the problem in the answer; client_gone: the client disconnected.",
        ),
        Panel(
            "Requests in batches",
            "reqps",
            {"{{code}}": f"sum by (code) ({rate('opwire_batch_results_total')})"},
        ),
    ),
    "Latency": (
        Panel(
            "Operator latency",
            "s",
            {f"p{int(q * 100)}": quantile(q, "opwire_operator_seconds", "job", BY_OPERATOR) for q in (0.5, 0.9, 0.99)},
        ),
        Panel(
            "p99 latency by operator",
            "s",
            {"{{operator}}": quantile(0.99, "opwire_operator_seconds", "operator", BY_OPERATOR)},
        ),
        Panel(
            "Mean time by stage",
            "s",
            {
                "{{stage}}": f"sum by (stage) ({rate('opwire_operator_stage_seconds_total', BY_OPERATOR)})"
                f" / scalar(sum({rate('opwire_operator_seconds_count', BY_OPERATOR)}))"
            },
            help="receive: reading the body; queue: waiting for a device; run: executing on the device.",
        ),
        Panel(
            "Operators by type",
            "reqps",
            {"{{operator}}": f"sum by (operator) ({rate('opwire_operator_seconds_count', BY_OPERATOR)})"},
        ),
        Panel(
            "p99 latency by stage",
            "s",
            {"{{stage}}": quantile(0.99, "opwire_stage_seconds", "stage", f'{HERE},stage!="total"')},
        ),
        Panel("p99 latency by route", "s", {"{{route}}": quantile(0.99, "opwire_request_seconds", "route", USED)}),
    ),
    "Queue and devices": (
        Panel(
            "Queue usage",
            "percentunit",
            {
                "operators {{instance}}": f"sum by (instance) (opwire_queued_operators{{{HERE}}})"
                f" / sum by (instance) (opwire_queued_operators_limit{{{HERE}}})",
                "for memory {{instance}}": f"sum by (instance) (opwire_requests_waiting_for_memory{{{HERE}}})"
                f" / sum by (instance) (opwire_queued_operators_limit{{{HERE}}})",
            },
            help="At 100 %, requests are refused with 429.",
        ),
        Panel(
            "Running operators by device",
            "none",
            {
                "{{device}}": f"sum by (device) (opwire_running_operators{{{HERE}}})",
                "{{device}}, limit": f"sum by (device) (opwire_running_operators_limit{{{HERE}}})",
            },
        ),
        Panel(
            "Queued operators by device",
            "none",
            {"{{device}}": f"sum by (device) (opwire_queued_operators{{{HERE}}})"},
        ),
        Panel(
            "Device memory",
            "bytes",
            {
                "{{device}}": f"sum by (device) (opwire_device_memory_bytes{{{HERE}}})",
                "{{device}}, limit": f"sum by (device) (opwire_device_memory_limit_bytes{{{HERE}}})",
            },
            help="GPU memory held by accepted operators. Beyond the limit, requests are refused with memory_full.",
        ),
        Panel(
            "Kernels by device",
            "none",
            {"{{device}}": f"sum by (device) (opwire_device_kernels{{{HERE}}})"},
            help="Compiled and loaded kernels, over all processes.",
        ),
    ),
    "Memory and cache": (
        Panel(
            "Request memory",
            "bytes",
            {
                "{{instance}}": f"opwire_request_memory_bytes{{{HERE}}}",
                "{{instance}}, limit": f"opwire_request_memory_limit_bytes{{{HERE}}}",
            },
        ),
        Panel(
            "Plan cache hit rate",
            "percentunit",
            {
                "": f"sum({rate('opwire_plan_cache_hits_total')}) / (sum({rate('opwire_plan_cache_hits_total')})"
                f" + sum({rate('opwire_plan_cache_misses_total')}))"
            },
        ),
        Panel("Worker processes by server", "none", {"{{instance}}": f"opwire_workers{{{HERE}}}"}),
        Panel("Memory of processes", "bytes", {"{{instance}} {{process}}": f"process_resident_memory_bytes{{{HERE}}}"}),
        Panel("CPU cores in use", "none", {"{{instance}} {{process}}": rate("process_cpu_seconds_total")}),
    ),
}


def panel(spec: Panel, number: int, x: int, y: int) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": expr, "legendFormat": legend or spec.title}
        for at, (legend, expr) in enumerate(spec.queries.items())
    ]
    return {
        "id": number,
        "type": spec.kind,
        "title": spec.title,
        "description": spec.help,
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": spec.width, "h": HEIGHT if spec.kind == "timeseries" else HEIGHT // 2},
        "fieldConfig": {"defaults": {"unit": spec.unit, "min": 0}, "overrides": []},
        "targets": targets,
    }


def panels() -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    y = 0
    for title, specs in GROUPS.items():
        made.append(
            {
                "id": len(made) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "panels": [],
                "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1},
            }
        )
        x, y, height = 0, y + 1, 0
        for spec in specs:
            if x + spec.width > WIDTH:
                x, y = 0, y + height
            made.append(panel(spec, len(made) + 1, x, y))
            x, height = x + spec.width, made[-1]["gridPos"]["h"]
        y += height
    return made


def variable(name: str, query: str) -> dict[str, Any]:
    everything = {"text": "All", "value": "$__all"}
    return {
        "name": name,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": everything,
        "sort": 1,
    }


def dashboard() -> dict[str, Any]:
    return {
        "uid": "opwire",
        "title": "opwire",
        "schemaVersion": 39,
        "editable": False,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {
            "list": [
                variable("instance", "label_values(opwire_info, instance)"),
                variable("operator", "label_values(opwire_operator_seconds_count, operator)"),
            ]
        },
        "panels": panels(),
    }


if __name__ == "__main__":
    board = dashboard()
    # One panel per line, for readable diffs.
    lines = ",\n".join(json.dumps(each) for each in board.pop("panels"))
    sys.stdout.write(f'{json.dumps(board)[:-1]}, "panels": [\n{lines}\n]}}\n')
