"""Measures a cluster: the cost of calls, how soon nodes join, how throughput scales, and that nothing leaks.

All nodes are simulated on this machine with ``ray.cluster_utils.Cluster``. For the scaling of throughput, their device
only waits and uses no CPU. The results show the overhead of dispatching to nodes, not of a network.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from .clustering.costs import measure_calls, measure_leaks, measure_stopping
from .clustering.gpus import measure_gpus
from .clustering.joins import measure_joins
from .clustering.scaling import measure_kernels, measure_scaling
from .clustering.simulated import simulated

PARTS = ("calls", "stopping", "leaks", "joins", "scaling", "kernels", "gpus")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the selected measurements. Returns 1 if a bound was missed."""
    parser = argparse.ArgumentParser("python -m benchmarks cluster", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}; default: all")
    parser.add_argument("--calls", type=int, default=10_000, help="number of calls of the leak check")
    parser.add_argument("--json", type=Path, help="JSON file for the results of the GPUs")
    parser.add_argument("--quick", action="store_true", help="only the cost of calls")
    given = parser.parse_args(arguments)
    asked = ["calls"] if given.quick else given.parts or list(PARTS)
    if not set(asked) <= set(PARTS):
        parser.error(f"unknown part; allowed: {', '.join(PARTS)}")
    kept = [_measured(part, given.calls, given.json) for part in asked]
    return 0 if all(kept) else 1


def _measured(part: str, calls: int, results: Path | None) -> bool:
    print(f"-- {part}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    if part == "gpus":
        return measure_gpus(results)
    if part == "joins":
        return measure_joins()
    with simulated({"kernels": 2}.get(part, 1)) as cluster:
        if part == "calls":
            return measure_calls(cluster)
        if part == "leaks":
            return measure_leaks(cluster, calls)
        if part == "scaling":
            return measure_scaling(cluster)
        if part == "kernels":
            return measure_kernels(cluster)
        measure_stopping(cluster)
        return True
