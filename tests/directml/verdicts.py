"""Judges DirectML as ``opwire diff`` judges a backend: each recorded result against the exact one.

Run as ``python -m tests.directml.verdicts``; with ``--output``, to store the numbers that the documentation shows. The
results are those of the card. What is wrong by the inputs alone is counted by the reason that is listed for it: one
of the classes of ``rules``, or that the machines do not agree.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import opwire
from benchmarks.report import write
from opwire.difference.bounds import Errors, Limit, limits
from opwire.difference.chain import Chain, single
from opwire.difference.error_table import rule_of
from opwire.difference.evidence import Evidence
from opwire.difference.results import Verdict
from opwire.difference.ulps import ulp
from opwire.difference.verdicts import verdict_of
from opwire.errors import OpwireError
from opwire.tensor import Array
from opwire_service.devices.cpu import CpuDevice
from tests.directml.computed import Computed, cases
from tests.directml.differences import differences

UNLISTED = "small errors"
"""Errors that are larger than floats explain, and smaller than those that are listed."""


def case_verdict(case: Computed, runner: opwire.LocalClient, device: CpuDevice) -> tuple[Verdict, str]:
    """Returns the worst verdict of a case's outputs, with the class of precision or the reason that is listed."""
    outputs = case.run(device)
    found = [_judged(case, name, ours, runner) for name, ours in outputs.items()]
    verdict, detail = max(found, key=lambda each: each[0].severity)
    if verdict is Verdict.WRONG:
        listed = [each for difference in differences(case, outputs) for each in difference.classes.items()]
        detail = next((str(kind) for kind, mask in listed if mask.any()), UNLISTED)
    return verdict, detail


def _judged(case: Computed, name: str, ours: Array, runner: opwire.LocalClient) -> tuple[Verdict, str]:
    actual, exact = (np.ascontiguousarray(each).reshape(-1) for each in (case.answer(0, name), ours))
    largest = ulp(actual, exact).max(initial=0)
    if largest <= 1 and (exact.dtype.kind == "f" or largest == 0):
        return (Verdict.FAITHFUL if largest else Verdict.EXACT), ""
    chain, limit = _limit(case, name, exact, runner)
    key = None if chain is None else chain.results[name]
    evidence = Evidence(actual, exact, ours.shape, limit, chain, key, lambda: iter(()), is_alone=False)
    return verdict_of(evidence)


def _limit(case: Computed, name: str, exact: Array, runner: opwire.LocalClient) -> tuple[Chain | None, Limit]:
    given = {
        tensor: np.frombuffer(case.inputs[tensor], desc.data_type.dtype)[: desc.extent]
        for tensor, desc in case.plan.inputs.items()
    }
    try:
        chain = single(case.operator, given, runner)
        chain.buffers[chain.results[name]] = exact
        chain.run()
        return chain, limits(chain, rule_of)[chain.results[name]]
    except (OpwireError, KeyError):  # it cannot be varied, or is spelled unusually
        zeros = np.zeros(exact.size)
        return None, lambda part: Errors(zeros[part], zeros[part])


def rows(names: list[str]) -> Iterator[dict[str, Any]]:
    """Yields the verdicts of each operator."""
    device = CpuDevice()
    by_operator: dict[str, list[Computed]] = {}
    for case in cases():
        if "-" not in case.id and (not names or case.name in names):
            by_operator.setdefault(case.name, []).append(case)
    with opwire.local() as runner, np.errstate(all="ignore"):
        for name, found in by_operator.items():
            verdicts = [case_verdict(case, runner, device) for case in found]
            counts = Counter(verdict.value for verdict, _ in verdicts)
            yield {
                "name": name,
                "verdicts": {each.value: counts[each.value] for each in Verdict if counts[each.value]},
                "details": dict(Counter(detail.partition(":")[0] for _, detail in verdicts if detail).most_common()),
            }
    device.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--output", type=Path, help="JSON file for the verdicts")
    given = parser.parse_args()
    found = []
    for row in rows(given.operators):
        sys.stdout.write(f"{row['name']} {row['verdicts']} {row['details']}\n")
        sys.stdout.flush()
        found.append(row)
    if given.output is not None:
        write(given.output, "directml", {}, found)


if __name__ == "__main__":
    main()
