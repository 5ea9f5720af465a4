"""GATHER: slices of a tensor picked by index.

Source: ``DML_GATHER_OPERATOR_DESC``. Its ranges and shapes follow the worked examples where the text contradicts them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..operator import Example, declare
from ..rules import Derived, Rule, Sizes, Values, axis, between, leading_ones, number, rank, same_rank
from ..violation import Code, Fault
from .work import elements_written


def _gathered(values: Values) -> list[int]:
    """The sizes of what is gathered, however many they are: the axis gives way to the dimensions of the indices."""
    source, indices = values["InputTensor"].sizes, values["IndicesTensor"].sizes
    at, kept = values["Axis"], values["IndexDimensions"]
    return [*source[:at], *indices[len(indices) - kept :], *source[at + 1 :]]


def _sizes(values: Values) -> Sizes:
    """The gathered sizes at the rank of the input: leading ones are added, or cut off."""
    wanted = values["InputTensor"].rank
    sizes = [1] * wanted + _gathered(values)
    return tuple((size,) for size in sizes[len(sizes) - wanted :])


@dataclass(frozen=True, slots=True)
class FitsRank(Rule):
    """Of what is gathered only ones are cut off in front."""

    code = Code.RANKS_DIFFER

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(("InputTensor", "IndicesTensor", "Axis", "IndexDimensions"))

    def faults(self, values: Values) -> Iterator[Fault]:
        tensor = values["InputTensor"]
        if values["Axis"] >= tensor.rank or not 0 <= values["IndexDimensions"] <= values["IndicesTensor"].rank:
            return
        sizes = _gathered(values)
        if any(size != 1 for size in sizes[: max(len(sizes) - tensor.rank, 0)]):
            message = f"the output would have the sizes {sizes}, and its rank is that of InputTensor, {tensor.rank}"
            yield Fault(self.code, ("IndexDimensions",), message)


def _example(
    name: str,
    axis: int,
    dimensions: int,
    source: list[object],
    indices: list[object],
    output: object,
    *,
    sizes: tuple[list[int], list[int]],
) -> Example:
    desc = {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": sizes[0]},
        "IndicesTensor": {"DataType": "UINT32", "Sizes": sizes[1]},
        "Axis": axis,
        "IndexDimensions": dimensions,
    }
    page = "DML_GATHER_OPERATOR_DESC, worked example"
    inputs = {"InputTensor": source, "IndicesTensor": indices}
    return Example(name=name, desc=desc, inputs=inputs, outputs={"OutputTensor": output}, source=page)


FAMILY = (
    declare(
        "GATHER",
        rules=(
            same_rank("InputTensor", "IndicesTensor"),
            axis("Axis", of="InputTensor"),
            between(number("IndexDimensions"), 0, rank("InputTensor")),
            leading_ones("IndicesTensor", number("IndexDimensions")),
            FitsRank(),
        ),
        outputs={"OutputTensor": Derived(_sizes, like="InputTensor")},
        work=elements_written,
        examples=(
            _example("elements", 0, 1, [11, 12, 13, 14], [3, 1, 3, 0, 2], [14, 12, 14, 11, 13], sizes=([4], [5])),
            _example(
                "rows",
                0,
                1,
                [[1, 2], [3, 4], [5, 6]],
                [[0, 1, 1, 2]],
                [[1, 2], [3, 4], [3, 4], [5, 6]],
                sizes=([3, 2], [1, 4]),
            ),
        ),
    ),
)
