"""Compares opwire with the recorded answers of DirectML to 20,000 descs of all operators.

``tests/data/recorded.jsonl.xz`` has, after a line with the levels, one ``[type, answers, desc]`` a line, with every
output written out. The answers are one character a level: 1 if ``IDMLDevice::CreateOperator`` accepted the desc, 0 if
it refused it, - if the library crashed.

The library of "5_0+" reports 5_0 and already takes parts of 5_1: what it refuses is refused at 5_0 and below, and what
it accepts is accepted at 5_1.

Run as ``python -m tests.directml.recorded [OPERATOR ...]`` to see the disagreements of some operators, or their number
for all; with ``--shrink``, to remove those that are settled from ``tests/data/disagreements.json``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from opwire.level import FeatureLevel
from opwire.reading import ReadDesc, read_desc
from tests.support.paths import DATA

RECORDED = DATA / "recorded.jsonl.xz"
DISAGREEMENTS = DATA / "disagreements.json"

AHEAD = "5_0+"
"""The library that is ahead of the level it reports."""


@dataclass(frozen=True)
class Recorded:
    """A desc with what DirectML answered: whether it accepted it, by library."""

    type: str
    desc: Mapping[str, Any]
    answers: Mapping[str, bool]

    @property
    def operator(self) -> dict[str, Any]:
        return {"type": self.type, "desc": self.desc}

    @property
    def key(self) -> str:
        """Identifies the desc in the list of disagreements."""
        text = json.dumps(self.operator, sort_keys=True, separators=(",", ":"))
        return hashlib.blake2b(text.encode(), digest_size=5).hexdigest()

    def expected(self) -> Iterator[tuple[FeatureLevel, bool]]:
        """Yields the levels at which the answers decide whether the desc is valid."""
        for name, accepted in self.answers.items():
            if name != AHEAD:
                yield FeatureLevel.parse(name), accepted
            elif accepted:
                yield FeatureLevel.V5_1, True
            else:
                yield from ((level, False) for level in FeatureLevel if level <= FeatureLevel.V5_0)


@dataclass(frozen=True)
class Disagreement:
    """A recorded desc that opwire judges otherwise at some levels."""

    recorded: Recorded
    read: ReadDesc
    accepted: tuple[FeatureLevel, ...]
    refused: tuple[FeatureLevel, ...]

    def __str__(self) -> str:
        lines = [f"{self.recorded.key}  {json.dumps(self.recorded.operator)}"]
        if self.accepted:
            lines.append(f"  DirectML accepts it at {_names(self.accepted)}; opwire:")
            lines += [f"    {text}" for text in self._violations()]
        if self.refused:
            lines.append(f"  DirectML refuses it at {_names(self.refused)}; opwire finds no violation")
        return "\n".join(lines)

    def _violations(self) -> dict[str, None]:
        """Returns opwire's violations at the levels where DirectML accepts the desc, each once."""
        found = (violation for level in self.accepted for violation in self.read.violations_at(level))
        return dict.fromkeys(f"{each.code.value} {each.pointer}: {each.message}" for each in found)


def _names(levels: tuple[FeatureLevel, ...]) -> str:
    """Returns levels as text, those up to 5_0 as one."""
    below = [f"{FeatureLevel.V5_0.short} and below"] if FeatureLevel.V5_0 in levels else []
    return ", ".join(below + [level.short for level in levels if level > FeatureLevel.V5_0])


@cache
def recorded() -> tuple[Recorded, ...]:
    """Returns all recorded descs."""
    lines = lzma.decompress(RECORDED.read_bytes()).splitlines()
    levels = json.loads(lines[0])["levels"]
    return tuple(
        Recorded(type_, desc, dict(_read(levels, answers))) for type_, answers, desc in map(json.loads, lines[1:])
    )


def _read(levels: list[str], answers: str) -> Iterator[tuple[str, bool]]:
    return ((level, answer == "1") for level, answer in zip(levels, answers, strict=True) if answer != "-")


def compare(given: Recorded) -> Disagreement | None:
    """Returns how opwire's judgement of a desc differs from DirectML's answers, or None."""
    read = read_desc(given.operator, "")
    wrong = [(level, accepted) for level, accepted in given.expected() if accepted is bool(read.violations_at(level))]
    if not wrong:
        return None
    accepted = tuple(level for level, accepted in wrong if accepted)
    return Disagreement(given, read, accepted, tuple(level for level, accepted in wrong if not accepted))


def disagreements(operators: Iterable[str] = ()) -> Iterator[Disagreement]:
    """Yields the disagreements, of all operators if none is given."""
    chosen = set(operators)
    for each in recorded():
        if (not chosen or each.type in chosen) and (found := compare(each)) is not None:
            yield found


def listed() -> dict[str, dict[str, list[str]]]:
    """Returns the listed disagreements by their keys.

    ``explained`` has those that stay, by reason; ``open`` those that are to be settled, by operator.
    """
    found: dict[str, dict[str, list[str]]] = json.loads(DISAGREEMENTS.read_text(encoding="utf-8"))
    return found


def shrink() -> int:
    """Removes the settled disagreements from the list. It never adds any. Returns the number of open ones."""
    keys = {each.recorded.key for each in disagreements()}
    lists = listed()
    left = {name: [key for key in given if key in keys] for name, given in lists["open"].items()}
    _write(lists["explained"], {name: given for name, given in left.items() if given})
    return sum(map(len, left.values()))


def _write(explained: Mapping[str, list[str]], still_open: Mapping[str, list[str]]) -> None:
    """Writes the list with one line an entry, so that changes to different operators can be merged."""
    parts = []
    for title, entries in (("explained", explained), ("open", still_open)):
        rows = [f"  {json.dumps(name)}: {json.dumps(sorted(entries[name]))}" for name in sorted(entries)]
        parts.append(f' "{title}": {{\n' + ",\n".join(rows) + "\n }" if rows else f' "{title}": {{}}')
    DISAGREEMENTS.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def _print(line: object) -> None:
    sys.stdout.write(f"{line}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="*", metavar="OPERATOR")
    parser.add_argument("--shrink", action="store_true", help="remove settled disagreements from the list")
    options = parser.parse_args()
    if options.shrink:
        _print(f"{shrink()} open")
    elif options.operators:
        for found in disagreements(options.operators):
            _print(found)
    else:
        for name, count in Counter(each.recorded.type for each in disagreements()).most_common():
            _print(f"{count:5} {name}")


if __name__ == "__main__":
    main()
