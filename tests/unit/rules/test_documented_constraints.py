"""The documented constraints, as written there, against random descs: breaking one is refused.

Constraints that match a pattern are read from the documentation itself rather than the rules, so none can be missed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from opwire.check import check, validate
from opwire.operators import OPERATORS
from opwire.support import SupportRow
from tests.directml import documented
from tests.strategies import descs
from tests.support.profiles import request_examples

Desc = dict[str, Any]
DRAWN = settings(request_examples(3), derandomize=True, database=None, phases=[Phase.generate])


def tensors_of(desc: Desc, names: list[str]) -> list[str]:
    """Returns the given ones among some members; arrays of tensors have their own constraints."""
    return [name for name in names if isinstance(desc.get(name), dict)]


def changed(desc: Desc, name: str, **members: Any) -> Desc:
    """Returns a desc with one tensor changed, and packed."""
    return {**desc, name: {"DataType": desc[name]["DataType"], "Sizes": desc[name]["Sizes"], **members}}


def other_types(names: list[str], desc: Desc, row: SupportRow) -> Iterator[Desc]:
    given_tensors = tensors_of(desc, names)
    for name in given_tensors if len(given_tensors) > 1 else ():
        for data_type in row.tensors[name].data_types:
            if data_type.name != desc[name]["DataType"]:
                yield changed(desc, name, DataType=data_type.name)


def other_ranks(names: list[str], desc: Desc, row: SupportRow) -> Iterator[Desc]:
    given_tensors = tensors_of(desc, names)
    for name in given_tensors if len(given_tensors) > 1 else ():
        sizes, (least, greatest) = desc[name]["Sizes"], row.tensors[name].ranks
        yield from (
            changed(desc, name, Sizes=other) for other in ([*sizes, 1], sizes[1:]) if least <= len(other) <= greatest
        )


def other_sizes(names: list[str], desc: Desc, row: SupportRow) -> Iterator[Desc]:
    given_tensors = tensors_of(desc, names)
    for name in given_tensors if len(given_tensors) > 1 else ():
        sizes = desc[name]["Sizes"]
        for i, size in enumerate(sizes):
            yield changed(desc, name, Sizes=[*sizes[:i], size + 1, *sizes[i + 1 :]])


def not_broadcast(names: list[str], desc: Desc, row: SupportRow) -> Iterator[Desc]:
    name, to = names
    for i, size in enumerate(desc[to]["Sizes"] if tensors_of(desc, names) == names else ()):
        sizes = desc[name]["Sizes"]
        if len(sizes) == len(desc[to]["Sizes"]):
            yield changed(desc, name, Sizes=[*sizes[:i], size + 1, *sizes[i + 1 :]])


def axis_beyond(names: list[str], desc: Desc, row: SupportRow) -> Iterator[Desc]:
    attribute, name = names
    for tensor in tensors_of(desc, [name]):
        rank = len(desc[tensor]["Sizes"])
        yield {**desc, attribute: [rank] if isinstance(desc[attribute], list) else rank}


NOTE = r"(?: \[.*\])?"
PATTERNS: dict[str, Callable[[list[str], Desc, SupportRow], Iterator[Desc]]] = {
    rf"type\(\w+\)(?: == type\(\w+\))+{NOTE}": other_types,
    rf"rank\(\w+\)(?: == rank\(\w+\))+{NOTE}": other_ranks,
    rf"\w+\.Sizes(?: == \w+\.Sizes)+{NOTE}": other_sizes,
    rf"\w+\.Sizes\[i\] in {{1, \w+\.Sizes\[i\]}}(?: for every i)?{NOTE}": not_broadcast,
    rf"\w+(?:\[i\])? < rank\(\w+\){NOTE}": axis_beyond,
}


def names_in(constraint: str) -> list[str]:
    return [name for name in re.findall(r"[A-Z]\w+", constraint.partition(" [")[0]) if name != "Sizes"]


def readable(operator: str) -> Iterator[tuple[str, Callable[[list[str], Desc, SupportRow], Iterator[Desc]]]]:
    """Yields an operator's constraints that match a pattern, each with a function that breaks it."""
    for constraint in documented.OPERATORS[operator]["constraints"]:
        for pattern, broken in PATTERNS.items():
            if re.fullmatch(pattern, constraint):
                yield constraint, broken


READABLE = [name for name in OPERATORS if name in documented.OPERATORS and any(readable(name))]


def test_most_operators_have_constraints_that_match_a_pattern():
    assert len(READABLE) > 0.8 * len(OPERATORS)


@pytest.mark.parametrize("name", READABLE)
def test_breaking_a_constraint_is_refused(name: str):
    @DRAWN
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        drawn = data.draw(descs(OPERATORS[name]))
        outputs = check(drawn.request, drawn.level).outputs
        whole = {**drawn.desc, **{output: desc.to_json() for output, desc in outputs.items() if "[" not in output}}
        for constraint, broken in readable(name):
            for desc in broken(names_in(constraint), whole, drawn.row):
                found = validate({"type": name, "desc": desc}, drawn.level, strict=True)
                assert not found.valid, (constraint, desc)

    holds()
