"""Runs a DxDispatch model without a server: the sums and maxima of ``reduce.json``.

Usage: python examples/dxdispatch_reduce.py
On the command line: opwire run examples/reduce.json
"""

import sys
from pathlib import Path

from opwire import ContractViolation, FeatureLevel
from opwire.dxdispatch import parse_model
from opwire_service.devices import load
from opwire_service.offline.run import Launch, Show, execute, prepare

FOLDER = Path(__file__).parent
EXPECTED = {"total": [19.0, 23.5, 32.0, 12.5], "wettest": [3.0, 2.5, 14.5, 21.5, 6.0, 1.5, 1.0]}


def main() -> int:
    model = parse_model((FOLDER / "reduce.json").read_bytes())
    try:
        steps = prepare(model, FeatureLevel.V2_1, folder=FOLDER, output_folder=FOLDER)
    except ContractViolation as refused:  # lists every violation with its location in the file
        print(refused, file=sys.stderr)
        return 1
    shown = {}
    for step, microseconds in execute(steps, load("reference")):
        if isinstance(step, Launch):
            print(f"{step.dispatchable}: {step.plan.operator.name} in {microseconds} us")
        if isinstance(step, Show):
            shown[step.resource] = step.values.tolist()
            print(f"{step.resource}: {shown[step.resource]}")
    if shown != EXPECTED:
        print(f"wrong result, expected: {EXPECTED}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
