"""Regenerates the OpenAPI document, the typed client methods, and the tables and pictures of the docs.

With ``--check``, nothing is written; the exit code tells whether anything is out of date.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from opwire_service.process.application import create_app
from opwire_service.settings import Settings

from . import (
    client_methods,
    directml_figures,
    figures,
    knowledge,
    onnx_nodes,
    operator_pages,
    rate_figures,
    tables,
    webnn,
)
from .drawing.palette import with_colors
from .drawing.picture import CAPTIONS, FOLDER, captions, pictures

ROOT = Path(__file__).resolve().parent.parent

_REGION = re.compile(r"(?P<begin><!-- (?P<name>[a-z0-9-]+) -->\n).*?(?P<end><!-- /(?P=name) -->)", re.DOTALL)
"""A generated region of a page, between ``<!-- name -->`` and ``<!-- /name -->``."""

REGIONS: dict[str, Callable[[], str]] = {
    **tables.REGIONS,
    **figures.REGIONS,
    **directml_figures.REGIONS,
    **rate_figures.REGIONS,
    **knowledge.REGIONS,
    **onnx_nodes.REGIONS,
    **webnn.REGIONS,
}


def openapi() -> str:
    """Returns the OpenAPI document as text."""
    return json.dumps(create_app(Settings()).framework.openapi(), indent=1) + "\n"


def regenerated(page: str) -> str:
    """Returns a page with its regions regenerated.

    Raises:
        KeyError: if a region has no generator.
    """
    return _REGION.sub(lambda found: f"{found['begin']}{REGIONS[found['name']]()}\n{found['end']}", page)


def documents() -> Iterator[tuple[Path, str]]:
    """Yields each generated file with its new content."""
    yield ROOT / "openapi/openapi.json", openapi()
    yield ROOT / "client/opwire/client/typed.pyi", client_methods.client_methods()
    drawn = pictures()
    for name, picture in drawn.items():
        yield FOLDER / f"{name.lower()}.svg", picture.svg
    yield CAPTIONS, captions(drawn)
    for path in sorted((ROOT / "docs/images").glob("*.svg")):
        yield path, with_colors(path.read_text(encoding="utf-8"))
    for family, page in operator_pages.pages(drawn):
        yield ROOT / f"docs/operators/{family}.md", page
    used: set[str] = set()
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        page = path.read_text(encoding="utf-8")
        used.update(found["name"] for found in _REGION.finditer(page))
        yield path, regenerated(page)
    if unused := REGIONS.keys() - used:
        raise SystemExit(f"no page uses the regions {', '.join(sorted(unused))}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="report outdated files without writing them")
    check = parser.parse_args().check
    stale = 0
    for path, new in documents():
        name = str(path.relative_to(ROOT))
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if old == new:
            continue
        stale += 1
        if check:
            sys.stdout.writelines(
                list(difflib.unified_diff(old.splitlines(True), new.splitlines(True), name, f"{name} (regenerated)"))[
                    :60
                ]
            )
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(new, encoding="utf-8")
            sys.stdout.write(f"regenerated {name}\n")
    if check and stale:
        sys.stdout.write("run scripts/contract to update\n")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
