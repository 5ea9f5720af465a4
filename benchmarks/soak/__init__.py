"""A server under faults and abuse, or under more load than it can carry: whether it keeps its promises.

``faults`` verifies calls with retries, while other clients abuse the server and workers are killed. ``overload`` sends
half and twice what the server can carry: it refuses what it cannot, and nothing else fails.
"""

from __future__ import annotations

import argparse

from . import faults, overload

PARTS = {"faults": faults.run, "overload": overload.run}


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--seconds", type=float, default=60, help="duration of the faults, or of each load")
    parser.add_argument("--workers", type=int, default=1, help="faults: processes; if several, some are killed")
    parser.add_argument("--load", choices=overload.LOADS, default="work", help="overload: much work, or many bytes")


def main(given: argparse.Namespace) -> int:
    """Runs one of the soaks."""
    if given.quick:
        given.seconds = 4
    return PARTS[given.part](given)
