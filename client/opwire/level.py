"""Feature levels, and the support rows that say what an operator takes from which level on.

Source: ``DML_FEATURE_LEVEL`` and the "Tensor support" tables of the operator pages of the DirectML reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .tensor import DataType

PREFIX = "DML_FEATURE_LEVEL_"


class FeatureLevel(IntEnum):
    """A DirectML feature level; the value is that of directml.h, and levels compare as integers."""

    V1_0 = 0x1000
    V2_0 = 0x2000
    V2_1 = 0x2100
    V3_0 = 0x3000
    V3_1 = 0x3100
    V4_0 = 0x4000
    V4_1 = 0x4100
    V5_0 = 0x5000
    V5_1 = 0x5100
    V5_2 = 0x5200
    V6_0 = 0x6000
    V6_1 = 0x6100
    V6_2 = 0x6200
    V6_3 = 0x6300
    V6_4 = 0x6400

    @property
    def short(self) -> str:
        """The digits alone: ``4_1``."""
        return self.name[1:]

    def __str__(self) -> str:
        return PREFIX + self.short

    @classmethod
    def parse(cls, given: object) -> FeatureLevel:
        """The level written as ``DML_FEATURE_LEVEL_4_1``, ``4_1``, ``"0x4100"`` or the integer 0x4100.

        Raises:
            ValueError: there is no such level.
        """
        if isinstance(given, cls):
            return given
        if isinstance(given, int) and not isinstance(given, bool):
            return cls(given)
        if isinstance(given, str):
            level = _SPELLINGS.get(given.removeprefix(PREFIX))
            if level is not None:
                return level
        raise ValueError(f"{given!r} is not a feature level")


_SPELLINGS = {spelling: level for level in FeatureLevel for spelling in (level.short, f"0x{level.value:04x}")}

LOWEST, HIGHEST = min(FeatureLevel), max(FeatureLevel)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a row allows for one tensor, or for each of an array.

    Attributes:
        data_types: in the order in which they are listed.
        ranks: the least and the greatest dimension count.
        required: whether it must be given from this level on; a tensor that may be null at some level only is
            optional in the struct.
        dimensions: what the page calls the sizes, those in brackets left out at lower ranks; None if it names none.
    """

    data_types: tuple[DataType, ...]
    ranks: tuple[int, int]
    required: bool = False
    dimensions: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of an operator's support table: what each of its tensors may be from ``level`` on.

    ``required`` names the tensors that are optional in the struct and not at this level.
    """

    level: FeatureLevel
    tensors: Mapping[str, Limits]
    required: tuple[str, ...] = ()


Rows = tuple[Row, ...]
"""Support rows, highest level first. Each row contains all that the rows below it allow."""


def row_for(rows: Iterable[Row], level: FeatureLevel) -> Row | None:
    """The row that holds at a level: the greatest not above it, or None before the operator exists."""
    return next((row for row in rows if row.level <= level), None)


@dataclass(frozen=True, slots=True)
class Support:
    """The support rows of an operator, which may depend on an attribute.

    Attributes:
        attribute: that they depend on, or None.
        groups: the rows, each time with the values of the attribute that they are for; one group if there is none.
    """

    attribute: str | None
    groups: tuple[tuple[frozenset[int], Rows], ...]

    def rows(self, values: Mapping[str, Any]) -> Rows:
        """The rows for the attributes of a desc; none while the one that they depend on is unknown."""
        if self.attribute is None:
            return self.groups[0][1]
        chosen = values.get(self.attribute)
        return next((rows for among, rows in self.groups if chosen in among), ())
