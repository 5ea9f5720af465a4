"""Prints where results differ from DirectML's: ``python -m tests.directml.answers OPERATOR [--device cpu|reference]``.

Every case that differs is printed with its attributes, inputs, opwire's result, what DirectML wrote, and the class of
the difference. ``--unexplained`` prints only what no rule explains.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from opwire.schema import CATALOG
from opwire.tensor import Array
from opwire_service.devices import load
from tests.directml import computed
from tests.directml.computed import Computed
from tests.directml.differences import Difference, differences

MACHINES = ("DirectML, card      ", "DirectML, rasterizer")

SHOWN = 8
"""How many elements of a tensor are printed."""


def report(case: Computed, found: Iterable[Difference]) -> Iterator[str]:
    """Yields the lines that describe the differences of a case."""
    yield f"case {case.id}: {json.dumps(_attributes(case))}"
    for name, array in case.arrays.items():
        yield f"  {name} {_typed(array)} = {_values(array)}"
    for each in found:
        yield f"  {each.output} {_typed(each.seen.ours)}: {_classes(each)}"
        at = each.unexplained if each.unexplained.any() else each.different
        yield f"    {'at':20} {[list(map(int, place)) for place in np.argwhere(at)[:SHOWN]]}"
        yield f"    {'opwire':20} {_values(each.seen.ours[at])}"
        for machine in range(len(case.answers)):
            yield f"    {MACHINES[machine]} {_values(case.answer(machine, each.output)[at])}"


def _attributes(case: Computed) -> dict[str, Any]:
    desc = case.operator["desc"]
    return {name: value for name, value in desc.items() if not _is_tensor(value)}


def _is_tensor(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, dict) and "Sizes" in first


def _typed(array: Array) -> str:
    return f"{array.dtype.name}{list(array.shape)}"


def _values(array: Array) -> str:
    shown = ", ".join(str(value) for value in array.reshape(-1)[: 3 * SHOWN].tolist())
    return f"[{shown}{', ...' if array.size > 3 * SHOWN else ''}]"


def _classes(each: Difference) -> str:
    parts = [f"{int(mask.sum())} {name}" for name, mask in each.classes.items() if mask.any()]
    left = int(each.unexplained.sum())
    parts += [f"{left} NOT EXPLAINED"] if left else []
    return f"{int(each.different.sum())} of {each.different.size} differ: {', '.join(parts)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operator", nargs="*", help="operator types, or families")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--case", action="append", help="print only this case")
    parser.add_argument("--unexplained", action="store_true", help="print only what no rule explains")
    given = parser.parse_args()
    device = load(given.device)
    names = [name for name, kind in CATALOG.items() if {name, kind.family} & set(given.operator)]
    total = agree = 0
    for case in (case for name in names for case in computed.by_operator().get(name, ())):
        if given.case and case.id not in given.case:
            continue
        found = list(differences(case, case.run(device)))
        total, agree = total + 1, agree + (not found)
        if given.unexplained:
            found = [each for each in found if each.unexplained.any()]
        if found:
            sys.stdout.write("\n".join(report(case, found)) + "\n")
    sys.stdout.write(f"{agree} of {total} cases agree entirely\n")


if __name__ == "__main__":
    main()
