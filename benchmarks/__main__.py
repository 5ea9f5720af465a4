"""Runs a benchmark: ``python -m benchmarks NAME [OPTIONS]``; ``python -m benchmarks NAME --help`` lists its options."""

from __future__ import annotations

import sys
from importlib import import_module

OPERATORS = ("kernels", "elementwise", "families", "products")
OTHERS = ("accuracy", "cluster", "diff", "networks", "rates", "scaling", "serving", "soak")


def main() -> int:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in OPERATORS:
        from .operators import main as measure

        measure(name, sys.argv[2:])
        return 0
    if name not in OTHERS:
        print(__doc__, f"Names: {', '.join((*OPERATORS, *OTHERS))}", sep="\n", file=sys.stderr)
        return 2
    return int(import_module(f".{name}", __package__).main(sys.argv[2:]) or 0)


if __name__ == "__main__":
    sys.exit(main())
