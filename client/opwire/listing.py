"""Filters for listings of operator types."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .level import HIGHEST, FeatureLevel
from .operator import Operator
from .operators import OPERATORS
from .schema import CATALOG, OperatorType, schema_of
from .support import row_for
from .tensor import DataType

FAMILIES: Collection[str] = tuple(sorted({kind.family for kind in CATALOG.values()}))
"""The operator families, sorted by name."""


class State(StrEnum):
    """How far opwire supports an operator type: known (all are), declared (descs are checked) or executable."""

    KNOWN = "known"
    DECLARED = "declared"
    EXECUTABLE = "executable"


_ORDER = {state: i for i, state in enumerate(State)}


def state_of(kind: OperatorType, executable: Container[str]) -> State:
    """Returns the state of an operator type; ``executable`` has the names of those that a device runs."""
    if kind.name in executable:
        return State.EXECUTABLE
    return State.DECLARED if kind.name in OPERATORS else State.KNOWN


@dataclass(frozen=True, slots=True)
class Selection:
    """A filter on operator types; None matches all.

    Attributes:
        state: the minimum state.
        level: a feature level at which they exist.
        family: the family they belong to.
        data_type: a data type that one of their tensors may have, at ``level`` or else at the highest level.
    """

    state: State = State.KNOWN
    level: FeatureLevel | None = None
    family: str | None = None
    data_type: DataType | None = None

    @classmethod
    def parse(cls, state: str | None, level: str | None, family: str | None, data_type: str | None) -> Selection:
        """Parses a selection.

        Raises:
            ValueError: an argument is invalid; the message says what is allowed.
        """
        chosen = None if level is None else _level(level)
        if family is not None and family not in FAMILIES:
            raise ValueError(f"family is {family[:60]!r}; allowed: {', '.join(FAMILIES)}")
        wanted = None if data_type is None else _data_type(data_type)
        return cls(State.KNOWN if state is None else _state(state), chosen, family, wanted)

    def operators(self, executable: Container[str]) -> Iterator[OperatorType]:
        """Yields the matching operator types by ascending value; ``executable`` has the names of those that run."""
        return (kind for kind in CATALOG.values() if self._holds(kind, executable))

    def _holds(self, kind: OperatorType, executable: Container[str]) -> bool:
        if _ORDER[state_of(kind, executable)] < _ORDER[self.state]:
            return False
        if self.family not in (None, kind.family):
            return False
        level = HIGHEST if self.level is None else self.level
        return kind.introduced <= level and (self.data_type is None or _takes(kind, self.data_type, level))


def _takes(kind: OperatorType, data_type: DataType, level: FeatureLevel) -> bool:
    rows = (row_for(group, level) for _, group in schema_of(kind.name).support.groups)
    return any(data_type in limits.data_types for row in rows if row is not None for limits in row.tensors.values())


def _level(given: str) -> FeatureLevel:
    try:
        return FeatureLevel.parse(given)
    except ValueError:
        levels = ", ".join(level.short for level in FeatureLevel)
        raise ValueError(f"level is {given[:60]!r}; allowed: {levels}") from None


def _state(given: str) -> State:
    if given not in list(State):
        raise ValueError(f"state is {given[:60]!r}; allowed: {', '.join(State)}")
    return State(given)


def _data_type(given: str) -> DataType:
    name = given.removeprefix("DML_TENSOR_DATA_TYPE_")
    if name not in DataType.__members__:
        raise ValueError(f"data type is {given[:60]!r}; allowed: {', '.join(DataType.__members__)}")
    return DataType[name]


def one_of_each_family(operators: Mapping[str, Operator[Any]]) -> Iterator[Operator[Any]]:
    """Yields the first operator with a worked example of each family, as samples of what requests look like."""
    seen: set[str] = set()
    for name, operator in operators.items():
        family = CATALOG[name].family
        if family not in seen and operator.examples:
            seen.add(family)
            yield operator
