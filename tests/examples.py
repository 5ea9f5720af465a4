"""The worked examples of all operators that can be run, as rows of tests; and a few that have all kinds of tensors.

A test that runs each example in each form grows with operators, examples and forms at once. So all examples go in one
form, many at a time, and only ``VARIED`` in every form; ``scripts/test-all`` runs all in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from opwire.operator import Example, Operator
from opwire.schema import CATALOG
from opwire.tensor_names import element
from opwire_service.kernels.executable import EXECUTABLE


class Row(NamedTuple):
    """An example of an operator."""

    operator: Operator[Any]
    example: Example

    def __str__(self) -> str:
        return f"{self.operator.name}-{self.example.name}"

    @property
    def request(self) -> dict[str, Any]:
        """The operator as requests have it."""
        return {"type": self.operator.name, "desc": dict(self.example.desc)}


def by_tensor(operator: Operator[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors of an example by the names that plans have for them: those of an array one by one."""
    arrays = {member.name for member in operator.members.tensors if member.is_array}
    found: dict[str, Any] = {}
    for name, values in given.items():
        found |= {element(name, i): each for i, each in enumerate(values)} if name in arrays else {name: values}
    return found


ROWS = [Row(operator, example) for operator in EXECUTABLE.values() for example in operator.examples]


def _features(row: Row) -> Iterator[object]:
    """What may make a difference to a form: the family, and what tensors there are."""
    yield CATALOG[row.operator.name].family
    yield len(row.example.inputs), len(row.example.outputs)
    for member in row.operator.members.tensors:
        desc = row.example.desc.get(member.name)
        yield member.kind, member.role, desc is None
        for each in desc if isinstance(desc, list) else [desc or {}]:
            yield member.role.is_output, each.get("DataType")
            yield member.role.is_output, "Strides" in each


def _varied() -> Iterator[Row]:
    seen: set[object] = set()
    for row in ROWS:
        features = set(_features(row))
        if not features <= seen:
            seen |= features
            yield row


VARIED = frozenset(map(str, _varied()))
"""The names of the rows of which each has a kind of tensor that none before it has."""

EXAMPLES = [pytest.param(*row, id=str(row)) for row in ROWS]
"""All, for tests that run each by itself."""

IN_EVERY_FORM = [
    pytest.param(*row, id=str(row), marks=[] if str(row) in VARIED else [pytest.mark.thorough]) for row in ROWS
]
"""All, the varied ones in each run of the tests."""

EXAMPLES_IN_A_BATCH = 128


def in_batches(rows: Iterable[Row] = ROWS) -> Iterator[list[Row]]:
    """Rows, as many at a time as a batch may have."""
    listed = list(rows)
    for start in range(0, len(listed), EXAMPLES_IN_A_BATCH):
        yield listed[start : start + EXAMPLES_IN_A_BATCH]


def hold(rows: Iterable[Any], check: Callable[[Any], None]) -> None:
    """Checks each row, and then says of all that failed which they are and why."""
    failed = []
    for row in rows:
        try:
            check(row)
        except Exception as error:
            failed.append(f"{row}: {type(error).__name__}: {error}")
    assert not failed, "\n".join(failed)
