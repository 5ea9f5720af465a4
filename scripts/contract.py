"""Writes what is made from the declarations: the OpenAPI document and the tables of the README.

With ``--check`` nothing is written; the exit code says whether something would change.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
from itertools import chain
from pathlib import Path

from opwire.describe import LimitsInfo, support
from opwire.operators import OPERATORS
from opwire.schema import CATALOG
from opwire_service.devices.executable import EXECUTABLE
from opwire_service.process.application import create_app
from opwire_service.settings import Settings

ROOT = Path(__file__).resolve().parent.parent


def openapi() -> str:
    """The OpenAPI document as text."""
    return json.dumps(create_app(Settings()).framework.openapi(), indent=1) + "\n"


def operators_table() -> str:
    """The operators and what their tensors may be, by feature level, as a Markdown table."""
    lines = ["| operator | from | InputTensor | outputs | ranks |", "|---|---|---|---|---|"]
    for name, operator in EXECUTABLE.items():
        for row in support(operator.schema):
            when = "" if row["when"] is None else " " + ", ".join(chain.from_iterable(row["when"].values()))
            level = row["feature_level"].removeprefix("DML_FEATURE_LEVEL_")
            source, *outputs = row["tensors"].items()
            types = _types(source[1]["data_types"])
            cells = (f"`{name}`{when}", level, types, _outputs(outputs, types), _span(source[1]["ranks"]))
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _types(names: list[str]) -> str:
    """Data types, those of one kind together: ``FLOAT32/16 INT64/32``."""
    widths: dict[str, list[str]] = {}
    for name in names:
        kind = name.rstrip("0123456789")
        widths.setdefault(kind, []).append(name.removeprefix(kind))
    return " ".join(kind + "/".join(found) for kind, found in widths.items())


def _outputs(outputs: list[tuple[str, LimitsInfo]], source: str) -> str:
    cells = []
    for name, limits in outputs:
        types = _types(limits["data_types"])
        label = "" if name == "OutputTensor" else name.removeprefix("Output").removesuffix("Tensor").lower() + " "
        cells.append(label + ("as input" if types == source else types))
    return ", ".join(cells)


def _span(ranks: list[int]) -> str:
    return str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]} to {ranks[-1]}"


def counts() -> str:
    """How much of DirectML there is."""
    known = len(CATALOG)
    declared, executable = len(OPERATORS), len(EXECUTABLE)
    return f"All {known} operator types of DirectML are known, {declared} are checked, and {executable} can be run."


REGIONS = {"operators": operators_table, "counts": counts}


def readme(text: str) -> str:
    """A README with its generated regions renewed; each stands between ``<!-- name -->`` and ``<!-- /name -->``."""
    for name, make in REGIONS.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if not pattern.search(text):
            raise SystemExit(f"README.md has no region {name}")
        text = pattern.sub(rf"\g<1>{make()}\n\g<2>", text)
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether something would change")
    check = parser.parse_args().check
    stale = 0
    for name, make in {"openapi/openapi.json": lambda _: openapi(), "README.md": readme}.items():
        path = ROOT / name
        old = path.read_text() if path.exists() else ""
        new = make(old)
        if old == new:
            continue
        stale += 1
        if check:
            sys.stdout.writelines(
                list(difflib.unified_diff(old.splitlines(True), new.splitlines(True), name, f"{name} (renewed)"))[:60]
            )
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(new)
            sys.stdout.write(f"renewed {name}\n")
    if check and stale:
        sys.stdout.write("run scripts/contract to renew\n")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
