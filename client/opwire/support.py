"""Support rows: what the tensors of an operator may be, from which level on.

Source: the "Tensor support" tables of the operator pages of the DirectML reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .level import FeatureLevel
from .tensor import BufferTensorDesc, DataType


@dataclass(frozen=True, slots=True)
class TensorSupport:
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

    def admit(self, desc: BufferTensorDesc) -> bool:
        """Whether a tensor may be so."""
        return desc.data_type in self.data_types and self.ranks[0] <= len(desc.sizes) <= self.ranks[1]


@dataclass(frozen=True, slots=True)
class SupportRow:
    """One line of an operator's support table: what each of its tensors may be from ``level`` on.

    ``required`` names the tensors that are optional in the struct and not at this level.
    """

    level: FeatureLevel
    tensors: Mapping[str, TensorSupport]
    required: tuple[str, ...] = ()


SupportRows = tuple[SupportRow, ...]
"""Support rows, highest level first. Each row contains all that the rows below it allow."""


def row_for(rows: Iterable[SupportRow], level: FeatureLevel) -> SupportRow | None:
    """The row that holds at a level: the greatest not above it, or None before the operator exists."""
    for row in rows:
        if row.level <= level:
            return row
    return None


@dataclass(frozen=True, slots=True)
class Support:
    """The support rows of an operator, which may depend on an attribute.

    Attributes:
        attribute: that they depend on, or None.
        groups: the rows, each time with the values of the attribute that they are for; one group if there is none.
    """

    attribute: str | None
    groups: tuple[tuple[frozenset[int], SupportRows], ...]

    def rows(self, values: Mapping[str, Any]) -> SupportRows:
        """The rows for the attributes of a desc; none while the one that they depend on is unknown."""
        if self.attribute is None:
            return self.groups[0][1]
        chosen = values.get(self.attribute)
        return next((rows for among, rows in self.groups if chosen in among), ())
