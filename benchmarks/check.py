"""Measures the cost of checking an operator desc, optionally against another version of the package.

python benchmarks/check.py --before ../opwire-before/client

The versions take turns, each in a fresh process; the best time of each counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

BATCHES = 40
CHECKS = 100
"""Checks per batch; the fastest batch counts."""

HERE = Path(__file__).resolve().parent.parent / "client"


def tensor(*sizes: int, data_type: str = "FLOAT32") -> dict[str, Any]:
    """Returns a packed tensor desc."""
    return {"DataType": data_type, "Sizes": list(sizes)}


def _convolution(**changes: Any) -> dict[str, Any]:
    return {
        "InputTensor": tensor(1, 3, 64, 64),
        "FilterTensor": tensor(8, 3, 3, 3),
        "BiasTensor": tensor(1, 8, 1, 1),
        "OutputTensor": tensor(1, 8, 62, 62),
        "Mode": "CROSS_CORRELATION",
        "Direction": "FORWARD",
        "DimensionCount": 2,
        "Strides": [1, 1],
        "Dilations": [1, 1],
        "StartPadding": [0, 0],
        "EndPadding": [0, 0],
        "OutputPadding": [0, 0],
        "GroupCount": 1,
        **changes,
    }


_LSTM = {
    "InputTensor": tensor(1, 5, 2, 3),
    "WeightTensor": tensor(1, 1, 16, 3),
    "RecurrenceTensor": tensor(1, 1, 16, 4),
    "BiasTensor": tensor(1, 1, 1, 32),
    "OutputSequenceTensor": tensor(5, 1, 2, 4),
    "ActivationDescCount": 3,
    "ActivationDescs": [
        {"Type": "ACTIVATION_SIGMOID"},
        {"Type": "ACTIVATION_TANH"},
        {"Type": "ACTIVATION_TANH"},
    ],
    "Direction": "FORWARD",
    "ClipThreshold": 1.0,
    "UseClipThreshold": False,
    "CoupleInputForget": False,
}

_ATTENTION = {
    "QueryTensor": tensor(2, 3, 8),
    "KeyTensor": tensor(2, 5, 8),
    "ValueTensor": tensor(2, 5, 8),
    "OutputTensor": tensor(2, 3, 8),
    "Scale": 0.5,
    "MaskFilterValue": -1000.0,
    "HeadCount": 2,
    "MaskType": "NONE",
}

_POOLING = {
    "InputTensor": tensor(1, 3, 64, 64),
    "OutputTensor": tensor(1, 3, 32, 32),
    "DimensionCount": 2,
    "Strides": [2, 2],
    "WindowSize": [2, 2],
    "StartPadding": [0, 0],
    "EndPadding": [0, 0],
    "Dilations": [1, 1],
}

_SUM = {"Function": "SUM", "InputTensor": tensor(1, 3, 64, 64), "AxisCount": 1, "Axes": [3]}
_ARGMAX = {"InputTensor": tensor(1, 3, 64, 64), "AxisCount": 1, "Axes": [3], "AxisDirection": "INCREASING"}
_ADD = {name: tensor(1, 3, 64, 64) for name in ("ATensor", "BTensor", "OutputTensor")}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "REDUCE": ("REDUCE", _SUM),
    "REDUCE with output": ("REDUCE", {**_SUM, "OutputTensor": tensor(1, 3, 64, 1)}),
    "ARGMAX": ("ARGMAX", _ARGMAX),
    "ARGMAX with output": ("ARGMAX", {**_ARGMAX, "OutputTensor": tensor(1, 3, 64, 1, data_type="UINT32")}),
    "MAX_POOLING2": ("MAX_POOLING2", _POOLING),
    "ELEMENT_WISE_ADD": ("ELEMENT_WISE_ADD", _ADD),
    "CONVOLUTION": ("CONVOLUTION", _convolution()),
    "CONVOLUTION with ELU": (
        "CONVOLUTION",
        _convolution(FusedActivation={"Type": "ACTIVATION_ELU", "Desc": {"Alpha": 0.5}}),
    ),
    "LSTM": ("LSTM", _LSTM),
    "MULTIHEAD_ATTENTION": ("MULTIHEAD_ATTENTION", _ATTENTION),
}
"""Operators and descs, by name."""


def measured() -> dict[str, float]:
    """Returns the seconds per check for each case that this version of the package supports."""
    from opwire.check import check
    from opwire.errors import ContractViolation

    found: dict[str, float] = {}
    for name, (operator, desc) in CASES.items():
        given = {"type": operator, "desc": desc}
        try:
            check(given)
        except ContractViolation as refused:
            if "not_executable" not in str(refused.violations[0].code):
                raise
            continue
        found[name] = min(_batch(check, given) for _ in range(BATCHES))
    return found


def _batch(check: Any, given: dict[str, Any]) -> float:
    began = time.process_time()
    for _ in range(CHECKS):
        check(given)
    return (time.process_time() - began) / CHECKS


def _turn(package: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure"]
    environment = {**os.environ, "PYTHONPATH": str(package)}
    answer = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(answer.stdout)
    return found


def main(
    before: Annotated[Path | None, typer.Option(help="Folder with another version of the opwire package.")] = None,
    turns: Annotated[int, typer.Option(min=1)] = 5,
    measure: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Measures the cost of checking one desc of each of several operators."""
    if measure:
        typer.echo(json.dumps(measured()))
        return
    versions = [HERE] if before is None else [HERE, before.resolve()]
    least: dict[Path, dict[str, float]] = {version: {} for version in versions}
    for _ in range(turns):
        for version in versions:
            for name, seconds in _turn(version).items():
                least[version][name] = min(seconds, least[version].get(name, seconds))
    for name, seconds in least[HERE].items():
        line = f"{name:>22}: {1e6 * seconds:6.1f} us"
        earlier = least[versions[-1]].get(name) if before is not None else None
        typer.echo(
            line if earlier is None else f"{line}, {seconds / earlier:.2f} times the {1e6 * earlier:.1f} us before"
        )


if __name__ == "__main__":
    typer.run(main)
