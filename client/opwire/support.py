"""Support rows: the data types and ranks that an operator's tensors may have at each level.

Source: the "Tensor support" tables of the operator pages of the DirectML reference, corrected by the answers of
DirectML itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .level import FeatureLevel
from .tensor import BufferTensorDesc, DataType
from .violation import Basis


@dataclass(frozen=True, slots=True)
class TensorSupport:
    """What a row allows for a tensor, or for each tensor of an array.

    Attributes:
        data_types: the data types, in the order of the source.
        ranks: the minimum and maximum dimension count.
        required: whether it must be given from this level on, although it is optional in the struct, since it may be
            null at another level.
        dimensions: the names of the sizes on the page, bracketed if absent at lower ranks; None if it gives none.
        page: what the page allows instead, where DirectML's own answers differ; None where they agree.
    """

    data_types: tuple[DataType, ...]
    ranks: tuple[int, int]
    required: bool = False
    dimensions: tuple[str, ...] | None = None
    page: TensorSupport | None = None

    @property
    def documented(self) -> TensorSupport:
        """What the page allows."""
        return self.page or self

    def admit(self, desc: BufferTensorDesc) -> bool:
        """Returns whether a tensor is allowed."""
        return desc.data_type in self.data_types and self.ranks[0] <= len(desc.sizes) <= self.ranks[1]


@dataclass(frozen=True, slots=True)
class SupportRow:
    """One row of an operator's support table: what is allowed for each of its tensors from ``level`` on.

    Attributes:
        level: the level.
        tensors: the limits of each tensor.
        required: the tensors that are optional in the struct but required at this level.
        basis: ``both`` if the page and DirectML agree, ``page`` if DirectML was asked at none of the levels where the
            row is in effect, ``observed`` where DirectML differs.
    """

    level: FeatureLevel
    tensors: Mapping[str, TensorSupport]
    required: tuple[str, ...] = ()
    basis: Basis = Basis.BOTH


SupportRows = tuple[SupportRow, ...]
"""Support rows, highest level first. Each row includes what the pages of the rows below it allow."""


def row_for(rows: Iterable[SupportRow], level: FeatureLevel) -> SupportRow | None:
    """Returns the row in effect at a level: the highest one not above it, or None before the operator exists."""
    for row in rows:
        if row.level <= level:
            return row
    return None


@dataclass(frozen=True, slots=True)
class Support:
    """The support rows of an operator, which may depend on an attribute.

    Attributes:
        attribute: the attribute that they depend on, or None.
        groups: the rows for each set of values of the attribute; a single group if there is no attribute.
    """

    attribute: str | None
    groups: tuple[tuple[frozenset[int], SupportRows], ...]
    ranks: Mapping[str, tuple[int, int]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rows = [row for _, group in self.groups for row in group]
        ranks = {
            name: (min(row.tensors[name].ranks[0] for row in rows), max(row.tensors[name].ranks[1] for row in rows))
            for name in (rows[0].tensors if rows else ())
        }
        object.__setattr__(self, "ranks", ranks)

    def rows(self, values: Mapping[str, Any]) -> SupportRows:
        """Returns the rows for the attributes of a desc, or none if the attribute that they depend on is unknown."""
        if self.attribute is None:
            return self.groups[0][1]
        chosen = values.get(self.attribute)
        return next((rows for among, rows in self.groups if chosen in among), ())
