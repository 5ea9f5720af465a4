"""Says whether DirectML accepts the operators in files: run as ``scripts/directml LEVEL [FILE ...]``.

A file is an operator, a graph, a request or a DxDispatch model, or has one of them a line; without files, standard
input is read. Each operator in them is answered by a line: accepted, refused with an HRESULT, or crashed. Outputs that
are omitted are derived by opwire first.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from opwire.dxdispatch import OperatorDispatchable, read_operator, read_text
from opwire.errors import RequestError
from opwire.schema import find

from .asking import DirectML, written_out
from .libraries import VERSIONS, Unavailable

Operator = tuple[str, dict[str, Any]]


def operators_in(value: object) -> Iterator[Operator]:
    """Yields the operators of a document, in order: objects whose type is that of an operator."""
    if isinstance(value, list):
        for each in value:
            yield from operators_in(each)
    elif isinstance(value, Mapping):
        kind = find(value.get("type") or value.get("Type"))
        if kind is None:
            for each in value.values():
                yield from operators_in(each)
        else:
            dispatchable = read_operator(value)
            assert isinstance(dispatchable, OperatorDispatchable)
            given: Any = dispatchable.operator
            yield kind.name, given["desc"]


def documents(text: str) -> Iterator[object]:
    """Yields the JSON values of a text: one of each line if the first line is a whole value, otherwise the only one."""
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        json.loads(lines[0])
    except (IndexError, ValueError):
        yield read_text(text)
    else:
        yield from map(json.loads, lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/directml", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("level", choices=VERSIONS, help="the feature level of DirectML's library")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    options = parser.parse_args()
    try:
        with DirectML(options.level) as directml:
            for text in (
                (path.read_text("utf-8-sig") for path in options.files) if options.files else [sys.stdin.read()]
            ):
                _answer(directml, text)
    except (Unavailable, RequestError, OSError, ValueError) as error:
        sys.exit(f"{parser.prog}: {error}")


def _answer(directml: DirectML, text: str) -> None:
    for document in documents(text):
        for type_, desc in operators_in(document):
            sys.stdout.write(f"{directml.ask(type_, written_out(type_, desc))}\n")


if __name__ == "__main__":
    main()
