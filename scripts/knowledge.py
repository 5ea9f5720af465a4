"""Generates what the documentation says about opwire and DirectML: how often they agree, and where the pages differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from opwire.describe import RowInfo, describe, support
from opwire.level import FeatureLevel
from opwire.schema import CATALOG, Ground, decisions_of, schema_of
from opwire.violation import Basis
from tests.directml.recorded import compare, recorded

from .markdown import table

_PREFIX = "DML_FEATURE_LEVEL_"


def agreement() -> str:
    """Returns how many recorded descs opwire and DirectML judge alike, by feature level."""
    asked: Counter[FeatureLevel] = Counter()
    differ: Counter[FeatureLevel] = Counter()
    for each in recorded():
        asked.update(level for level, _ in each.expected())
        found = compare(each)
        if found is not None:
            differ.update((*found.accepted, *found.refused))
    rows = [
        [level.short, f"{asked[level]:,}", f"{differ[level]}", f"{100 - 100 * differ[level] / asked[level]:.2f} %"]
        for level in sorted(asked)
        if level >= FeatureLevel.V5_0
    ]
    return table(["level", "descs", "judged differently", "agreement"], rows)


def contract_differences() -> str:
    """Returns where DirectML accepts what its documentation forbids, or rejects what it allows."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in CATALOG:
        for row in dict.fromkeys(_differences(name)):
            found.setdefault(row, []).append(f"`{name}`")
    return table(["operators", "documentation", "DirectML"], ([", ".join(names), *row] for row, names in found.items()))


def not_computable() -> str:
    """Returns which valid descs opwire does not run: those that break rules of its own."""
    found: dict[str, list[str]] = {}
    for name, kind in CATALOG.items():
        rules = (rule["text"] for rule in describe(kind)["rules"] if rule["basis"] == Basis.OPWIRE)
        for text in dict.fromkeys(rules):
            found.setdefault(text, []).append(f"`{name}`")
    return table(["operators", "run only if"], ([", ".join(names), text] for text, names in found.items()))


def _differences(name: str) -> Iterator[tuple[str, str]]:
    info = describe(CATALOG[name])
    for rule in info["rules"]:
        if rule["basis"] == Basis.PAGE:
            yield rule["text"], "accepts others too"
        elif rule["basis"] == Basis.OBSERVED:
            yield "", f"requires: {rule['text']}"
    for row in support(schema_of(name)):
        yield from _limits(row)
    for field in info["fields"]:
        for activation in field.get("undocumented", ()):
            yield f"{activation} is not among the {field['name']}", "accepts it"
        for activation in field.get("refused", ()):
            yield f"{activation} is among the {field['name']}", "rejects it"


def _limits(row: RowInfo) -> Iterator[tuple[str, str]]:
    level = row["feature_level"].removeprefix(_PREFIX)
    for tensor, limits in row["tensors"].items():
        page = limits["page"]
        if page is None:
            continue
        for what, ours, theirs in (
            ("data types", limits["data_types"], page["data_types"]),
            ("ranks", [str(each) for each in limits["ranks"]], [str(each) for each in page["ranks"]]),
        ):
            more = ", ".join(each for each in ours if each not in theirs)
            less = ", ".join(each for each in theirs if each not in ours)
            said = f"{what} of {tensor} from {level}"
            if more:
                yield said, f"also accepts {more}"
            if less:
                yield said, f"rejects {less}"


def answer_differences() -> str:
    """Returns where DirectML's results are not those that its documentation describes."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in CATALOG:
        for each in decisions_of(name):
            if each.ground is Ground.OBSERVED and each.page:
                found.setdefault((each.page, each.what), []).append(f"`{name}`")
    return table(["operators", "documentation", "DirectML"], ([", ".join(names), *row] for row, names in found.items()))


def departures() -> str:
    """Returns where opwire's results are not DirectML's, and why."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for name in CATALOG:
        for each in decisions_of(name):
            if each.departure is not None:
                row = (each.what, str(each.directml), each.departure.value)
                found.setdefault(row, []).append(f"`{name}`")
    return table(
        ["operators", "opwire", "DirectML", "class"], ([", ".join(names), *row] for row, names in found.items())
    )


REGIONS: dict[str, Callable[[], str]] = {
    "agreement": agreement,
    "contract-differences": contract_differences,
    "not-computable": not_computable,
    "answer-differences": answer_differences,
    "answer-departures": departures,
}
