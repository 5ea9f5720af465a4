"""Measures the accuracy of DirectML, from results that it wrote.

Run it from the root of the repository: ``python -m benchmarks.accuracy_directml RECORDING``. The recording is gzipped
JSON, a case a line: the ``operator``, and the bytes of its ``inputs`` and of the ``outputs`` in base64. Functions of
the accuracy benchmark are measured against mpmath, as there, and the other libraries are given the same arguments. All
other operators are measured against opwire's results, in units of the nearest float.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from opwire.check import Plan, check
from opwire.tensor import Array
from opwire_service.devices.cpu import CpuDevice

from .accuracy import libraries, measured, real, versions
from .accuracy_functions import FUNCTIONS, Function

LEVEL = "6_2"
"""The feature level of the library that was run."""

FEWEST = 1000
"""Arguments in a function's domain that are enough for a row."""

Errors = npt.NDArray[np.float64]


class Case(NamedTuple):
    """An operator with its inputs and the output that DirectML wrote."""

    plan: Plan
    inputs: dict[str, Array]
    output: str
    written: Array

    @property
    def type_name(self) -> str:
        """The data type of the output."""
        return self.plan.outputs[self.output].data_type.name


def read(path: Path) -> Iterator[Case]:
    """Yields the cases of a recording that have floats as output."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            plan = check(case["operator"], LEVEL)
            name = next(iter(plan.outputs))
            if plan.outputs[name].data_type.dtype.kind == "f":
                inputs = {key: desc.view(_bytes(case["inputs"][key])) for key, desc in plan.inputs.items()}
                yield Case(plan, inputs, name, plan.outputs[name].view(_bytes(case["outputs"][name])))


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def function_of(case: Case) -> Function | None:
    """Returns the function of the accuracy benchmark that a case computes, if there is one."""
    found = next((each for each in FUNCTIONS if each.name == case.plan.operator.name), None)
    given = {name: getattr(case.plan.attributes, name) for name in (found.attributes if found else ())}
    return found if found is not None and given == dict(found.attributes) else None


def inside_of(function: Function, case: Case) -> npt.NDArray[np.intp]:
    """Returns the indices of the arguments in a function's domain."""
    return np.flatnonzero(function.inside(*(array.reshape(-1) for array in case.inputs.values())))


def function_row(function: Function, case: Case, inside: npt.NDArray[np.intp], device: CpuDevice) -> dict[str, Any]:
    """Returns the errors of all libraries on the arguments that DirectML was given."""
    arguments = [np.ascontiguousarray(array.reshape(-1)[inside]) for array in case.inputs.values()]
    high, low = real(function, arguments)
    results = {name: compute(function, arguments) for name, compute in libraries(device).items()}
    results["directml"] = case.written.reshape(-1)[inside]
    found = {
        name: measured(result, high, low, case.type_name) for name, result in results.items() if result is not None
    }
    return {"function": function.name, "type": case.type_name, "libraries": found}


def errors_of(case: Case, device: CpuDevice) -> Errors:
    """Returns the distances of DirectML's results from opwire's, in ULPs, where opwire's are numbers."""
    right = np.empty_like(case.written)
    device.run(case.plan, case.inputs, {case.output: right}, lambda: False)
    finite = np.isfinite(right)
    distances = np.abs(case.written[finite].astype(np.float64) - right[finite].astype(np.float64))
    errors = distances / np.spacing(np.abs(right[finite])).astype(np.float64)
    errors[~np.isfinite(case.written[finite])] = np.inf
    return np.asarray(errors)


def operator_rows(errors: dict[tuple[str, str], list[Errors]]) -> Iterator[dict[str, Any]]:
    """Yields the largest error of each operator and type, and the share of results that are opwire's."""
    for (name, type_name), found in errors.items():
        each = np.concatenate(found)
        largest = float(each.max())
        yield {
            "operator": name,
            "type": type_name,
            "largest": None if np.isinf(largest) else round(largest, 3),
            "correct": float(np.mean(each == 0)),
            "count": each.size,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", type=Path)
    parser.add_argument("--output", type=Path, help="JSON file for the results")
    given = parser.parse_args()
    device = CpuDevice()
    rows: list[dict[str, Any]] = []
    errors: dict[tuple[str, str], list[Errors]] = {}
    with np.errstate(all="ignore"):
        for case in read(given.recording):
            function = function_of(case)
            if function is not None:
                inside = inside_of(function, case)
                rows += [function_row(function, case, inside, device)] if inside.size >= FEWEST else []
                continue
            name = " ".join([case.plan.operator.name, *_reduction(case)])
            errors.setdefault((name, case.type_name), []).append(errors_of(case, device))
    device.close()
    result = {"versions": versions(), "rows": rows, "operators": list(operator_rows(errors))}
    text = json.dumps(result, indent=1) + "\n"
    if given.output is None:
        print(text)
    else:
        given.output.write_text(text, encoding="utf-8")


def _reduction(case: Case) -> list[str]:
    found = getattr(case.plan.attributes, "Function", None)
    return [] if found is None else [found.name]


if __name__ == "__main__":
    main()
