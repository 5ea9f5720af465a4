"""The worked examples of all executable operators, as rows for tests.

Every operator times every example in every form would be slow, so all examples run in one form and in large batches,
and only ``VARIED`` ones in every form; ``scripts/test-all`` runs every combination.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest

from opwire import DataType, Result
from opwire.operator import Example, Operator
from opwire.schema import CATALOG
from opwire.tensor import Array
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
        """The operator as it appears in requests."""
        return {"type": self.operator.name, "desc": dict(self.example.desc)}


def by_tensor(operator: Operator[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an example's tensors by the names that plans use; those of arrays one by one."""
    arrays = {member.name for member in operator.members.tensors if member.is_array}
    found: dict[str, Any] = {}
    for name, values in given.items():
        found |= {element(name, i): each for i, each in enumerate(values)} if name in arrays else {name: values}
    return found


ROWS = [Row(operator, example) for operator in EXECUTABLE.values() for example in operator.examples]


def _features(row: Row) -> Iterator[object]:
    """Yields what may matter to a form: the family, and the kinds of tensors."""
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
"""Names of rows chosen so that each adds a kind of tensor not covered by those before it."""

EXAMPLES = [pytest.param(*row, id=str(row)) for row in ROWS]
"""All rows, for tests that run each on its own."""

IN_EVERY_FORM = [
    pytest.param(*row, id=str(row), marks=[] if str(row) in VARIED else [pytest.mark.thorough]) for row in ROWS
]
"""All rows; only the varied ones run by default."""


def array(values: object, data_type: str) -> Array:
    """Converts nested lists to an array; NumPy parses "NaN" and "Infinity" as intended."""
    return np.array(values, np.float64 if "FLOAT" in data_type else object).astype(DataType[data_type].dtype)


def tensors(row: Row) -> dict[str, Any]:
    """Returns an example's inputs as arrays, or lists of arrays."""
    found: dict[str, Any] = {}
    for name, values in row.example.inputs.items():
        desc = row.example.desc[name]
        if isinstance(desc, list):
            found[name] = [array(each, of["DataType"]) for each, of in zip(values, desc, strict=True)]
        else:
            found[name] = array(values, desc["DataType"])
    return found


def assert_right(result: Result, outputs: Mapping[str, Any]) -> None:
    assert list(result.outputs) == list(outputs)
    for name, right in outputs.items():
        found = result.outputs[name]
        pairs = zip(found, right, strict=True) if isinstance(found, list) else [(found, right)]
        for each, values in pairs:
            np.testing.assert_array_equal(each, array(values, DataType.of(each.dtype).name), strict=True)


EXAMPLES_IN_A_BATCH = 128


def in_batches(rows: Iterable[Row] = ROWS) -> Iterator[list[Row]]:
    """Yields rows in batches of the size that a request may have."""
    listed = list(rows)
    for start in range(0, len(listed), EXAMPLES_IN_A_BATCH):
        yield listed[start : start + EXAMPLES_IN_A_BATCH]


def check_all(rows: Iterable[Any], check: Callable[[Any], None]) -> None:
    """Checks every row, then reports all failures together."""
    failed = []
    for row in rows:
        try:
            check(row)
        except Exception as error:
            failed.append(f"{row}: {type(error).__name__}: {error}")
    assert not failed, "\n".join(failed)
