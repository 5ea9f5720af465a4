"""Compares opwire with DirectML's libraries on drawn and changed descs.

Run as ``python -m tests.directml.comparing OPERATOR [...]`` to see the kinds of disagreement of some operators, each
with the simplest desc found.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from random import Random

from hypothesis import HealthCheck, Phase, given, seed, settings

from opwire.operators import OPERATORS
from opwire.schema import CATALOG
from tests.strategies import Drawn, descs

from .asking import DirectML, written_out
from .libraries import VERSIONS
from .mutations import Desc, mutated
from .recorded import Disagreement, Recorded, compare
from .reducing import reduced

CHANGED_OF_EACH = 9
"""Changed copies of each drawn desc."""


class Libraries:
    """DirectML's libraries of all levels.

    Raises:
        Unavailable: they cannot be asked on this machine.
    """

    def __init__(self, levels: Sequence[str] = tuple(VERSIONS)) -> None:
        self._open = ExitStack()
        self._asked = [self._open.enter_context(DirectML(level)) for level in levels]

    def ask(self, type_: str, desc: Desc) -> Recorded:
        """Returns a desc with the answers of all libraries that did not crash."""
        answers = {each.level: each.ask(type_, desc) for each in self._asked}
        known = {level: answer.accepted for level, answer in answers.items() if answer.result is not None}
        return Recorded(type_, desc, known)

    def close(self) -> None:
        """Ends their processes."""
        self._open.close()


def drawn(type_: str, count: int, start: int = 0) -> list[Desc]:
    """Returns valid descs of an operator with every output written out; the same ones for the same ``start``."""
    found: list[Desc] = []

    @seed(start)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(descs(OPERATORS[type_]))
    def collect(each: Drawn) -> None:
        found.append(written_out(type_, each.desc))

    collect()
    return found


def changed(type_: str, count: int, start: int = 0) -> Iterator[Desc]:
    """Yields about ``count`` descs of an operator: drawn ones, each with changed copies."""
    random = Random(f"{type_} {start}")
    for desc in drawn(type_, max(1, count // (1 + CHANGED_OF_EACH)), start):
        yield desc
        for _ in range(CHANGED_OF_EACH):
            yield mutated(random, type_, desc)


@dataclass
class Kind:
    """Disagreements that look alike: at the same levels, with the same violation of opwire."""

    first: Disagreement
    count: int = field(default=0)


def kind_of(found: Disagreement) -> tuple[object, ...]:
    """Returns what disagreements of one kind have in common."""
    levels = [bool(found.accepted), bool(found.refused), *found.recorded.answers.items()]
    violations = [each for level in found.accepted for each in found.read.violations_at(level)]
    return (*levels, *((each.code, *each.pointer.split("/")[2:3]) for each in violations[:1]))


def kinds(libraries: Libraries, type_: str, count: int, start: int = 0) -> list[Kind]:
    """Returns the kinds of disagreement among some descs of an operator, the most frequent first, each reduced."""
    found: dict[tuple[object, ...], Kind] = {}
    for desc in changed(type_, count, start):
        each = compare(libraries.ask(type_, desc))
        if each is not None:
            found.setdefault(kind_of(each), Kind(each)).count += 1
    for kind, alike in found.items():
        alike.first = _reduced(libraries, kind, alike.first)
    return sorted(found.values(), key=lambda each: -each.count)


def _reduced(libraries: Libraries, kind: tuple[object, ...], first: Disagreement) -> Disagreement:
    last = first

    def is_alike(desc: Desc) -> bool:
        nonlocal last
        found = compare(libraries.ask(first.recorded.type, desc))
        if found is None or kind_of(found) != kind:
            return False
        last = found
        return True

    reduced(first.recorded.type, dict(first.recorded.desc), is_alike)
    return last


@cache
def operators() -> tuple[str, ...]:
    """Returns the operators that the newest library has."""
    newest = max(VERSIONS)
    return tuple(name for name, kind in CATALOG.items() if kind.introduced.short <= newest)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="+", metavar="OPERATOR")
    parser.add_argument("--count", type=int, default=1000, help="descs of each operator")
    parser.add_argument("--start", type=int, default=0, help="for other descs")
    options = parser.parse_args()
    libraries = Libraries()
    for type_ in options.operators:
        for kind in kinds(libraries, type_, options.count, options.start):
            sys.stdout.write(f"{kind.count} x {kind.first}\n")
    libraries.close()


if __name__ == "__main__":
    main()
