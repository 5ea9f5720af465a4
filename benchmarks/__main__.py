"""Runs a benchmark: ``python -m benchmarks NAME [OPTIONS]``; ``python -m benchmarks NAME --help`` lists its options."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

from .cells import CELLS

OTHERS = ("accuracy", "cluster", "diff", "networks", "rates", "scaling", "serving", "soak")
DRAWN = ("kernels", "families", "products", "accuracy", "serving")


def main() -> int:
    """Runs the benchmark of a module, which has its ``options`` and a ``main`` that takes what is given for them."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in (*CELLS, *OTHERS):
        print(__doc__, f"Names: {', '.join((*CELLS, *OTHERS))}", sep="\n", file=sys.stderr)
        return 2
    module = import_module(f".{'operators' if name in CELLS else name}", __package__)
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(f"python -m benchmarks {name}", description=module.__doc__, formatter_class=form)
    parser.set_defaults(benchmark=name)
    if name != "soak":
        parser.add_argument("--json", type=Path, help="JSON file for the results")
    parser.add_argument("--quick", action="store_true", help="a first answer in little time")
    if name in DRAWN:
        parser.add_argument("--picture", type=Path, help="file for a plot of all results in the JSON file")
    module.options(parser)
    given = parser.parse_args(sys.argv[2:])
    status = int(module.main(given) or 0)
    if name in DRAWN and given.json and given.picture:
        from .pictures import PICTURES

        PICTURES[name](given.json, given.picture)
    return status


if __name__ == "__main__":
    sys.exit(main())
