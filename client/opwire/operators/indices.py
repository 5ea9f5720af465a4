"""Shared by operators that output indices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ..rules import Derived, Output, Rule, Values, reduced
from ..tensor import DataType
from ..violation import Code, Fault

INDICES = (DataType.INT64, DataType.UINT64, DataType.INT32, DataType.UINT32)


@dataclass(frozen=True, slots=True)
class IndexFits(Rule):
    """The greatest index along the axes fits in the output's data type (opwire's own rule, relevant only to INT32)."""

    code = Code.INDEX_OVERFLOW

    axes: str = "Axes"
    source: str = "InputTensor"
    output: str = "OutputTensor"

    def faults(self, values: Values) -> Iterator[Fault]:
        data_type: DataType = values[self.output].data_type
        sizes = values[self.source].sizes
        count = prod(sizes[axis] for axis in set(values[self.axes]))
        greatest = 2 ** (data_type.bits - data_type.is_signed) - 1
        if count - 1 > greatest:
            yield Fault(
                self.code,
                (self.output, "DataType"),
                f"indices go up to {count - 1}, but the maximum of {data_type.name} is {greatest}",
                [row.name for row in INDICES if row is not DataType.INT32],
            )


def index_output() -> Output:
    """Returns the output of an arg reduction: UINT32 unless given."""
    return Derived(reduced("InputTensor", "Axes"), default=DataType.UINT32)
