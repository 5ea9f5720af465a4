"""Elements and slices of a tensor read or written by index.

Source: the pages of ``DML_GATHER..._OPERATOR_DESC``, ``DML_SCATTER_OPERATOR_DESC``, ``DML_SCATTER_ND_OPERATOR_DESC``.
Ranges and shapes follow DirectML where the text contradicts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import dropwhile
from typing import Any

from ..operator import Attributes, BadExample, Example, Tensors, declare
from ..rules import (
    Derived,
    Rule,
    Sizes,
    Values,
    axis,
    between,
    computable,
    documented,
    leading_ones,
    like,
    number,
    observed,
    rank,
    same_rank,
    same_sizes,
    same_type,
    size,
    sizes_of,
)
from ..tensor import MAX_ELEMENTS
from ..violation import Code, Fault
from .tuples import BatchesAgree, EachWritten, Tuples, TuplesFitRank, UpdatesFit, counted
from .work import elements_written


def _gathered(values: Values) -> list[int]:
    """Returns the gathered sizes, of any rank: the dimensions of the indices replace the axis."""
    source, indices = values["InputTensor"].sizes, values["IndicesTensor"].sizes
    at, kept = values["Axis"], values["IndexDimensions"]
    return [*source[:at], *indices[len(indices) - kept :], *source[at + 1 :]]


def _sizes(values: Values) -> Sizes:
    """Returns the gathered sizes at the rank of the input; DirectML checks neither sizes added in front nor removed."""
    wanted = values["InputTensor"].rank
    sizes = _gathered(values)[-wanted:]
    return (*(range(1, MAX_ELEMENTS),) * (wanted - len(sizes)), *((size,) for size in sizes))


@dataclass(frozen=True, slots=True)
class LeadingIndices(Rule):
    """The sizes of the indices in front, which do not count, are ones or, after ones, those of the input in front."""

    code = Code.SIZES_MISMATCH
    members = ("InputTensor", "IndicesTensor", "Axis", "IndexDimensions")

    def faults(self, values: Values) -> Iterator[Fault]:
        front = _front(values)
        source = tuple(dropwhile(_is_one, values["InputTensor"].sizes))
        if front != source[: len(front)] or len(front) > values["Axis"]:
            yield _front_fault(front, values)


@dataclass(frozen=True, slots=True)
class IndicesNotBatched(Rule):
    """The sizes of the indices in front, which do not count, are ones."""

    code = Code.SIZES_MISMATCH
    members = LeadingIndices.members

    def faults(self, values: Values) -> Iterator[Fault]:
        front = _front(values)
        if front and not any(LeadingIndices().faults(values)):
            yield _front_fault(front, values)


def _front(values: Values) -> tuple[int, ...]:
    """Returns the sizes of the indices before those that count, without leading ones."""
    sizes = values["IndicesTensor"].sizes
    return tuple(dropwhile(_is_one, sizes[: max(len(sizes) - values["IndexDimensions"], 0)]))


def _front_fault(front: tuple[int, ...], values: Values) -> Fault:
    kept = values["IndexDimensions"]
    at = values["IndicesTensor"].rank - kept - len(front)
    message = f"sizes {list(front)} given for dimensions of IndicesTensor before the last {kept}"
    return Fault(Code.SIZES_MISMATCH, ("IndicesTensor", "Sizes", at), message, [1])


def _is_one(size: int) -> bool:
    return size == 1


@dataclass(frozen=True, slots=True)
class FitsRank(Rule):
    """What is gathered fits the rank of the input, with only leading ones removed."""

    code = Code.RANKS_DIFFER
    members = ("InputTensor", "IndicesTensor", "Axis", "IndexDimensions")

    def faults(self, values: Values) -> Iterator[Fault]:
        tensor = values["InputTensor"]
        if values["Axis"] >= tensor.rank or not 0 <= values["IndexDimensions"] <= values["IndicesTensor"].rank:
            return
        sizes = _gathered(values)
        if any(size != 1 for size in sizes[: max(len(sizes) - tensor.rank, 0)]):
            message = f"the output would have sizes {sizes}, but its rank must be that of InputTensor, {tensor.rank}"
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
    return Example(name, desc, inputs, {"OutputTensor": output}, source=page)


def _scattered(attributes: Attributes, tensors: Tensors) -> int:
    """The input is copied, and then each update is written."""
    return elements_written(attributes, tensors) + int(tensors["UpdatesTensor"].element_count)


def _desc(sizes: list[int], indices: list[int], updates: list[int] | None = None, **attributes: Any) -> dict[str, Any]:
    desc: dict[str, Any] = {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": sizes},
        "IndicesTensor": {"DataType": "UINT32", "Sizes": indices},
    }
    if updates is not None:
        desc["UpdatesTensor"] = {"DataType": "FLOAT32", "Sizes": updates}
    return {**desc, **attributes}


_PLAIN, _BATCHED = Tuples(), Tuples(batch="BatchDimensionCount")
_CUBE = [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]

FAMILY = (
    declare(
        "GATHER",
        rules=(
            same_rank("InputTensor", "IndicesTensor"),
            axis("Axis", of="InputTensor"),
            between(number("IndexDimensions"), 0, rank("InputTensor")),
            LeadingIndices(),
            computable(
                IndicesNotBatched(),
                FitsRank(),
                leading_ones("OutputTensor", rank("InputTensor") - 1 + number("IndexDimensions")),
            ),
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
    declare(
        "SCATTER_ELEMENTS",
        rules=(
            same_type("InputTensor", "UpdatesTensor"),
            same_rank("InputTensor", "IndicesTensor", "UpdatesTensor"),
            axis("Axis", of="InputTensor"),
            same_sizes("InputTensor", "IndicesTensor", but_along="Axis"),
            observed(between(size("IndicesTensor", "Axis"), None, size("InputTensor", "Axis"))),
            same_sizes("IndicesTensor", "UpdatesTensor"),
        ),
        outputs={"OutputTensor": like("InputTensor")},
        work=_scattered,
        examples=(
            Example(
                "rows",
                _desc([3, 3], [2, 3], [2, 3], Axis=0),
                {
                    "InputTensor": [[0] * 3] * 3,
                    "IndicesTensor": [[1, 0, 2], [0, 2, 1]],
                    "UpdatesTensor": [[10, 11, 12], [20, 21, 22]],
                },
                {"OutputTensor": [[20, 11, 0], [10, 0, 22], [0, 21, 12]]},
                source="DML_SCATTER_OPERATOR_DESC, worked example",
            ),
            Example(
                "last_one_wins",
                _desc([5], [4], [4], Axis=0),
                {"InputTensor": [0, 1, 2, 3, 4], "IndicesTensor": [3, 1, 3, 0], "UpdatesTensor": [5, 6, 7, 8]},
                {"OutputTensor": [8, 6, 2, 7, 4]},
                source="DML_SCATTER_OPERATOR_DESC, worked example",
            ),
            Example(
                "any_index_of_one_element",
                _desc([2, 1], [2, 1], [2, 1], Axis=1),
                {"InputTensor": [[0], [0]], "IndicesTensor": [[0], [7]], "UpdatesTensor": [[1], [2]]},
                {"OutputTensor": [[1], [2]]},
            ),
        ),
        bad_examples=(
            BadExample(
                "updates_unlike_indices",
                _desc([3, 3], [2, 3], [3, 3], Axis=0),
                Code.SIZES_MISMATCH,
                "/UpdatesTensor/Sizes",
            ),
        ),
    ),
    declare(
        "GATHER_ELEMENTS",
        rules=(
            same_rank("InputTensor", "IndicesTensor"),
            axis("Axis", of="InputTensor"),
            same_sizes("InputTensor", "IndicesTensor", but_along="Axis"),
        ),
        outputs={"OutputTensor": Derived(sizes_of("IndicesTensor"), like="InputTensor")},
        work=elements_written,
        examples=(
            Example(
                "columns",
                _desc([3, 3], [2, 3], Axis=0),
                {"InputTensor": [[1, 2, 3], [4, 5, 6], [7, 8, 9]], "IndicesTensor": [[1, 2, 0], [2, 0, 0]]},
                {"OutputTensor": [[4, 8, 3], [7, 2, 3]]},
                source="DML_GATHER_ELEMENTS_OPERATOR_DESC, worked example with the type of the input",
            ),
        ),
        bad_examples=(
            BadExample(
                "sizes_differ_beside_the_axis",
                _desc([3, 3], [3, 2], Axis=0),
                Code.SIZES_MISMATCH,
                "/IndicesTensor/Sizes",
            ),
        ),
    ),
    declare(
        "GATHER_ND",
        rules=(
            same_rank("InputTensor", "IndicesTensor"),
            counted(_PLAIN),
            observed(TuplesFitRank(_PLAIN, "InputTensor")),
        ),
        outputs={"OutputTensor": Derived(_PLAIN.sizes, like="InputTensor")},
        work=elements_written,
        examples=(
            Example(
                "rows",
                _desc([1, 2, 2, 2], [1, 1, 2, 2], InputDimensionCount=3, IndicesDimensionCount=2),
                {"InputTensor": [_CUBE], "IndicesTensor": [[[[0, 1], [1, 0]]]]},
                {"OutputTensor": [[[[2, 3], [4, 5]]]]},
                source="DML_GATHER_ND_OPERATOR_DESC, worked example",
            ),
        ),
        bad_examples=(
            BadExample(
                "tuples_too_long",
                _desc([2, 2], [2, 3], InputDimensionCount=2, IndicesDimensionCount=2),
                Code.OUT_OF_RANGE,
                "/IndicesTensor/Sizes/1",
            ),
        ),
    ),
    declare(
        "SCATTER_ND",
        rules=(
            same_type("InputTensor", "UpdatesTensor"),
            documented(same_rank("InputTensor", "IndicesTensor", "UpdatesTensor")),
            counted(_PLAIN),
            observed(EachWritten(), TuplesFitRank(_PLAIN, "UpdatesTensor")),
            UpdatesFit(_PLAIN),
        ),
        outputs={"OutputTensor": like("InputTensor")},
        work=_scattered,
        examples=(
            Example(
                "elements",
                _desc([1, 8], [4, 1], [1, 4], InputDimensionCount=1, IndicesDimensionCount=2),
                {
                    "InputTensor": [[1, 2, 3, 4, 5, 6, 7, 8]],
                    "IndicesTensor": [[4], [3], [1], [7]],
                    "UpdatesTensor": [[9, 10, 11, 12]],
                },
                {"OutputTensor": [[1, 11, 3, 10, 9, 6, 7, 12]]},
                source="DML_SCATTER_ND_OPERATOR_DESC, worked example with equal ranks",
            ),
        ),
        bad_examples=(
            BadExample(
                "updates_of_other_sizes",
                _desc([1, 8], [4, 1], [1, 5], InputDimensionCount=1, IndicesDimensionCount=2),
                Code.SIZES_MISMATCH,
                "/UpdatesTensor/Sizes",
            ),
        ),
    ),
    declare(
        "GATHER_ND1",
        rules=(
            same_rank("InputTensor", "IndicesTensor"),
            between(number("BatchDimensionCount"), None, number("InputDimensionCount") - 1),
            between(number("BatchDimensionCount"), None, number("IndicesDimensionCount") - 1),
            counted(_BATCHED),
            observed(TuplesFitRank(_BATCHED, "InputTensor")),
            computable(BatchesAgree(_BATCHED)),
        ),
        outputs={"OutputTensor": Derived(_BATCHED.sizes, like="InputTensor")},
        work=elements_written,
        examples=(
            Example(
                "batches",
                _desc(
                    [1, 3, 2, 2], [1, 3, 2, 2], InputDimensionCount=3, IndicesDimensionCount=3, BatchDimensionCount=1
                ),
                {
                    "InputTensor": [[[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9], [10, 11]]]],
                    "IndicesTensor": [[[[0, 0], [1, 1]], [[1, 1], [0, 0]], [[0, 1], [1, 0]]]],
                },
                {"OutputTensor": [[[[0, 3], [7, 4], [9, 10]]]]},
                source="DML_GATHER_ND1_OPERATOR_DESC, worked example",
            ),
        ),
        bad_examples=(
            BadExample(
                "batches_differ",
                _desc([3, 2], [2, 1], InputDimensionCount=2, IndicesDimensionCount=2, BatchDimensionCount=1),
                Code.NOT_COMPUTABLE,
                "/IndicesTensor/Sizes/0",
            ),
            BadExample(
                "nothing_but_batches",
                _desc([2, 2], [2, 1], InputDimensionCount=2, IndicesDimensionCount=2, BatchDimensionCount=2),
                Code.OUT_OF_RANGE,
                "/BatchDimensionCount",
            ),
        ),
    ),
)
